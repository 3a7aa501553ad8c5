"""What the operator's dashboard counts: the signals of one control interval (model.md section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prfaas_env.simulator.conditions import Objectives
from prfaas_env.simulator.reference.calendar import Calendar
from prfaas_env.simulator.reference.request import Request
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, SIGNALS, length_bin

if TYPE_CHECKING:
    from prfaas_env.simulator.reference.engine import ReferenceEngine

__all__ = ["Accounts"]

COUNTERS = (
    "arrived",
    "rejected",
    "routed_remote",
    "first_tokens",
    "completed",
    "completed_good",
    "completed_output_tokens",
    "ttft_sum_s",
    "conversions",
)


class Accounts:
    """Counts events between two calls of :meth:`take`, and integrates the number of waiting requests."""

    def __init__(self, calendar: Calendar, objectives: Objectives, ttft_overhead_s: float, patience_s: float) -> None:
        self.calendar = calendar
        self.objectives = objectives
        self.ttft_overhead_s = ttft_overhead_s
        self.patience_s = patience_s
        self.in_system = 0
        self.waiting: dict[int, Request] = {}  # without a first token, in order of arrival
        self.interval_start_s = self.since_s = 0.0
        self._reset()

    def _reset(self) -> None:
        self.count = dict.fromkeys(COUNTERS, 0.0)
        self.waiting_integral_s = self.young_integral_s = 0.0
        self.bins = np.zeros(len(LENGTH_BIN_CENTRES_TOKENS), dtype=np.int64)

    # --- events ---------------------------------------------------------------------------------------------------

    def arrived(self, request: Request, uncached_tokens: float) -> None:
        self._integrate()
        self.in_system += 1
        self.waiting[request.number] = request
        self.count["arrived"] += 1
        self.count["routed_remote"] += request.remote
        self.bins[length_bin(uncached_tokens)] += 1

    def rejected(self) -> None:
        self.count["arrived"] += 1
        self.count["rejected"] += 1

    def first_token(self, request: Request) -> None:
        self._integrate()
        # The young part of this wait: what of it lies in the interval and before the request's patience ran out.
        self.young_integral_s += self._young_s(request, self.calendar.now)
        del self.waiting[request.number]
        self.count["first_tokens"] += 1
        self.count["ttft_sum_s"] += request.ttft_s

    def finished(self, request: Request) -> None:
        self.in_system -= 1
        self.count["completed"] += 1
        self.count["completed_output_tokens"] += request.output_tokens
        good_ttft = request.ttft_s <= self.objectives.ttft_s[request.service_class]
        good_tpot = request.tpot_s <= self.objectives.tpot_s[request.service_class]
        self.count["completed_good"] += good_ttft and good_tpot

    def converted(self) -> None:
        self.count["conversions"] += 1

    def _young_s(self, request: Request, now: float) -> float:
        begin = max(request.arrival_s, self.interval_start_s)
        return max(0.0, min(now, request.arrival_s + self.patience_s) - begin)

    def _integrate(self) -> None:
        now = self.calendar.now
        self.waiting_integral_s += len(self.waiting) * (now - self.since_s)
        self.since_s = now

    # --- signals --------------------------------------------------------------------------------------------------

    def take(self, engine: ReferenceEngine) -> tuple[np.ndarray, np.ndarray]:
        self._integrate()
        now = self.calendar.now
        interval_s = now - self.interval_start_s
        young = self.young_integral_s + sum(self._young_s(r, now) for r in self.waiting.values())
        remote, local, link, decode, roles = (
            engine.remote_pool,
            engine.local_pool,
            engine.link,
            engine.decode,
            engine.roles,
        )
        sent_bytes, capacity_bytes, congested_s = link.take_totals()
        waiting_for_slot = decode.waiting_requests()
        values = {
            **self.count,
            "time_s": now,
            "interval_s": interval_s,
            "waiting": len(self.waiting),
            "waiting_integral_s": self.waiting_integral_s,
            "waiting_young_integral_s": young,
            "remote_queue": len(remote.queue),
            "remote_oldest_wait_s": remote.oldest_wait_s(),
            "remote_expected_wait_s": remote.expected_wait_s() if remote.members else 0.0,
            "remote_busy_share": remote.take_busy_share(),
            "local_queue": len(local.queue),
            "local_oldest_wait_s": local.oldest_wait_s(),
            "local_expected_wait_s": local.expected_wait_s() if local.members else 0.0,
            "local_busy_share": local.take_busy_share(),
            "link_capacity_gbps": link.capacity_bps / 1e9,
            "link_capacity_bytes": capacity_bytes,
            "link_sent_bytes": sent_bytes,
            "link_returned_bytes": engine.reverse_link.take_totals()[0],
            "link_backlog_bytes": link.backlog_bytes(),
            "link_flows": len(link.flows),
            "link_congested_share": congested_s / interval_s if interval_s > 0 else 0.0,
            "decode_queue": len(waiting_for_slot),
            "decode_oldest_wait_s": max((now - r.queued_s for r in waiting_for_slot), default=0.0),
            "decode_active": decode.active,
            "decode_busy_share": decode.take_busy_share(),
            "prefill_nodes": len(local.members),
            "decode_nodes": decode.admitting_count(),
            "converting_nodes": roles.busy_nodes,
            "failed_nodes": len(roles.failed) + engine.failed_remote_count,
            "threshold_tokens": engine.control.threshold_tokens if engine.control.law == "threshold" else 0.0,
            "price_s": engine.control.price_s if engine.control.law == "price" else 0.0,
            "target_prefill_nodes": roles.target,
        }
        vector = np.array([values[signal.name] for signal in SIGNALS], dtype=np.float64)
        bins = self.bins
        self._reset()
        self.interval_start_s = now
        return vector, bins
