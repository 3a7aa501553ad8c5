"""``python -m docs.findings [--from-results]``: run the six questions, store the results, write page and pictures."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from rich.console import Console

import prfaas_env
from docs.findings.laboratory import Laboratory
from docs.findings.page import COMMAND, MODULES, findings_page, pictures
from docs.findings.results import FOLDER, RESULTS, read_results, rounded
from prfaas_env.evaluation.provenance import git_commit, libraries

SEEDS = 20


def run(console: Console) -> dict[str, Any]:
    """Every question on the same seeds."""
    begin_s = time.process_time()
    lab = Laboratory(range(SEEDS))
    closed_form, simulated = {}, {}
    with console.status("") as status:
        for number, module in enumerate(MODULES, start=1):
            status.update(f"{module.NAME} ({number} of {len(MODULES)}) …")
            closed_form[module.NAME] = module.closed_form()
            simulated[module.NAME] = module.simulate(lab)
    return {
        "schema": 1,
        "command": COMMAND,
        "version": prfaas_env.__version__,
        "git_commit": git_commit(),
        "libraries": libraries(),
        "seeds": lab.seeds,
        "cpu_s": round(time.process_time() - begin_s),
        "scenarios": lab.scenarios,
        "closed_form": rounded(closed_form),
        "simulated": rounded(simulated),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--from-results", is_flag=True, help=f"Run nothing: render {RESULTS.relative_to(FOLDER.parent)} anew.")
def main(from_results: bool) -> None:
    """Run the six questions, store the results, write docs/findings.md and its pictures."""
    if not from_results:
        results = run(Console(stderr=True))
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    results = read_results()
    (FOLDER / "findings.md").write_text(findings_page(results), encoding="utf-8")
    for name, picture in pictures(results).items():
        (FOLDER / "images" / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
