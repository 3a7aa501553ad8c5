"""``python -m docs.scenario_pages``: a page for each family of shipped scenarios, from their files and ``describe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np
from rich.progress import track

from prfaas_env.cli.errors import run
from prfaas_env.config import ConfigError
from prfaas_env.describe.description import describe_scenario
from prfaas_env.describe.statistics import STATISTICS, Value
from prfaas_env.describe.words import written
from prfaas_env.resources import folder, names
from prfaas_env.scenario import Scenario, load_scenario

__all__ = ["FOLDER", "families", "family_page", "index_page"]

FOLDER = Path(__file__).resolve().parent / "scenarios"
SEEDS = (0, 1, 2)
COMMAND = "python -m docs.scenario_pages"


def families() -> dict[str, list[Scenario]]:
    """Every shipped scenario by its family, both in order of name."""
    found: dict[str, list[Scenario]] = {}
    for scenario in map(load_scenario, names("scenarios")):
        found.setdefault(scenario.family, []).append(scenario)
    return dict(sorted(found.items()))


def family_page(family: str, scenarios: Sequence[Scenario]) -> str:
    """The page of one family. Raises :class:`ConfigError` where a trace that it replays is absent."""
    for scenario in scenarios:
        if absent := scenario.workload.missing():
            raise ConfigError(f"scenario {scenario.name}: {absent}")
    seeds = ", ".join(map(str, SEEDS))
    lines = [
        f"# Scenario family `{family}`",
        "",
        f"Written by `{COMMAND}` from the scenarios' files and from what `describe` finds in seeds {seeds}.",
        "What the keys of a file mean, and where figures come from: [scenarios](../scenarios.md).",
        "",
    ]
    for scenario in scenarios:
        lines += [f"## {scenario.name}", "", scenario.notes, "", *_settings(scenario), ""]
        text = (folder("scenarios") / f"{scenario.name}.yaml").read_text(encoding="utf-8").rstrip()
        lines += ["```yaml", text, "```", ""]
    lines += ["## Statistics", "", *_table(scenarios), ""]
    lines += [
        f"Means of {len(SEEDS)} seeds, with the lowest and the highest where they differ. t*, N_p* and Λ_max come",
        "from the closed form: *planned* on the nominal workload beforehand, or *best* in hindsight. Pictures:",
        f"`python -m prfaas_env describe {scenarios[0].name} --out page.html`.",
        "",
    ]
    return "\n".join(lines)


def index_page(found: Mapping[str, Sequence[Scenario]]) -> str:
    """The list of the pages."""
    rows = [
        f"| [{family}]({family}.md) | `{scenario.name}` | {scenario.split} | {scenario.notes} |"
        for family, scenarios in found.items()
        for scenario in scenarios
    ]
    head = ["# Shipped scenarios", "", f"Written by `{COMMAND}`.", "", "| family | scenario | split | what |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def _settings(scenario: Scenario) -> list[str]:
    tags = ", ".join(scenario.tags)
    return [
        f"Split *{scenario.split}*; deployment `{scenario.deployment.name}`; tags {tags or '–'}; "
        f"version {scenario.version}, hash `{scenario.hash}`."
    ]


def _table(scenarios: Sequence[Scenario]) -> list[str]:
    """A row for each statistic that one of the scenarios has and that is not 0 in all of them."""
    found = [[describe_scenario(scenario, seed).statistics for seed in SEEDS] for scenario in scenarios]
    lines = ["| | " + " | ".join(f"`{scenario.name}`" for scenario in scenarios) + " |"]
    lines.append("|---" * (len(scenarios) + 1) + "|")
    section = ""
    for one in STATISTICS:
        values = [[seed[one.key] for seed in seeds] for seeds in found]
        if not any(value for seeds in values for value in seeds):
            continue
        if one.section != section:
            section = one.section
            lines.append(f"| **{section}** |" + " |" * len(scenarios))
        unit = written(one.key, None).unit
        words = f"{one.words}, {unit}" if unit else one.words
        lines.append(f"| {words} | " + " | ".join(_cell(one.key, seeds) for seeds in values) + " |")
    return lines


def _cell(key: str, values: Sequence[Value]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    whole = all(isinstance(value, int) for value in known)
    mean = float(np.mean(known))
    low, high = written(key, min(known)).text, written(key, max(known)).text
    text = written(key, round(mean) if whole else mean).text
    return text if low == high else f"{text} ({low}–{high})"


@click.command()
@click.argument("family", nargs=-1)
def main(family: tuple[str, ...]) -> None:
    """Write the pages of the families named, or all of them, and their index."""
    found = families()
    unknown = set(family) - set(found)
    if unknown:
        raise ConfigError(f"no family {', '.join(sorted(unknown))}; there are: {', '.join(found)}")
    FOLDER.mkdir(exist_ok=True)
    for name in track(family or tuple(found), "Describing", transient=True):
        (FOLDER / f"{name}.md").write_text(family_page(name, found[name]), encoding="utf-8")
    for stale in set(FOLDER.glob("*.md")) - {FOLDER / f"{name}.md" for name in (*found, "README")}:
        stale.unlink()
    (FOLDER / "README.md").write_text(index_page(found), encoding="utf-8")


if __name__ == "__main__":
    run(main, prog_name=COMMAND)
