"""A prefill pool: one FCFS queue, the first idle instance takes its head (model.md section 2.3)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable

from prfaas_env.simulator.reference.calendar import Calendar, Stage, When, order
from prfaas_env.simulator.reference.request import Request

__all__ = ["PrefillPool"]


class PrefillPool:
    """Instances are numbered inside their cluster; they may join and leave (role conversion).

    ``on_start(request)`` is called when prefill begins, ``on_end(request)`` when it ends. With ``hold`` an instance
    stays busy after prefill until :meth:`release` (no layer-wise pipelining: it sends its KV before the next prefill).
    """

    def __init__(
        self,
        calendar: Calendar,
        instances: Iterable[int],
        hold: bool,
        on_start: Callable[[Request], None],
        on_end: Callable[[Request], None],
    ) -> None:
        self.calendar = calendar
        self.members = set(instances)
        self.idle = sorted(self.members)
        self.running: dict[int, Request] = {}
        self.queue: deque[Request] = deque()
        self.hold = hold
        self.on_start = on_start
        self.on_end = on_end
        self.on_idle: Callable[[int], bool] = lambda instance: False  # may claim an instance that has become free
        self.schedule = [0.0] * len(self.members)  # see expected_wait_s
        self.since_s = 0.0
        self.busy_integral_s = self.member_integral_s = 0.0

    # --- requests -------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """A routed request joins the queue, or starts at once."""
        request.queued_s = self.calendar.now
        self._extend_schedule(request)
        self.queue.append(request)
        self._dispatch()

    def put_back(self, requests: Iterable[Request]) -> None:
        """Requests that a fault has sent back take the head of the queue, in order of number."""
        for request in sorted(requests, key=lambda r: r.number, reverse=True):
            request.queued_s = self.calendar.now
            self.queue.appendleft(request)
        self._rebuild_schedule()
        self._dispatch()

    def _dispatch(self) -> None:
        while self.queue and self.idle:
            self._start(self.queue.popleft(), self.idle.pop(0))

    def _start(self, request: Request, instance: int) -> None:
        self._account()
        now = self.calendar.now
        self.running[instance] = request
        request.prefill_instance = instance
        request.prefill_start_s = now
        request.prefill_end_s = now + request.service_s
        priority = order(When.COMPLETION, request.number, Stage.PREFILL_END)
        attempt = request.attempt
        self.calendar.at(request.prefill_end_s, priority, lambda: self._end(request, attempt))
        self.on_start(request)

    def _end(self, request: Request, attempt: int) -> None:
        if request.attempt != attempt:
            return
        if self.hold:
            self.on_end(request)
        else:
            instance = request.prefill_instance
            self.on_end(request)
            self._free(instance)

    def release(self, request: Request) -> None:
        """The KV of a held request has left its instance."""
        self._free(request.prefill_instance)

    def _free(self, instance: int) -> None:
        self._account()
        del self.running[instance]
        if not self.on_idle(instance):
            self._offer(instance)

    def _offer(self, instance: int) -> None:
        self.idle.append(instance)
        self.idle.sort()
        self._dispatch()

    # --- membership -----------------------------------------------------------------------------------------------

    def join(self, instance: int) -> None:
        """An instance has become a prefill node, or is one again after a repair."""
        self._account()
        self.members.add(instance)
        self._offer(instance)
        self._rebuild_schedule()

    def leave(self, instance: int) -> None:
        """An instance stops being a prefill node: it is idle, has just become free, or has failed."""
        self._account()
        self.members.discard(instance)
        if instance in self.idle:
            self.idle.remove(instance)
        self._rebuild_schedule()

    def fail(self, instance: int) -> Request | None:
        """An instance fails; its request, if it has one, is returned with its work lost."""
        self._account()
        request = self.running.pop(instance, None)
        self.leave(instance)
        return request

    # --- what a router can foresee --------------------------------------------------------------------------------

    def expected_wait_s(self) -> float:
        """Wait of a request that came now, by the known prefill times of those before it.

        Kiefer and Wolfowitz's recursion: each request in turn takes the instance that is free first. Exact while the
        pool's membership does not change.
        """
        if not self.schedule:
            return float("inf")
        return max(0.0, self.schedule[0] - self.calendar.now)

    def _extend_schedule(self, request: Request) -> None:
        if self.schedule:
            start = max(self.calendar.now, self.schedule[0])
            heapq.heapreplace(self.schedule, start + request.service_s)

    def _rebuild_schedule(self) -> None:
        now = self.calendar.now
        ends = [max(now, r.prefill_end_s) for i, r in self.running.items() if i in self.members]
        self.schedule = ends + [now] * (len(self.members) - len(ends))
        heapq.heapify(self.schedule)
        for request in self.queue:
            self._extend_schedule(request)

    # --- accounting -----------------------------------------------------------------------------------------------

    def oldest_wait_s(self) -> float:
        return self.calendar.now - self.queue[0].queued_s if self.queue else 0.0

    def _account(self) -> None:
        now = self.calendar.now
        self.busy_integral_s += len(self.running) * (now - self.since_s)
        self.member_integral_s += len(self.members) * (now - self.since_s)
        self.since_s = now

    def take_busy_share(self) -> float:
        """Busy instance-seconds over instance-seconds since the last call."""
        self._account()
        share = self.busy_integral_s / self.member_integral_s if self.member_integral_s > 0 else 0.0
        self.busy_integral_s = self.member_integral_s = 0.0
        return share
