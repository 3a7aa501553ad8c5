"""``priced-completion``: each request goes remote where that is sooner by more than a price; N_p of ``load-aware``.

``least-completion`` with three blind spots mended.

- It sends a request remote for the smallest gain of that request, though its prefill then delays those behind it in the
  pool that all long requests need. A price of some tenths of a second, higher with the load, keeps the indifferent
  ones local; while the link is congested, where each transfer delays all others, it is some seconds higher.
- In overload it levels the waits of both pools, so that short requests wait as long as the long ones. There the price
  falls below zero by a share of the remote wait, in the pool or for the link: both pools stay busy, but the local
  queue is the shorter one, and it is the short requests, most of all, that take it. The long ones pay for it: P99 rises
  a little.
- It follows the windowed N_p* at once, also where the split does not matter. Here N_p is that of the least predicted
  TTFT, ahead of the load by ``headroom``, and it stays unless another one gains more than the hysteresis. It is looked
  for every ``SPLIT_PERIOD_S``, since no threshold hangs on it.

The defaults are from a few settings tried on scenarios of the training split (drift-mix, train-heavy, train-rising,
train-mixes, train-bursts, burst-on-off, train-links, train-dense, train-narrow), four to six training seeds each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from prfaas_env.config import Range
from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.observation import observed_remote_wait_s
from prfaas_env.profiles import NonNegative
from prfaas_env.simulator.control import Control

from .base import Observed, Span
from .predicting import Predicting, PredictingParameters

__all__ = ["PricedCompletion", "PricedCompletionParameters"]

SPLIT_PERIOD_S = 30.0


@dataclass(frozen=True)
class PricedCompletionParameters(PredictingParameters):
    """Remote must be sooner by ``price_s`` + ``load_price_s`` × the load (arrivals over Λ_max, 1 at most) +
    ``link_price_s`` × the share of the interval in which the link had less than was wanted, in seconds, less
    ``queue_relief`` × what the remote wait, in the pool or for the link, exceeds ``relief_after_s`` by (negative: it
    may be later).
    """

    hysteresis: Annotated[float, Range(ge=0, lt=1)] = 0.05
    price_s: NonNegative = 0.0
    load_price_s: NonNegative = 0.8
    queue_relief: Annotated[float, Range(ge=0, le=1)] = 0.9
    relief_after_s: NonNegative = 5.0
    link_price_s: NonNegative = 3.0


class PricedCompletion(Predicting):
    """The price law at a price that goes with load and queues, and the split of the least predicted mean TTFT."""

    action_mode: ClassVar[ActionName] = "price"
    Parameters = PricedCompletionParameters
    # A price serves an overload faster, so that decode is what holds it up next; by a threshold the same share gains
    # nothing (train-heavy, train-rising, drift-mix: mean TTFT up by 1 to 4 %).
    decode_backlog = 1.0
    tunable: ClassVar[Mapping[str, Span]] = {
        **Predicting.tunable,
        "price_s": Span(0.0, 2.0),
        "load_price_s": Span(0.0, 3.0),
        "queue_relief": Span(0.0, 1.0),
        "relief_after_s": Span(1.0, 120.0, log=True),
        "link_price_s": Span(0.0, 10.0),
    }

    def fresh_memory(self) -> np.ndarray:
        return np.zeros(1)  # seconds until N_p is looked for again

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:
        n_prefill = round(observed["target_prefill_nodes"])
        if memory[0] <= 0.0:
            n_prefill = self.split(self.predicted(observed), n_prefill)
            memory[0] = SPLIT_PERIOD_S
        memory[0] -= observed["control_step_s"]
        wait_s = observed_remote_wait_s(observed)
        control = Control(n_prefill, law="price", price_s=self.price_s(observed, wait_s))
        return self.actions.encode(control, 0.0, round(observed["advised_prefill"]), wait_s)

    def price_s(self, observed: Observed, wait_s: float) -> float:
        """The price in seconds; the action form bounds it."""
        own = self.parameters
        calm_s = own.price_s + own.load_price_s * min(observed["load"], 1.0)
        relief_s = own.queue_relief * max(wait_s - own.relief_after_s, 0.0)
        return float(calm_s + own.link_price_s * observed["link_congested_share"] - relief_s)
