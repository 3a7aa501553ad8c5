"""What happened lately: exponentially forgetting sums of a few signals, in a flat array (so that it can be compiled).

A sum forgets with a time constant instead of a window's edge: no ring buffer, and every interval's weight falls
smoothly. Rates come out as sum of the signal over sum of the time, which is unbiased from the first interval on.
"""

from __future__ import annotations

import numpy as np

from prfaas_env.simulator.signals import SIGNAL

__all__ = ["ARRIVALS", "FAST_S", "RECENT_FACTS", "RECENT_SIGNALS", "empty_recent", "recent_rates", "update_recent"]

FAST_S = 60.0
"""Time constant of the fast sums in seconds; that of the slow ones is the environment's ``window_s``."""

RECENT_SIGNALS = ("arrived", "first_tokens", "completed", "completed_output_tokens", "ttft_sum_s")

RECENT_FACTS: tuple[str, ...] = tuple(f"{name}_{pace}_per_s" for pace in ("fast", "slow") for name in RECENT_SIGNALS)
"""Names of what :func:`recent_rates` returns, in its order."""
ARRIVALS = RECENT_FACTS.index("arrived_fast_per_s")
"""The place of the arrivals that count as those of the moment."""

_ROWS = np.array([SIGNAL[name] for name in ("interval_s", *RECENT_SIGNALS)])


def empty_recent() -> np.ndarray:
    """Sums of nothing: float64 (2, 1 + signals); row 0 fast, row 1 slow; column 0 is the time that was summed."""
    return np.zeros((2, len(_ROWS)))


def update_recent(recent: np.ndarray, signals: np.ndarray, slow_s: float) -> None:
    """Add one interval's ``signals`` (order of ``SIGNALS``) to ``recent``, in place."""
    interval_s = signals[_ROWS[0]]
    for pace in range(2):
        keep = np.exp(-interval_s / (FAST_S if pace == 0 else slow_s))
        for column in range(len(_ROWS)):
            recent[pace, column] = recent[pace, column] * keep + signals[_ROWS[column]]


def recent_rates(recent: np.ndarray) -> np.ndarray:
    """Each signal per second, fast then slow: float64 (2 · signals,), 0 before the first interval."""
    rates = np.zeros(2 * (recent.shape[1] - 1))
    for pace in range(2):
        if recent[pace, 0] > 0.0:
            for column in range(1, recent.shape[1]):
                rates[pace * (recent.shape[1] - 1) + column - 1] = recent[pace, column] / recent[pace, 0]
    return rates
