"""``python -m benchmarks.agreement --cases N --seed S``: both engines on N random runs of the full model.

Writes what the runs have exercised to docs/results/agreement.md; ends with the smallest run that differs, if one does.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import click
from rich.progress import Progress

from tests.agreement import FEATURES, assert_agree, for_random_cases, seen
from tests.strategies import Case

DEFAULT_PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "agreement.md"


def page(cases: int, seed: int, total: Counter[str], requests: int, minutes: float) -> str:
    rows = [f"| {name} | {meaning} | {total[name]:,} |" for name, meaning in FEATURES.items()]
    return "\n".join(
        [
            "# The engines agree",
            "",
            f"`python -m benchmarks.agreement --cases {cases} --seed {seed}`: {cases:,} runs of both engines, "
            f"{requests:,} requests, in {minutes:.0f} minutes. Every timestamp of every request agreed to 10⁻⁶ s, "
            "every count and signal at every control step too (but for the last interval of runs that are down for "
            "good).",
            "",
            "| feature | meaning | runs |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--cases", default=10_000, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=DEFAULT_PAGE, help="The page written.")
def main(cases: int, seed: int, out: Path) -> None:
    """Hold the engines to each other on random runs, and say what these have exercised."""
    total: Counter[str] = Counter()
    requests = 0
    begin = time.perf_counter()
    with Progress() as progress:
        task = progress.add_task("runs", total=cases)

        def check(case: Case) -> None:
            nonlocal requests
            total.update(seen(case, assert_agree(case)))
            requests += len(case.stream)
            progress.advance(task)

        for_random_cases(check, cases, seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(cases, seed, total, requests, (time.perf_counter() - begin) / 60), encoding="utf-8")
    click.echo(f"{cases:,} runs agree; written: {out}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.agreement")
