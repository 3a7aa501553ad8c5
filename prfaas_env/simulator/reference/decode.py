"""Continuous-batching decode (model.md section 2.5).

Every instance has a token clock: with b active sequences it runs at 1 / T_step(b) tokens a second, and each sequence
advances with it. A sequence admitted at clock c shows its first token at c + 1 and ends at c + output tokens.

Where the profile limits KV memory, a request is bound to an instance when its transfer may begin (memory is reserved
there, FCFS) and later waits for a slot of that instance; otherwise it takes the instance with the most free slots when
its KV has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from prfaas_env.profiles import Profile
from prfaas_env.simulator.reference.calendar import Calendar, Stage, When, order
from prfaas_env.simulator.reference.request import Request

__all__ = ["DecodePool"]


@dataclass(eq=False)
class Instance:
    number: int
    admitting: bool
    clock: float = 0.0  # tokens, at `since_s`
    since_s: float = 0.0
    active: list[Request] = field(default_factory=list)
    waiting: deque[Request] = field(default_factory=deque)  # bound here by memory, KV arrived, no free slot yet
    bound: dict[int, Request] = field(default_factory=dict)  # requests that hold memory here
    free_bytes: float = 0.0
    version: int = 0


class DecodePool:
    """``on_first(request)`` and ``on_finish(request)`` report tokens; ``on_drained(instance)`` a drained instance;
    ``on_reserved(request)`` that memory has been found and the transfer may begin."""

    def __init__(
        self,
        calendar: Calendar,
        profile: Profile,
        instances: int,
        first_decode: int,
        on_first: Callable[[Request], None],
        on_finish: Callable[[Request], None],
        on_reserved: Callable[[Request], None],
    ) -> None:
        self.calendar = calendar
        self.slots = profile.decode.slots
        self.step_s = [float(s) for s in profile.decode.step_s]
        self.memory_bytes = float(profile.hbm_for_kv_bytes)
        self.limited = self.memory_bytes < float("inf")
        self.instances = [Instance(i, i >= first_decode, free_bytes=self.memory_bytes) for i in range(instances)]
        self.queue: deque[Request] = deque()  # KV arrived, no free slot yet (memory unlimited)
        self.memory_queue: deque[Request] = deque()  # waiting for memory (memory limited)
        self.on_first, self.on_finish, self.on_reserved = on_first, on_finish, on_reserved
        self.on_drained: Callable[[int], None] = lambda instance: None
        self.active = 0
        self.active_integral_s = self.slot_integral_s = self.since_s = 0.0

    # --- hand-off -------------------------------------------------------------------------------------------------

    def reserve(self, request: Request) -> None:
        """Memory for a request whose transfer is about to begin; ``on_reserved`` follows, at once if there is room."""
        if not self.limited:
            self.on_reserved(request)
            return
        self.memory_queue.append(request)
        self._grant()

    def _grant(self) -> None:
        while self.memory_queue:
            request = self.memory_queue[0]
            fits = [i for i in self.instances if i.admitting and i.free_bytes >= request.reserved_bytes]
            if not fits:
                return
            target = max(fits, key=lambda i: (i.free_bytes, -i.number))
            self.memory_queue.popleft()
            target.free_bytes -= request.reserved_bytes
            target.bound[request.number] = request
            request.decode_instance = target.number
            if request.kv_here:  # it lost its first instance to a fault; there is nothing to transfer
                self._seat(request)
            else:
                self.on_reserved(request)

    def unreserve(self, request: Request) -> None:
        """A fault has thrown a request back before its KV came: it gives up its memory, or its place in the queue."""
        if request in self.memory_queue:
            self.memory_queue.remove(request)
        elif request.decode_instance >= 0:
            self._unbind(request)
            self._grant()

    def _unbind(self, request: Request) -> None:
        instance = self.instances[request.decode_instance]
        del instance.bound[request.number]
        instance.free_bytes += request.reserved_bytes
        request.decode_instance = -1

    def ready(self, request: Request) -> None:
        """The KV of a request is at the decode side: it takes a batch slot, or waits for one, FCFS."""
        request.kv_ready_s = request.queued_s = self.calendar.now
        request.kv_here = True
        if not self.limited:
            self.queue.append(request)
            self._fill()
        elif request.decode_instance >= 0:
            self._seat(request)
        else:  # its instance has failed while the KV was on its way
            self.memory_queue.append(request)
            self._grant()

    def _seat(self, request: Request) -> None:
        target = self.instances[request.decode_instance]
        if len(target.active) < self.slots:
            self._admit(request, target)
        else:
            target.waiting.append(request)

    def _fill(self) -> None:
        while self.queue:
            free = [i for i in self.instances if i.admitting and len(i.active) < self.slots]
            if not free:
                return
            self._admit(self.queue.popleft(), min(free, key=lambda i: (len(i.active), i.number)))

    def _admit(self, request: Request, target: Instance) -> None:
        self._retime(target)
        self._account()
        request.decode_instance = target.number
        request.decode_start_s = self.calendar.now
        request.decode_from = target.clock
        target.active.append(request)
        self.active += 1
        self._plan(target)

    # --- decoding -------------------------------------------------------------------------------------------------

    def _retime(self, instance: Instance) -> None:
        """Bring the token clock to now, at the speed of the batch so far."""
        now = self.calendar.now
        if instance.active:
            instance.clock += (now - instance.since_s) / self.step_s[len(instance.active)]
        else:
            instance.clock = 0.0
        instance.since_s = now

    @staticmethod
    def _goal(request: Request) -> float:
        """The token clock at which the request's next milestone falls: its first token, then its last."""
        waiting = request.first_token_s != request.first_token_s
        return request.decode_from + (1 if waiting else request.output_tokens)

    def _plan(self, instance: Instance) -> None:
        """Schedule the milestone that comes first; ties by request number."""
        instance.version += 1
        if not instance.active:
            return
        version = instance.version
        goal, _, request = min((self._goal(r), r.number, r) for r in instance.active)
        left = max(0.0, goal - instance.clock)
        at = instance.since_s + left * self.step_s[len(instance.active)]

        def reach() -> None:
            if instance.version == version:
                self._milestone(instance, request, goal)

        self.calendar.at(at, order(When.COMPLETION, request.number, Stage.TOKEN), reach)

    def _milestone(self, instance: Instance, request: Request, goal: float) -> None:
        instance.clock, instance.since_s = max(goal, instance.clock), self.calendar.now
        if request.first_token_s != request.first_token_s:
            request.first_token_s = self.calendar.now
            self.on_first(request)
            if request.output_tokens > 1:
                self._plan(instance)
                return
        self._finish(instance, request)

    def _finish(self, instance: Instance, request: Request) -> None:
        self._account()
        request.finish_s = self.calendar.now
        instance.active.remove(request)
        self.active -= 1
        if self.limited:
            del instance.bound[request.number]
            instance.free_bytes += request.reserved_bytes
            if instance.waiting:
                self._admit(instance.waiting.popleft(), instance)
        self._plan(instance)
        self.on_finish(request)
        self._grant()
        self._fill()
        if not instance.admitting and self.is_empty(instance.number):
            self.on_drained(instance.number)

    # --- roles ----------------------------------------------------------------------------------------------------

    def least_loaded(self) -> int:
        """The admitting instance with the least remaining work (tokens still to decode), ties by number."""
        now = self.calendar.now

        def remaining(instance: Instance) -> float:
            if not instance.active:
                return 0.0
            clock = instance.clock + (now - instance.since_s) / self.step_s[len(instance.active)]
            return sum(r.decode_from + r.output_tokens - clock for r in instance.active)

        return min((remaining(i), i.number) for i in self.instances if i.admitting)[1]

    def is_empty(self, number: int) -> bool:
        instance = self.instances[number]
        return not instance.active and not instance.bound

    def set_admitting(self, number: int, admitting: bool) -> None:
        self._account()
        self.instances[number].admitting = admitting
        if admitting:
            self._grant()
            self._fill()

    def fail(self, number: int) -> None:
        """An instance fails: its sequences lose their tokens and go back to the head of the queue, their KV is kept."""
        self._account()
        instance = self.instances[number]
        instance.admitting = False
        instance.version += 1
        lost = sorted([*instance.active, *instance.waiting], key=lambda r: r.number, reverse=True)
        self.active -= len(instance.active)
        instance.active.clear()
        instance.waiting.clear()
        for request in list(instance.bound.values()):
            self._unbind(request)
        instance.free_bytes = self.memory_bytes
        for request in lost:
            request.queued_s = self.calendar.now
            (self.memory_queue if self.limited else self.queue).appendleft(request)
        self._grant()
        self._fill()

    # --- accounting -----------------------------------------------------------------------------------------------

    def admitting_count(self) -> int:
        return sum(i.admitting for i in self.instances)

    def waiting_requests(self) -> list[Request]:
        """Requests whose KV has come and that wait for a slot."""
        return [*self.queue, *(r for i in self.instances for r in i.waiting)]

    def _account(self) -> None:
        now = self.calendar.now
        span = now - self.since_s
        self.active_integral_s += self.active * span
        self.slot_integral_s += self.slots * span * sum(i.admitting or bool(i.active) for i in self.instances)
        self.since_s = now

    def take_busy_share(self) -> float:
        """Occupied slot-seconds over slot-seconds of the instances that decode, since the last call."""
        self._account()
        share = self.active_integral_s / self.slot_integral_s if self.slot_integral_s > 0 else 0.0
        self.active_integral_s = self.slot_integral_s = 0.0
        return share
