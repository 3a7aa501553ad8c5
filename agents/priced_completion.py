"""``priced-completion``: remote where that is sooner by more than a price; in an overload, where long, by a threshold.

``least-completion`` with three blind spots mended.

- It sends a request remote for the smallest gain of that request, though its prefill then delays those behind it in the
  pool that all long requests need. A price of some tenths of a second, higher with the load, keeps the indifferent
  ones local; while the link is congested, where each transfer delays all others, it is some seconds higher.
- In an overload it levels the waits of both pools, so that short requests wait as long as the long ones, and over a
  narrow link it sends the short ones, whose own transfer takes the least, though the long ones save the most work for
  what they take of it. There the threshold of ``load-aware`` is in force (``predicting.py``).
- It follows the windowed N_p* at once, also where the split does not matter. Here N_p is that of the least predicted
  TTFT, ahead of the load by ``headroom``, and it stays unless another one gains more than the hysteresis. It is looked
  for every ``SPLIT_PERIOD_S``, since a price does not hang on it.

The defaults are from a few settings tried on scenarios of the training split (drift-mix, train-heavy, train-rising,
train-mixes, train-bursts, burst-on-off, train-links, train-dense, train-narrow), three to six training seeds each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from prfaas_env.config import Range
from prfaas_env.environment.actions import ActionName
from prfaas_env.profiles import NonNegative
from prfaas_env.simulator.control import Control

from .base import Observed, Span
from .predicting import Predicting, PredictingParameters

__all__ = ["PricedCompletion", "PricedCompletionParameters"]

SPLIT_PERIOD_S = 30.0


@dataclass(frozen=True)
class PricedCompletionParameters(PredictingParameters):
    """Remote must be sooner by ``price_s`` + ``load_price_s`` × the load (arrivals over Λ_max, 1 at most) +
    ``link_price_s`` × the share of the interval in which the link had less than was wanted, in seconds.
    """

    hysteresis: Annotated[float, Range(ge=0, lt=1)] = 0.05
    price_s: NonNegative = 0.0
    load_price_s: NonNegative = 0.8
    link_price_s: NonNegative = 3.0


class PricedCompletion(Predicting):
    """A price that goes with the load, a threshold where nothing keeps up, the split of the least predicted TTFT."""

    action_mode: ClassVar[ActionName] = "price"
    Parameters = PricedCompletionParameters
    tunable: ClassVar[Mapping[str, Span]] = {
        **Predicting.tunable,
        "price_s": Span(0.0, 2.0),
        "load_price_s": Span(0.0, 3.0),
        "link_price_s": Span(0.0, 10.0),
    }

    def fresh_memory(self) -> np.ndarray:
        return np.zeros(1)  # seconds until N_p is looked for again

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:
        predicted = self.predicted(observed)
        n_prefill = round(observed["target_prefill_nodes"])
        if memory[0] <= 0.0:
            n_prefill = self.split(predicted, n_prefill)
            memory[0] = SPLIT_PERIOD_S
        memory[0] -= observed["control_step_s"]
        if self.overloaded(predicted, observed):
            control = Control(n_prefill, observed["filling_threshold"])
        else:
            control = Control(n_prefill, law="price", price_s=self.price_s(observed))
        return self.actions.encode(
            control,
            observed["advised_threshold"],
            round(observed["advised_prefill"]),
            observed["filling_threshold"],
        )

    def price_s(self, observed: Observed) -> float:
        """The price in seconds; the action form bounds it."""
        own = self.parameters
        calm_s = own.price_s + own.load_price_s * min(observed["load"], 1.0)
        return float(calm_s + own.link_price_s * observed["link_congested_share"])
