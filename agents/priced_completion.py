"""``priced-completion``: each request goes remote where that is sooner by more than a price; N_p of ``load-aware``.

``least-completion`` with its two blind spots mended. It sends a request remote for the smallest gain of that request,
though its prefill then delays those behind it in the pool that all long requests need: a price of some tenths of a
second keeps the indifferent ones local, the more so the higher the load. And it follows the windowed N_p* at once, so
that it converts nodes on noise and far below the load at which the split matters: here N_p is ``load-aware``'s, which
stays unless another one saves more of the predicted TTFT than the hysteresis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prfaas_env.environment.actions import ActionName
from prfaas_env.simulator.control import Control

from .base import Observed, Span
from .load_aware import LoadAware, LoadAwareParameters

__all__ = ["PricedCompletion", "PricedCompletionParameters"]


@dataclass(frozen=True)
class PricedCompletionParameters(LoadAwareParameters):
    """The price is ``price_s`` + ``load_price_s`` × the load (arrivals over Λ_max, 1 at most), in seconds by which
    remote must be sooner (negative: may be later); the rest is as in ``load-aware``.
    """

    price_s: float = 0.0
    load_price_s: float = 0.8


class PricedCompletion(LoadAware):
    """The price law at a price that rises with the load, and the split of the least predicted mean TTFT."""

    action_mode: ClassVar[ActionName] = "price"
    Parameters = PricedCompletionParameters
    tunable: ClassVar[Mapping[str, Span]] = {
        **LoadAware.tunable,
        "price_s": Span(-1.0, 2.0),
        "load_price_s": Span(-1.0, 3.0),
    }

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        own = self.parameters
        n_prefill = self.split(self.predicted(observed), observed["target_prefill_nodes"])
        price_s = own.price_s + own.load_price_s * min(observed["load"], 1.0)
        control = Control(n_prefill, law="price", price_s=price_s)
        return self.actions.encode(control, 0.0, round(observed["advised_prefill"]))
