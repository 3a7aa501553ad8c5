"""``python -m docs.tuning_table``: the table of studies in docs/evaluation.md, from the files in agents/tuned/."""

from __future__ import annotations

from pathlib import Path

from prfaas_env.policies import policy_names, tuning_study
from prfaas_env.study import Study

__all__ = ["table", "with_table"]

PAGE = Path(__file__).resolve().parent / "evaluation.md"
COMMAND = "python -m docs.tuning_table"
BEGIN, END = f"<!-- Written by `{COMMAND}`. -->\n\n", "\n<!-- End of the table. -->\n"


def table() -> str:
    """A line a study, in the order of the policies."""
    header = ("policy", "parameters", "budget", "training", "validation", "wins", "in use")
    lines = [_line(study) for name in policy_names() if (study := tuning_study(name))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, ("---",) * len(header), *lines))


def _line(study: Study) -> tuple[str, ...]:
    held = study.validation
    validation = f"{held.ratio:.3f} [{held.low:.3f}, {held.high:.3f}]" if held else "–"
    wins = f"{held.win_share:.0%} of {held.pairs}" if held else "–"
    name = f"[`{study.policy}`](../agents/tuned/{study.policy}.yaml)"
    return name, str(len(study.spans)), study.budget, f"{study.objective:.3f}", validation, wins, study.use


def with_table(page: str) -> str:
    """The page with the table as the studies are now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
