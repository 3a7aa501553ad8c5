"""``python -m docs.reference_pages``: the keys of hardware and deployment files, and the columns of results."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from prfaas_env.config import Record, describe, to_mapping
from prfaas_env.deployment import Deployment, Link, LocalCluster, PrefixCache, RemoteCluster
from prfaas_env.profiles import DecodeTable, KvSize, PrefillTable, Profile, Provenance

__all__ = ["PAGES", "files_page"]

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

<!-- Written by `{COMMAND}` from the records of prfaas_env/profiles.py and prfaas_env/deployment.py. -->

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
`deployment: mine.yaml` in a [scenario](scenarios.md). Unknown keys, values out of range and missing keys are refused in
one line. MiB and GiB are binary (2^20, 2^30 bytes), Gbps and GB decimal (10^9).
"""


def files_page() -> str:
    """The page of hardware and deployment files, in Markdown."""
    profile: list[tuple[str, type[Record]]] = [
        ("A profile", Profile),
        ("`prefill` of a profile", PrefillTable),
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


def _section(title: str, record: type[Record]) -> str:
    """A heading, what the record is, and a row for each of its keys."""
    about = " ".join(re.split(r"^- ``", inspect.getdoc(record) or "", maxsplit=1, flags=re.MULTILINE)[0].split())
    hints, meanings = get_type_hints(record, include_extras=True), _meanings(record)
    rows = [
        f"| `{f.name}` | {_asked(hints[f.name])} | {_unit(f.name)} | {_default(f)} | {meanings[f.name]} |"
        for f in fields(record)  # type: ignore[arg-type]  # records are dataclasses
    ]
    head = ["| key | value | unit | default | meaning |", "|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", about.replace("``", "`"), "", *head, *rows, ""])


def _meanings(record: type[Record]) -> dict[str, str]:
    """What the docstring of a record says of each key: its items ``- ``key``: …``."""
    items = re.findall(r"^- ``(\w+)``: (.*(?:\n  .*)*)", inspect.getdoc(record) or "", flags=re.MULTILINE)
    return {name: " ".join(text.split()).replace("``", "`") for name, text in items}


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


PAGES = {"files.md": files_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
