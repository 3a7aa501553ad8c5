"""Where to look next: the tree-structured Parzen estimator (Bergstra et al. 2011), from Optuna.

A proposal depends on the trials so far, their number and the sampler's seed, and on nothing else: a study that was
interrupted goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.study import Span
from prfaas_env.tuning.trials import Trial, objective, rounded

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["check_spans", "propose"]

DIGITS = 4  # of a parameter: more than a finite number of episodes can tell apart


def check_spans(policy: str, spans: Mapping[str, Span], defaults: Mapping[str, float]) -> None:
    """:class:`ConfigError` unless there are spans, and the defaults are numbers within them."""
    if not spans:
        raise ConfigError(f"policy {policy}: it has no parameters to tune")
    for name, span in spans.items():
        value = defaults.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not span.low <= value <= span.high:
            raise ConfigError(
                f"policy {policy}: {name}: expected a default within the span {span.low:g} to {span.high:g}, "
                f"got {value}"
            )


def propose(trials: Sequence[Trial], spans: Mapping[str, Span], sampler_seed: int) -> dict[str, float]:
    """The parameters of the next trial. ``trials[0]`` is the defaults, whose types say which parameters are whole."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {name: _distribution(span, trials[0].parameters[name]) for name, span in spans.items()}
    seed = int(np.random.SeedSequence([sampler_seed, len(trials)]).generate_state(1)[0])
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True))
    study.add_trials(
        [
            optuna.trial.create_trial(
                params=dict(trial.parameters), distributions=space, value=objective(trial, trials[0])
            )
            for trial in trials
        ]
    )
    found = study.ask(space).params
    return {name: _tidy(found[name], span) for name, span in spans.items()}


def _distribution(span: Span, default: float) -> BaseDistribution:
    from optuna.distributions import FloatDistribution, IntDistribution

    if isinstance(default, int):
        return IntDistribution(round(span.low), round(span.high), log=span.log)
    return FloatDistribution(span.low, span.high, log=span.log)


def _tidy(value: float, span: Span) -> float:
    return value if isinstance(value, int) else min(max(rounded(value, DIGITS), span.low), span.high)
