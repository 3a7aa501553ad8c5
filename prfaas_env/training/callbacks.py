"""What happens beside the learning: figures for TensorBoard, checkpoints with validation, progress, an orderly stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from prfaas_env.environment.observation import decode
from prfaas_env.environment.reward import TERMS
from prfaas_env.scenario import Scenario
from prfaas_env.training.folder import RunFolder
from prfaas_env.training.model import save_actor, save_state
from prfaas_env.training.ranges import SEEN_EVERY, Ranges, Seen, joined
from prfaas_env.training.rewards import ScaledRewards
from prfaas_env.training.validation import Stopped, Validator

__all__ = ["Figures", "Milestones", "Pace"]

_SYSTEM = ("n_prefill", "ttft_mean_s", "egress_gbps", "price_s")
_OBSERVED = ("load", "link_utilisation", "link_backlog", "remote_queue", "local_queue", "decode_queue", "waiting")
_EVERY = 15
"""Of so many steps one has its observations decoded: that takes longer than a step."""


class Figures(BaseCallback):
    """Means over each rollout of what the system did, of the reward's terms, and of the correction that was made."""

    def _on_rollout_start(self) -> None:
        self._steps: dict[str, list[np.ndarray]] = defaultdict(list)
        self._observations: list[np.ndarray] = []

    def _on_step(self) -> bool:
        environments = self.training_env
        assert isinstance(environments, ScaledRewards)
        infos = environments.unwrapped.last_infos
        for name in (*(term.name for term in TERMS), *_SYSTEM, "threshold_tokens"):
            self._steps[name].append(infos[name])
        self._steps["total"].append(environments.original_rewards)
        self._steps["actions"].append(self.locals["actions"])
        if self.n_calls % _EVERY == 1:
            self._observations.append(self.locals["new_obs"])
        return True

    def _on_rollout_end(self) -> None:
        steps = {name: np.array(values) for name, values in self._steps.items()}
        threshold, actions = steps.pop("threshold_tokens"), steps.pop("actions")
        for name, values in steps.items():
            self.logger.record(f"{'system' if name in _SYSTEM else 'reward'}/{name}", float(values.mean()))
        moving = threshold[np.isfinite(threshold) & (threshold > 0.0)]  # neither all local nor all remote
        if len(moving):
            self.logger.record("system/threshold_tokens_geometric", float(np.exp(np.log(moving).mean())))
        if self._observations:
            self._observed(np.concatenate(self._observations))
        self.logger.record("correction/clipped_share", float((np.abs(actions) > 1.0).mean()))
        if isinstance(self.model, OffPolicyAlgorithm):
            self.model.dump_logs()  # the others do so themselves, after each rollout

    def _observed(self, observations: np.ndarray) -> None:
        decoded = decode(observations)
        for name in _OBSERVED:
            self.logger.record(f"system/{name}", float(decoded[name].mean()))
        if isinstance(self.model, RecurrentPPO):
            return  # what it would do depends on what came before
        corrections, _ = self.model.predict(observations, deterministic=True)
        for name, values in zip(("route", "split"), corrections.T, strict=True):
            self.logger.record(f"correction/{name}_mean", float(values.mean()))
            self.logger.record(f"correction/{name}_size", float(np.abs(values).mean()))


class Milestones(BaseCallback):
    """A checkpoint and its validation before the first rollout, then whenever ``checkpoint_every`` steps are learnt.

    The best model so far becomes the one that the run's folder offers to act.
    """

    def __init__(
        self, folder: RunFolder, scenarios: Sequence[Scenario], validator: Validator, console: Console
    ) -> None:
        super().__init__()
        self._folder, self._scenarios = folder, scenarios
        self._validator, self._console = validator, console
        self._next = 0
        self._seen = Seen(folder.settings.observation_groups)
        self._seen_before: Ranges = {}  # the run was resumed

    def _on_training_start(self) -> None:
        if self.num_timesteps:  # resumed from a checkpoint
            self._next = self._after(self.num_timesteps)
            self._seen_before = self._folder.ranges(self.num_timesteps)

    def _after(self, steps: int) -> int:
        every = self._folder.settings.checkpoint_every
        return (steps // every + 1) * every

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self._next:
            self._next = self._after(self.num_timesteps)
            self.reached()

    def _on_step(self) -> bool:
        if self.n_calls % SEEN_EVERY == 0:
            self._seen.add(self.locals["new_obs"])
        return True

    def _card(self, steps: int) -> dict[str, Any]:
        return self._folder.card(steps, self._scenarios) | {"ranges": joined(self._seen_before, self._seen.ranges())}

    def keep(self, steps: int) -> None:
        """A checkpoint of what ``steps`` steps have taught."""
        self.model.num_timesteps = steps
        environments = self.training_env
        assert isinstance(environments, ScaledRewards)
        save_state(self.model, environments, self._folder.checkpoint(steps), self._card(steps))
        self._folder.drop_old_checkpoints()

    def reached(self) -> None:
        """Keep and validate the model as it is now."""
        steps = self.model.num_timesteps
        self.keep(steps)
        try:
            line = self._validator(self.model).line(steps)
        except Stopped:
            return
        best = self._folder.best_ratio()
        if not line["objective_ratio"] >= best:  # NaN, where nothing arrived, is no reason to have no model
            save_actor(self.model, self._folder.path, self._card(steps))
        self._folder.add_validation(line)
        for name, value in line.items():
            if name != "timesteps":
                self.logger.record(f"validation/{name}", value)
        self.logger.dump(steps)
        self._console.print(
            f"{steps:>11,} steps: {self._folder.settings.reward} {line['objective_ratio']:.3f} of the zero action's, "
            f"better in {100 * line['objective_wins']:.0f} % of {line['pairs']}",
            highlight=False,
        )


class Pace(BaseCallback):
    """A progress bar, and the end of the run when ``stop`` says so.

    A rollout that is cut short is not learnt from; ``learnt_steps`` does not count it.
    """

    def __init__(self, timesteps: int, console: Console, stop: Callable[[], bool]) -> None:
        super().__init__()
        self._progress = Progress(console=console)
        self._bar = self._progress.add_task("Preparing (compiles what is new)", total=None)
        self._progress.start()
        self._total, self._stop = timesteps, stop
        self.learnt_steps = 0
        self.cut_short = False

    def _on_training_start(self) -> None:
        self._progress.update(self._bar, description="Training", total=self._total, completed=self.num_timesteps)

    def _on_rollout_start(self) -> None:
        self.learnt_steps = self.num_timesteps

    def _on_step(self) -> bool:
        self._progress.update(self._bar, completed=self.num_timesteps)
        self.cut_short = self._stop()
        return not self.cut_short

    def close(self) -> None:
        self._progress.stop()
