"""Which prefix counts: the operator's rule that goes with the link's load (paper section 3.4.3; model.md section 5)."""

from __future__ import annotations

import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.simulator.signals import SIGNAL

__all__ = ["ABUNDANT_UTILISATION", "CACHE_RULES", "check_cache_rule", "is_abundant"]

CACHE_RULES = ("auto", "scarce", "abundant")
ABUNDANT_UTILISATION = 0.5
"""Below this share of the link, bandwidth counts as abundant (a choice: the paper gives no figure)."""

_SENT, _POSSIBLE, _GBPS = SIGNAL["link_sent_bytes"], SIGNAL["link_capacity_bytes"], SIGNAL["link_capacity_gbps"]


def is_abundant(signals: np.ndarray) -> bool:
    """Whether the last interval (order of ``SIGNALS``) left bandwidth for copies of prefixes; not before the first."""
    return signals[_GBPS] > 0.0 and signals[_SENT] < ABUNDANT_UTILISATION * signals[_POSSIBLE]


def check_cache_rule(name: str) -> str:
    """``name`` if it is a rule. Raises :class:`ConfigError` otherwise."""
    if name not in CACHE_RULES:
        raise ConfigError(f"unknown cache_rule {name!r}{nearest(str(name), CACHE_RULES)}")
    return name
