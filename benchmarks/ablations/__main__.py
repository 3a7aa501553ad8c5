"""``python -m benchmarks.ablations``: train what is missing, play it, write the table and the figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import prfaas_env
from benchmarks.ablations.page import COMMAND, PAGE, PICTURE, RESULTS, ablations_page, against, picture, summed_up
from benchmarks.ablations.study import Study
from benchmarks.ablations.variants import VARIANTS, Variant, named
from prfaas_env.config import ConfigError

__all__ = ["measured"]

OUT = PAGE.parents[2] / "results" / "ablations"
SCRIPTED = ("windowed-closed-form", "load-aware", "least-completion", "priced-completion")


def measured(study: Study, variants: Sequence[Variant], seeds: int) -> dict[str, Any]:
    """Everything that the page says, of the variants that were asked for."""
    baseline = study.played()
    only = "" if tuple(variants) == VARIANTS else f" --only {','.join(variant.name for variant in variants)}"
    models: dict[str, dict[int, dict[str, float]]] = {variant.name: {} for variant in variants}
    for variant, seed, episodes in study.finished(variants, range(seeds)):
        models[variant.name][seed] = against(episodes, baseline)
    return {
        "schema": 1,
        "command": f"{COMMAND} --timesteps {study.timesteps} --seeds {seeds} --episodes {len(study.seeds)}{only}",
        "version": prfaas_env.__version__,
        "timesteps": study.timesteps,
        "episodes": len(study.seeds),
        "scenarios": {one.name: one.hash for one in study.scenarios},
        "scripted": {name: against(study.played(name), baseline) for name in SCRIPTED},
        "variants": {
            variant.name: {
                "question": variant.question,
                "settings": dict(variant.settings),
                "seeds": models[variant.name],
                "figures": summed_up(list(models[variant.name].values())),
            }
            for variant in variants
        },
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", help="Variants or choices by name, with commas; all of them without it.")
@click.option("--timesteps", type=click.IntRange(min=1), default=96_000, show_default=True, help="Of each run.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Training seeds a variant.")
@click.option("--episodes", type=click.IntRange(min=2), default=4, show_default=True, help="Played a scenario.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=OUT, help="Where the runs lie.")
def main(only: str | None, timesteps: int, seeds: int, episodes: int, out: Path) -> None:
    """Train variants that differ in one choice, play them, write docs/results/ablations.md and its picture.

    Finished runs are not done again, and an interrupted one goes on.
    """
    try:
        variants = named(only)
        results = measured(Study(out, timesteps, episodes), variants, seeds)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(ablations_page(results), encoding="utf-8")
    PICTURE.write_text(picture(results), encoding="utf-8")
    Console().print(f"written: {PAGE}", highlight=False)


if __name__ == "__main__":
    main(prog_name=COMMAND)
