"""The link as a fluid: max-min fair flows under caps, fed layer by layer (model.md section 3).

A flow is in one of two states. *Caught up*: it has sent all that its prefill has produced, and runs at the production
rate. *Behind*: there are bytes to send, and it runs at its fair share up to the flow cap. Rates change only when a flow
begins, falls behind, catches up or ends, or when the capacity changes; between those instants everything is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prfaas_env.simulator import laws
from prfaas_env.simulator.reference.calendar import Calendar, Stage, When, order
from prfaas_env.simulator.reference.request import Request

__all__ = ["Link"]


@dataclass(slots=True, eq=False)
class Flow:
    """The transfer of one request's KV. Rates in bits per second, sizes in bytes, times in seconds."""

    request: Request
    on_sent: Callable[[Request], None]
    size_bytes: float
    start_s: float  # production is linear from here …
    end_s: float  # … to here
    production_bps: float
    caught_up: bool
    sent_bytes: float = 0.0  # at `since_s`; meaningful while behind
    since_s: float = 0.0
    rate_bps: float = 0.0
    version: int = 0  # bumped with every change of plan: events of older plans are void

    def produced_bytes(self, now_s: float) -> float:
        if now_s >= self.end_s:
            return self.size_bytes
        return self.production_bps * (now_s - self.start_s) / 8.0

    def sent_by(self, now_s: float) -> float:
        if self.caught_up:
            return self.produced_bytes(now_s)
        return self.sent_bytes + self.rate_bps * (now_s - self.since_s) / 8.0


class Link:
    """One direction of the line; at most one flow a request."""

    def __init__(self, calendar: Calendar, capacity_gbps: float, flow_cap_gbps: float) -> None:
        self.calendar = calendar
        self.capacity_bps = capacity_gbps * 1e9
        self.flow_cap_bps = flow_cap_gbps * 1e9
        self.flows: dict[int, Flow] = {}
        self.total_rate_bps = 0.0
        self.congested = False
        self.since_s = 0.0
        self.sent_bytes = self.capacity_bytes = self.congested_s = 0.0

    # --- events ---------------------------------------------------------------------------------------------------

    def begin(
        self, request: Request, size_bytes: float, start_s: float, end_s: float, on_sent: Callable[[Request], None]
    ) -> None:
        """Open a transfer, produced from ``start_s`` to ``end_s`` (equal: all is there); ``on_sent`` at its end."""
        now = self.calendar.now
        production = size_bytes * 8.0 / (end_s - start_s) if end_s > start_s else 0.0
        caught_up = start_s == now and end_s > now and production <= self.flow_cap_bps
        rate = production if caught_up else 0.0
        self.flows[request.number] = Flow(
            request, on_sent, size_bytes, start_s, end_s, production, caught_up, 0.0, now, rate
        )
        self._share()

    def produced(self, request: Request) -> None:
        """Prefill has ended: a flow that is caught up is done, one that is behind knows its end."""
        flow = self.flows.get(request.number)
        if flow is None:
            return
        if flow.caught_up:
            self._finish(flow)
        else:
            self._plan(flow)

    def set_capacity(self, gbps: float) -> None:
        self._account()
        self.capacity_bps = gbps * 1e9
        self._share()

    def _catch_up(self, flow: Flow) -> None:
        flow.caught_up = True
        flow.rate_bps = flow.production_bps
        flow.version += 1
        self._share()

    def _finish(self, flow: Flow) -> None:
        self._account()
        flow.version += 1
        del self.flows[flow.request.number]
        self._share()
        flow.on_sent(flow.request)

    def cancel(self, request: Request) -> float:
        """Close the flow of a request that a fault has thrown back; returns the bytes it had sent, now wasted."""
        flow = self.flows.pop(request.number, None)
        if flow is None:
            return 0.0
        sent = flow.sent_by(self.calendar.now)
        flow.version += 1
        self._account()
        self._share()
        return sent

    def open_from(self, instance: int) -> list[Request]:
        """Requests whose KV still leaves this remote instance after their prefill."""
        now = self.calendar.now
        return [f.request for f in self.flows.values() if f.request.prefill_instance == instance and f.end_s <= now]

    # --- rates ----------------------------------------------------------------------------------------------------

    def _share(self) -> None:
        """Give every flow its max-min fair rate; re-plan those whose rate has changed."""
        self._account()
        now = self.calendar.now
        flows = self.flows.values()
        caps = np.sort([f.production_bps if f.caught_up else self.flow_cap_bps for f in flows])
        level = laws.fair_level(caps, len(caps), self.capacity_bps)
        for flow in flows:
            if flow.caught_up:
                if flow.production_bps <= level:
                    continue
                flow.sent_bytes = flow.produced_bytes(now)
                flow.caught_up = False
                rate = level
            else:
                rate = min(self.flow_cap_bps, level)
                if rate == flow.rate_bps and flow.version > 0:
                    continue
                flow.sent_bytes = flow.sent_by(now)
            flow.since_s = now
            flow.rate_bps = rate
            self._plan(flow)
        self.total_rate_bps = sum(f.rate_bps for f in flows)
        self.congested = level < np.inf

    def _plan(self, flow: Flow) -> None:
        """The next event of a flow that is behind: it catches up, or (all produced) it ends."""
        now = self.calendar.now
        flow.version += 1
        version, number = flow.version, flow.request.number
        if now < flow.end_s:
            at = laws.catch_up_s(now, flow.sent_by(now), flow.rate_bps, flow.start_s, flow.production_bps, flow.end_s)
            stage, action = Stage.CATCH_UP, self._catch_up
        else:
            left_bits = max(0.0, flow.size_bytes - flow.sent_by(now)) * 8.0
            at = now + left_bits / flow.rate_bps if flow.rate_bps > 0 else np.inf
            stage, action = Stage.SENT, self._finish
        if at < np.inf:
            self.calendar.at(
                at,
                order(When.COMPLETION, number, stage),
                lambda: action(flow) if flow.version == version else None,
            )

    # --- what the operator sees -----------------------------------------------------------------------------------

    def backlog_bytes(self) -> float:
        """KV produced and not yet sent."""
        now = self.calendar.now
        behind = [f for f in self.flows.values() if not f.caught_up]
        return sum(max(0.0, f.produced_bytes(now) - f.sent_by(now)) for f in behind)

    def _account(self) -> None:
        span = self.calendar.now - self.since_s
        self.sent_bytes += self.total_rate_bps * span / 8.0
        self.capacity_bytes += self.capacity_bps * span / 8.0
        self.congested_s += span if self.congested else 0.0
        self.since_s = self.calendar.now

    def take_totals(self) -> tuple[float, float, float]:
        """Bytes sent, bytes that could have been sent, seconds of congestion since the last call."""
        self._account()
        totals = self.sent_bytes, self.capacity_bytes, self.congested_s
        self.sent_bytes = self.capacity_bytes = self.congested_s = 0.0
        return totals
