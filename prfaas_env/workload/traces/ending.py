"""Whether a trace ends before the episode does, which makes the rest of it idle time in every average."""

from __future__ import annotations

from prfaas_env.workload.stream import RequestStream

__all__ = ["early_end"]

IDLE_SHARE = 0.05  # of the horizon, without an arrival at its end


def early_end(stream: RequestStream, horizon_s: float) -> str | None:
    """A remark if the last of the episode is without arrivals, else ``None``."""
    last_s = float(stream.arrival_s[-1]) if len(stream) else 0.0
    if last_s >= (1.0 - IDLE_SHARE) * horizon_s:
        return None
    return (
        f"no request arrives after {last_s:,.0f} s of the horizon of {horizon_s:,.0f} s, and rates, utilisation and "
        "cost count the idle rest: set horizon_s to the trace's length, or workload.resample: true"
    )
