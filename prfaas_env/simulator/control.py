"""The knobs of the system. They change only at control steps (model.md sections 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from prfaas_env.config import ConfigError

__all__ = ["CacheRule", "Control", "RoutingLaw"]

RoutingLaw = Literal["threshold", "price"]
CacheRule = Literal["scarce", "abundant"]


@dataclass(frozen=True)
class Control:
    """Routing law with its parameter, and the target N_p.

    - ``threshold``: remote iff uncached length > ``threshold_tokens``.
    - ``price``: remote iff (local wait + local prefill) − (remote wait + remote prefill + exposed transfer)
      > ``price_s`` seconds; 0 is the least expected completion.

    ``cache_rule`` (paper section 3.4.3): with ``scarce`` bandwidth each cluster's prefix cache counts alone; with
    ``abundant`` bandwidth the longer of the two prefixes counts, and is copied across the link where it is missing.

    Both laws are data with parameters, so that every engine runs them the same. Raises :class:`ConfigError` on a
    value that is negative (threshold, N_p) or not a number.
    """

    n_prefill: int
    threshold_tokens: float = 0.0
    law: RoutingLaw = "threshold"
    price_s: float = 0.0
    cache_rule: CacheRule = "scarce"

    def __post_init__(self) -> None:
        if not self.threshold_tokens >= 0:
            raise ConfigError(f"control: threshold_tokens: expected a number ≥ 0, got {self.threshold_tokens}")
        if self.price_s != self.price_s:
            raise ConfigError("control: price_s: expected a number, got nan")
        if isinstance(self.n_prefill, bool) or not isinstance(self.n_prefill, int | np.integer):
            raise ConfigError(f"control: n_prefill: expected a whole number, got {self.n_prefill!r}")
        if not 0 <= self.n_prefill < 2**31:
            raise ConfigError(f"control: n_prefill: expected a whole number ≥ 0, got {self.n_prefill}")
        if self.law not in ("threshold", "price"):
            raise ConfigError(f"control: law: expected 'threshold' or 'price', got {self.law!r}")
        if self.cache_rule not in ("scarce", "abundant"):
            raise ConfigError(f"control: cache_rule: expected 'scarce' or 'abundant', got {self.cache_rule!r}")
