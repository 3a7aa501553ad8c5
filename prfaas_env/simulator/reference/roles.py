"""Role conversion: moving local instances between prefill and decode, one at a time (model.md sections 4 and 6)."""

from __future__ import annotations

from collections.abc import Callable

from prfaas_env.simulator.reference.calendar import Calendar, Stage, When, order
from prfaas_env.simulator.reference.decode import DecodePool
from prfaas_env.simulator.reference.prefill import PrefillPool
from prfaas_env.simulator.reference.request import Request

__all__ = ["Roles"]


class Roles:
    """Steers the present roles towards the target N_p.

    A conversion *begins* when its node has nothing left to do and ``conversion_s`` starts to run. Until then (a prefill
    node is awaited, a decode node drains) a changed target cancels it. A node that fails keeps its role, or takes the
    one it was converting to, and comes back in it; meanwhile the last working node of either role is not converted.
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
        self.converting_to_prefill = False
        self.attempt = 0  # grows with every conversion and every one that a fault ends
        self.failed: dict[int, bool] = {}  # node -> comes back as a prefill node
        prefill.on_idle = self._claim
        decode.on_drained = self._drained

    @property
    def busy_nodes(self) -> int:
        """Nodes that drain or convert."""
        return (self.draining is not None) + (self.converting is not None)

    def aim(self, target: int) -> None:
        self.target = min(max(target, self.bounds[0]), self.bounds[1])
        self._steer()

    # --- conversions ----------------------------------------------------------------------------------------------

    def _steer(self) -> None:
        if self.converting is not None:
            return
        wanted = self.target - len(self.prefill.members) - sum(self.failed.values())
        if wanted <= 0 and self.draining is not None:
            node, self.draining = self.draining, None
            self.decode.set_admitting(node, True)
        if wanted >= 0:
            self.awaiting_prefill_node = False
        if wanted > 0 and self.draining is None and self.decode.admitting_count() > 1:
            self.draining = self.decode.least_loaded()
            self.decode.set_admitting(self.draining, False)
            if self.decode.is_empty(self.draining):
                self._drained(self.draining)
        elif wanted < 0:
            self.awaiting_prefill_node = True
            if self.prefill.idle:
                self._claim(self.prefill.idle[0])

    def _claim(self, node: int) -> bool:
        """A prefill node is free: is it the one that a conversion waits for?"""
        if not self.awaiting_prefill_node or len(self.prefill.members) <= self.bounds[0]:
            return False
        self.awaiting_prefill_node = False
        self.prefill.leave(node)
        self._begin(node, to_prefill=False)
        return True

    def _drained(self, node: int) -> None:
        if node == self.draining:
            self.draining = None
            self._begin(node, to_prefill=True)

    def _begin(self, node: int, to_prefill: bool) -> None:
        self.converting, self.converting_to_prefill = node, to_prefill
        self.attempt += 1
        attempt = self.attempt

        def end() -> None:
            if self.attempt != attempt:
                return
            self.converting = None
            self._take_role(node, to_prefill)
            self.on_converted()
            self._steer()

        after_requests = (1 << 40) + node
        self.calendar.at(
            self.calendar.now + self.conversion_s, order(When.COMPLETION, after_requests, Stage.CONVERTED), end
        )

    def _take_role(self, node: int, to_prefill: bool) -> None:
        if to_prefill:
            self.prefill.join(node)
        else:
            self.decode.set_admitting(node, True)

    # --- faults ---------------------------------------------------------------------------------------------------

    def fail(self, node: int) -> Request | None:
        """A local node fails. Returns the request whose prefill it loses, if any; decode puts its own back itself."""
        if node in self.failed:
            return None
        lost = None
        if node == self.converting:
            self.failed[node] = self.converting_to_prefill
            self.converting = None
            self.attempt += 1
        elif node in self.prefill.members:
            self.failed[node] = True
            lost = self.prefill.fail(node)
        else:
            self.failed[node] = False
            if node == self.draining:
                self.draining = None
            self.decode.fail(node)
        self._steer()
        return lost

    def repair(self, node: int) -> None:
        if node in self.failed:
            self._take_role(node, self.failed.pop(node))
            self._steer()
