"""``python -m docs.reference_pages``: the keys of hardware and deployment files, and the columns of results."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from prfaas_env.config import Record, describe, to_mapping
from prfaas_env.deployment import Deployment, Link, LocalCluster, PrefixCache, RemoteCluster
from prfaas_env.profile_files import DerivedPrefill, Scale
from prfaas_env.profiles import DecodeTable, KvSize, PrefillTable, Profile, Provenance
from prfaas_env.simulator.log import REJECT_REASONS, REQUEST_COLUMNS, STATUSES
from prfaas_env.simulator.signals import SIGNALS

__all__ = ["PAGES", "files_page", "log_page"]

FOLDER = Path(__file__).resolve().parent
COMMAND = "python -m docs.reference_pages"

# Endings of keys, longest first, and the unit that they say.
UNITS = {
    "bytes_per_token": "bytes per token",
    "usd_per_hour": "USD per hour",
    "usd_per_gb": "USD per GB",
    "gbps_per_connection": "Gbps",
    "tokens": "tokens",
    "gbps": "Gbps",
    "gib": "GiB",
    "mib": "MiB",
    "ms": "ms",
    "s": "s",
}

FILES = f"""\
# Hardware and deployment files

<!-- Written by `{COMMAND}` from the records of prfaas_env/profiles.py, profile_files.py and deployment.py. -->

A *profile* is one model on one instance type; the shipped ones are in [`hardware_profiles/`](../hardware_profiles). A
*deployment* says how many instances of which profile stand where, and what line joins them; the shipped ones are in
[`prfaas_env/deployments/`](../prfaas_env/deployments). Copy one of either, or start a deployment from another and say
what differs:

```yaml
extends: prfaas-pd       # a shipped name, or a path relative to this file
name: mine
local:
  profile: my-h20.yaml   # a profile of one's own, beside this file
link:
  capacity_gbps: 25.0
```

Its path is then a deployment wherever one is named: `python -m prfaas_env plan --deployment mine.yaml`, and
`deployment: mine.yaml` in a [scenario](scenarios.md).

A profile, too, can start from another. It must then say where the figures that it changes come from, and it may derive
them: `architecture` names a geometry of [attention.py](../prfaas_env/attention.py), from which `kv` follows;
`linear_per_full` divides its layers anew, n linear ones to one of full attention (what is assumed of prefill time then:
[models](models.md)); and `prefill` may change the times of the other profile:

```yaml
extends: hybrid-1t-8xh200
architecture: hybrid-1t
linear_per_full: 7
prefill: {{less_s: 0.28}}
provenance:
  kv: {{source: "geometry of hybrid-1t", how: derived, date: "2026-04"}}
  prefill: {{source: "hybrid-1t-8xh200 without its constant", how: assumed, date: "2026-04"}}
```

Unknown keys, values out of range and missing keys are refused in
one line. MiB and GiB are binary (2^20, 2^30 bytes), Gbps and GB decimal (10^9).
"""


def files_page() -> str:
    """The page of hardware and deployment files, in Markdown."""
    profile: list[tuple[str, type[Record]]] = [
        ("A profile", Profile),
        ("`prefill` of a profile", PrefillTable),
        ("`prefill` of a profile that derives it", DerivedPrefill),
        ("`scale` of a derived `prefill`", Scale),
        ("`kv` of a profile", KvSize),
        ("`decode` of a profile", DecodeTable),
        ("Each entry of `provenance`", Provenance),
    ]
    deployment: list[tuple[str, type[Record]]] = [
        ("A deployment", Deployment),
        ("`local` of a deployment", LocalCluster),
        ("`remote` of a deployment", RemoteCluster),
        ("`cache` of a cluster", PrefixCache),
        ("`link` of a deployment", Link),
    ]
    return "\n".join([FILES, *(_section(title, record) for title, record in profile + deployment)])


LOG = f"""\
# What a run hands back

<!-- Written by `{COMMAND}` from the tables in prfaas_env/simulator/log.py and prfaas_env/simulator/signals.py. -->

`prfaas_env.simulate(scenario, policy, seed)` gives a `RunResult`: `requests` and `timeline`, NumPy arrays with named
columns, the aggregates of both in `summary` (names end in their unit), and `meta`, which says what run it is.

```python
import prfaas_env
from prfaas_env.simulator.log import COMPLETED

run = prfaas_env.simulate("paper-stationary", "closed-form", seed=0)
done = run.requests[run.requests["status"] == COMPLETED]
wait_s = done["prefill_start_s"] - done["arrival_s"]  # in the queue of its prefill pool
egress_gbps = 8e-9 * run.timeline["link_sent_bytes"] / run.timeline["interval_s"]
```
"""

REQUESTS = """\
## `run.requests`

One row a request that arrived, in order of arrival. Times are in seconds of simulated time, NaN for what has not
happened. Instances are numbered from 0 inside their cluster.
"""

TIMELINE = """\
## `run.timeline`

One row a control step up to the horizon. "Now" is the end of the step.
"""


def log_page() -> str:
    """The page of a run's columns and codes, in Markdown."""
    requests = [f"| `{c.name}` | {_TYPES[c.dtype]} | {c.unit} | {_code(c.meaning)} |" for c in REQUEST_COLUMNS]
    timeline = [f"| `{signal.name}` | {signal.unit} | {signal.meaning} |" for signal in SIGNALS]
    return "\n".join(
        [
            LOG,
            REQUESTS,
            *("| column | type | unit | meaning |", "|---|---|---|---|", *requests, ""),
            *("| `status` | meaning |", "|---|---|", *_codes(STATUSES), ""),
            *("| `reject_reason` | meaning |", "|---|---|", *_codes(REJECT_REASONS), ""),
            TIMELINE,
            *("| column | unit | meaning |", "|---|---|---|", *timeline, ""),
        ]
    )


_TYPES = {"f8": "float64", "i8": "int64", "i4": "int32", "i1": "int8", "?": "bool"}


def _codes(meanings: Sequence[str]) -> list[str]:
    return [f"| `{code}` | {meaning or 'not rejected'} |" for code, meaning in enumerate(meanings)]


def _section(title: str, record: type[Record]) -> str:
    """A heading, what the record is, and a row for each of its keys."""
    about = " ".join(re.split(r"^- ``", inspect.getdoc(record) or "", maxsplit=1, flags=re.MULTILINE)[0].split())
    hints, meanings = get_type_hints(record, include_extras=True), _meanings(record)
    rows = [
        f"| `{f.name}` | {_asked(hints[f.name])} | {_unit(f.name)} | {_default(f)} | {meanings[f.name]} |"
        for f in fields(record)  # type: ignore[arg-type]  # records are dataclasses
    ]
    head = ["| key | value | unit | default | meaning |", "|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", _code(about), "", *head, *rows, ""])


def _meanings(record: type[Record]) -> dict[str, str]:
    """What the docstring of a record says of each key: its items ``- ``key``: …``."""
    items = re.findall(r"^- ``(\w+)``: (.*(?:\n  .*)*)", inspect.getdoc(record) or "", flags=re.MULTILINE)
    return {name: _code(" ".join(text.split())) for name, text in items}


def _code(text: str) -> str:
    """Code as Markdown has it, from code as docstrings have it."""
    return text.replace("``", "`")


def _asked(annotation: Any) -> str:
    if annotation is Profile:  # what a deployment file may say in its place
        return "a name, a path or a mapping"
    if any(isinstance(one, type) and is_dataclass(one) for one in (annotation, *get_args(annotation))):
        return "a mapping"
    return describe(annotation).removesuffix(" or nothing")


def _unit(name: str) -> str:
    return next((unit for ending, unit in UNITS.items() if name == ending or name.endswith(f"_{ending}")), "")


def _default(f: Field[Any]) -> str:
    value = f.default if f.default_factory is MISSING else f.default_factory()
    if value is MISSING:
        return "required"
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if is_dataclass(value):
        return "`{" + ", ".join(f"{key}: {part}" for key, part in to_mapping(value).items()) + "}`"
    return str(value)


PAGES = {"files.md": files_page, "log.md": log_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
