"""Trains and plays what is missing: a folder a variant and training seed, finished once its figures are there.

What is played is the last model of a run and not the best by validation, so that a choice that spoils it shows.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.ablations.variants import COMMON, Variant
from prfaas_env.config import from_mapping
from prfaas_env.evaluation.results import write_atomically
from prfaas_env.evaluation.standings import BASELINE
from prfaas_env.evaluation.suites import resolve_suite
from prfaas_env.evaluation.together import summaries_together
from prfaas_env.policies import load_policy
from prfaas_env.seeds import validation_seeds
from prfaas_env.training.folder import RunFolder
from prfaas_env.training.run import train
from prfaas_env.training.settings import Settings

__all__ = ["FIGURES", "Study"]

FIGURES = ("ttft_mean_s", "ttft_p99_s", "goodput", "usd_per_million_output_tokens")

Episodes = dict[str, list[dict[str, float]]]
"""``FIGURES`` of every seed, by scenario."""


class Study:
    """Variants × training seeds of one budget in ``out``, played on the scenarios ``validation``.

    ``common`` replaces settings that all variants share. What a folder holds stays as it is: a run that was interrupted
    goes on, a finished one is not done again, whatever has changed in the code. Delete a folder to make it anew.
    """

    def __init__(
        self,
        out: Path,
        timesteps: int,
        episodes: int,
        validation: Sequence[str] = ("validation",),
        common: Mapping[str, Any] = COMMON,
        console: Console | None = None,
    ) -> None:
        self.timesteps, self.seeds = timesteps, validation_seeds(episodes)
        self._out, self._common, self._console = out / f"{timesteps}", common, console or Console(stderr=True)
        self._validation = list(validation)
        self.scenarios = resolve_suite(validation, self.seeds[0]).scenarios
        self._draws = [[scenario.draw(seed) for seed in self.seeds] for scenario in self.scenarios]

    def settings(self, variant: Variant, seed: int) -> dict[str, Any]:
        """All that a run is given. Nothing is validated on the way but its beginning and its end."""
        run = {"timesteps": self.timesteps, "checkpoint_every": self.timesteps, "validation_seeds": 1, "seed": seed}
        return {**self._common, "validation_scenarios": self._validation, **run, **variant.settings}

    def finished(self, variants: Sequence[Variant], seeds: Sequence[int]) -> Iterator[tuple[Variant, int, Episodes]]:
        """The figures of each, as soon as they are there."""
        for seed in seeds:
            for variant in variants:
                folder = self._out / variant.name / f"seed-{seed}"
                kept = folder / f"figures-{len(self.seeds)}.json"
                if not kept.is_file():
                    self._console.print(f"{variant.name}, seed {seed}", highlight=False)
                    model = self._trained(folder, self.settings(variant, seed))
                    gc.collect()  # a learner and its copies of the environment hold each other: some 300 MB
                    write_atomically(kept, json.dumps(self.played(str(model))) + "\n")
                yield variant, seed, json.loads(kept.read_text(encoding="utf-8"))

    def _trained(self, folder: Path, given: Mapping[str, Any]) -> Path:
        """The last model of the run in a folder, which is begun or gone on with if need be."""
        run = RunFolder(folder, from_mapping(Settings, given))
        if not run.checkpoints():
            train(given, folder, None, command="python -m benchmarks.ablations", console=self._console)
        elif run.steps < given["timesteps"]:
            train({}, None, folder, command="python -m benchmarks.ablations", console=self._console)
        return run.checkpoint(run.steps) / "model.zip"

    def played(self, policy: str = BASELINE) -> Episodes:
        """A policy on every scenario and seed of validation."""
        found: Episodes = {}
        for scenario, draws in zip(self.scenarios, self._draws, strict=True):
            summaries = summaries_together(scenario, load_policy(policy, scenario), draws)
            found[scenario.name] = [{key: summary[key] for key in FIGURES} for summary in summaries]
        return found
