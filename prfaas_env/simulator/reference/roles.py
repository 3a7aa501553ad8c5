"""Role conversion: moving local instances between prefill and decode, one at a time (model.md section 4)."""

from __future__ import annotations

from collections.abc import Callable

from prfaas_env.simulator.reference.calendar import Calendar, Stage, When, order
from prfaas_env.simulator.reference.decode import DecodePool
from prfaas_env.simulator.reference.prefill import PrefillPool

__all__ = ["Roles"]


class Roles:
    """Steers the present roles towards the target N_p.

    A conversion *begins* when its node has nothing left to do and ``conversion_s`` starts to run. Until then (a prefill
    node is awaited, a decode node drains) a changed target cancels it.
    """

    def __init__(
        self,
        calendar: Calendar,
        prefill: PrefillPool,
        decode: DecodePool,
        conversion_s: float,
        bounds: tuple[int, int],
        on_converted: Callable[[], None],
    ) -> None:
        self.calendar = calendar
        self.prefill = prefill
        self.decode = decode
        self.conversion_s = conversion_s
        self.bounds = bounds
        self.on_converted = on_converted
        self.target = len(prefill.members)
        self.awaiting_prefill_node = False
        self.draining: int | None = None
        self.converting: int | None = None
        prefill.on_idle = self._claim
        decode.on_drained = self._drained

    @property
    def busy_nodes(self) -> int:
        """Nodes that drain or convert."""
        return (self.draining is not None) + (self.converting is not None)

    def aim(self, target: int) -> None:
        self.target = min(max(target, self.bounds[0]), self.bounds[1])
        self._steer()

    def _steer(self) -> None:
        if self.converting is not None:
            return
        wanted = self.target - len(self.prefill.members)
        if wanted <= 0 and self.draining is not None:
            node, self.draining = self.draining, None
            self.decode.set_admitting(node, True)
        if wanted >= 0:
            self.awaiting_prefill_node = False
        if wanted > 0 and self.draining is None:
            self.draining = self.decode.least_loaded()
            self.decode.set_admitting(self.draining, False)
            if self.decode.is_empty(self.draining):
                self._drained(self.draining)
        elif wanted < 0 and not self.awaiting_prefill_node:
            if self.prefill.idle:
                self._convert_to_decode(self.prefill.idle[0])
            else:
                self.awaiting_prefill_node = True

    def _claim(self, instance: int) -> bool:
        """A prefill node has become free: is it the one that a conversion waits for?"""
        if not self.awaiting_prefill_node:
            return False
        self.awaiting_prefill_node = False
        self._convert_to_decode(instance)
        return True

    def _convert_to_decode(self, node: int) -> None:
        self.prefill.leave(node)
        self._begin(node, lambda: self.decode.set_admitting(node, True))

    def _drained(self, node: int) -> None:
        if node == self.draining:
            self.draining = None
            self._begin(node, lambda: self.prefill.join(node))

    def _begin(self, node: int, take_role: Callable[[], None]) -> None:
        self.converting = node

        def end() -> None:
            self.converting = None
            take_role()
            self.on_converted()
            self._steer()

        after_requests = (1 << 40) + node
        self.calendar.at(
            self.calendar.now + self.conversion_s, order(When.COMPLETION, after_requests, Stage.CONVERTED), end
        )
