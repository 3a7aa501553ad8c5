"""Is it better than doing nothing? Models against the zero action, in pairs, on seeds kept for this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.reward import REWARDS
from prfaas_env.evaluation.statistics import Comparison, compare
from prfaas_env.evaluation.together import summaries_together
from prfaas_env.scenario import Scenario
from prfaas_env.seeds import validation_seeds
from prfaas_env.training.settings import Settings

__all__ = ["OBJECTIVES", "Stopped", "Validation", "Validator"]

Summary = Mapping[str, float]


def _cost_s(summary: Summary) -> float:
    # The reward's own exchange rate between money and time.
    return summary["ttft_mean_s"] - REWARDS["cost"]["egress_usd"] * summary["cost_usd"] / summary["arrived"]


OBJECTIVES: Mapping[str, Callable[[Summary], float]] = {
    "ttft": lambda summary: summary["ttft_mean_s"],
    "mean-ttft": lambda summary: summary["ttft_mean_s"],
    # Arrivals for each one served in time; one added to both keeps it finite.
    "goodput": lambda summary: (1.0 + summary["arrived"]) / (1.0 + summary["goodput"] * summary["arrived"]),
    "cost": _cost_s,
}
"""For each kind of reward the figure of a whole, drained episode that it stands for; less is better."""


class Stopped(Exception):
    """The run is to end, and the validation with it."""


class Validation(NamedTuple):
    """Model against zero action over all scenarios: by the figure trained for, and by mean TTFT."""

    objective: Comparison
    ttft: Comparison

    def line(self, steps: int) -> dict[str, float]:
        """What ``validation.csv`` says of the model after ``steps`` steps; the figures TensorBoard shows."""
        return {
            "timesteps": steps,
            "objective_ratio": self.objective.ratio,
            "objective_ratio_low": self.objective.low,
            "objective_ratio_high": self.objective.high,
            "objective_wins": self.objective.win_share,
            "ttft_ratio": self.ttft.ratio,
            "ttft_interquartile_ratio": self.ttft.interquartile_ratio,
            "ttft_wins": self.ttft.win_share,
            "pairs": self.objective.pairs,
        }


class _Zero:
    """No correction. The absolute form has none to leave out, and is compared with the online closed form."""

    def __init__(self, settings: Settings) -> None:
        self.action_mode = "residual" if settings.action == "absolute" else settings.action

    def predict(self, observation: np.ndarray, *_: Any, **__: Any) -> tuple[np.ndarray, None]:
        return np.zeros((*np.shape(observation)[:-1], 2), dtype=np.float32), None


class _Acting:
    """A model in training, as a policy of the evaluation."""

    def __init__(self, model: Any, action: ActionName) -> None:
        self._model, self.action_mode = model, action

    def predict(self, *observed: Any, **more: Any) -> Any:
        return self._model.predict(*observed, **more)


class Validator:
    """Plays validation episodes, as ``evaluate.py`` would, on its own simulations: training is not disturbed.

    ``stop`` is asked between scenarios; when it says yes, :class:`Stopped` is raised.
    """

    def __init__(self, settings: Settings, scenarios: Sequence[Scenario], stop: Callable[[], bool]) -> None:
        self._settings, self._scenarios, self._stop = settings, scenarios, stop
        seeds = validation_seeds(settings.validation_seeds)
        self._draws = [[scenario.draw(seed) for seed in seeds] for scenario in scenarios]
        self._zero: list[Sequence[Summary]] | None = None

    def __call__(self, model: Any) -> Validation:
        """Compare a model (``predict``, deterministic) with the zero action, which is only played the first time."""
        if self._zero is None:
            self._zero = list(self._play(_Zero(self._settings)))
        own = list(self._play(_Acting(model, self._settings.action)))
        return Validation(
            *(
                compare(
                    [(_figures(cost, x), _figures(cost, y)) for x, y in zip(own, self._zero, strict=True)],
                    np.random.default_rng(0),
                )
                for cost in (OBJECTIVES[self._settings.reward], OBJECTIVES["ttft"])
            )
        )

    def _play(self, policy: Any) -> Iterator[Sequence[Summary]]:
        """Summaries of every seed, scenario by scenario."""
        for scenario, draws in zip(self._scenarios, self._draws, strict=True):
            if self._stop():
                raise Stopped
            yield summaries_together(scenario, policy, draws)


def _figures(cost: Callable[[Summary], float], summaries: Sequence[Summary]) -> np.ndarray:
    return np.array([cost(summary) if summary["arrived"] else np.nan for summary in summaries])
