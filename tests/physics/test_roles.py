"""Role conversion, law by law, with times worked out by hand (model.md section 4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from prfaas_env.deployment import Deployment
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import Engine, make_engine
from prfaas_env.simulator.signals import SIGNAL
from prfaas_env.workload.stream import RequestStream
from tests.physics.build import deployment, profile, requests

CONVERSION_S = 8.0


class Seen(NamedTuple):
    """The roles at one instant, and the conversions that ended since the last look."""

    prefill: int
    decode: int
    converting: int
    conversions: int


def look(engine: Engine, at_s: float) -> Seen:
    engine.advance(at_s)
    signals, _ = engine.measure()
    names = ("prefill_nodes", "decode_nodes", "converting_nodes", "conversions")
    return Seen(*(int(signals[SIGNAL[name]]) for name in names))


def aim(engine: Engine, n_prefill: int) -> None:
    """A new target N_p; every request stays local."""
    engine.apply(Control(n_prefill, float("inf")))


def cluster(prefill: int, decode: int, step_ms: float = 1000.0, slots: int = 4) -> Deployment:
    """Prefill of 1 s per KiB, decode of 1 s per token."""
    return deployment(profile(slots=slots, step_ms=step_ms), prefill, decode, conversion_s=CONVERSION_S)


def start(engine_name: str, subject: Deployment, stream: RequestStream) -> Engine:
    return make_engine(engine_name, subject, stream)


def test_an_idle_prefill_node_converts_at_once(engine_name: str) -> None:
    engine = start(engine_name, cluster(3, 1), requests([]))
    assert look(engine, 1.0) == Seen(3, 1, 0, 0)
    aim(engine, 2)
    assert look(engine, 1.0) == Seen(2, 1, 1, 0)
    assert look(engine, 8.875) == Seen(2, 1, 1, 0)
    assert look(engine, 9.0) == Seen(2, 2, 0, 1)


def test_the_idle_node_with_the_lowest_number_goes(engine_name: str) -> None:
    """Node 0 is busy for 32 s, so node 1 converts; afterwards node 1 decodes, by its greater room."""
    engine = start(engine_name, cluster(3, 1, slots=1), requests([0.0, 20.0, 20.0], [32.0, 1.0, 1.0], 2))
    engine.advance(1.0)
    aim(engine, 2)
    engine.drain()
    log = engine.log()
    np.testing.assert_array_equal(log["prefill_instance"][:2], [0, 2])
    np.testing.assert_array_equal(log["decode_instance"][1], 1)


def test_a_busy_prefill_node_finishes_its_request_first(engine_name: str) -> None:
    """Two nodes with 4 s and 6 s of work, and a queue: the next to finish goes, at 4 s, and takes no more work."""
    engine = start(engine_name, cluster(2, 1), requests([0.0, 0.0, 0.0], [6.0, 4.0, 2.0]))
    engine.advance(1.0)
    aim(engine, 1)
    assert look(engine, 3.875) == Seen(2, 1, 0, 0)
    assert look(engine, 4.0) == Seen(1, 1, 1, 0)
    assert look(engine, 12.0) == Seen(1, 2, 0, 1)
    log = engine.log()
    np.testing.assert_array_equal(log["prefill_start_s"], [0.0, 0.0, 6.0])
    np.testing.assert_array_equal(log["prefill_instance"], [0, 1, 0])


def test_a_converted_node_offers_its_slots(engine_name: str) -> None:
    """One decode node with one slot, taken until 21 s; a second request waits for the new node at 9 s, not for that."""
    engine = start(engine_name, cluster(3, 1, slots=1), requests([0.0, 2.0], 1.0, [20, 3]))
    engine.advance(1.0)
    aim(engine, 2)
    engine.drain()
    np.testing.assert_array_equal(engine.log()["decode_start_s"], [1.0, 9.0])


def test_a_decode_node_drains_first(engine_name: str) -> None:
    """The node with the least remaining work stops admitting, at 3 s; it is empty at 6 s, and prefills from 14 s on.

    At 3 s node 1 has 3 of its 5 tokens left, node 2 has 19 of 20. A hand-off at 3.5 s goes to node 2, although equal
    numbers on both would send it to node 1.
    """
    stream = requests([0.0, 0.0, 2.5, 6.5, 6.5], [1.0, 1.0, 1.0, 32.0, 1.0], [5, 20, 1, 1, 1])
    engine = start(engine_name, cluster(1, 2), stream)
    engine.advance(3.0)
    np.testing.assert_array_equal(engine.log()["decode_instance"][:2], [1, 2])
    aim(engine, 2)
    assert look(engine, 3.0) == Seen(1, 1, 1, 0)
    assert look(engine, 13.875) == Seen(1, 1, 1, 0)
    assert look(engine, 14.0) == Seen(2, 1, 0, 1)
    engine.drain()
    log = engine.log()
    assert log["finish_s"][0] == 6.0
    assert log["decode_instance"][2] == 2
    # The queue has held a request since 6.5 s, behind one of 32 s: the new node takes it as it joins.
    assert (log["prefill_start_s"][4], log["prefill_instance"][4]) == (14.0, 1)


def test_requests_on_a_draining_node_stay_and_keep_their_pace(engine_name: str) -> None:
    engine = start(engine_name, cluster(1, 2), requests([0.0, 1.0], 1.0, 10))
    engine.advance(4.0)
    aim(engine, 2)
    engine.drain()
    np.testing.assert_array_equal(engine.log()["finish_s"], [11.0, 12.0])


def test_a_changed_target_cancels_a_drain_that_has_not_ended(engine_name: str) -> None:
    engine = start(engine_name, cluster(1, 2), requests([0.0, 1.0], 1.0, 10))
    engine.advance(4.0)
    aim(engine, 2)
    assert look(engine, 5.0) == Seen(1, 1, 1, 0)
    aim(engine, 1)
    assert look(engine, 5.0) == Seen(1, 2, 0, 0)
    engine.drain()
    assert look(engine, 40.0) == Seen(1, 2, 0, 0)


def test_a_node_called_back_from_its_drain_takes_the_queue(engine_name: str) -> None:
    """Two nodes of one slot; node 1 drains (6 left against 8), a third request waits; at 5 s both admit again."""
    engine = start(engine_name, cluster(1, 2, slots=2), requests([0.0, 0.0, 0.0, 0.0], 1.0, [8, 9, 9, 2]))
    # Hand-offs at 1, 2, 3, 4 s to nodes 1, 2, 1, 2: the cluster is full at 4 s.
    engine.advance(3.5)
    aim(engine, 2)  # node 2 has 9 − 1.5 left, node 1 more: node 2 drains
    engine.advance(5.0)
    assert np.isnan(engine.log()["decode_start_s"][3])
    aim(engine, 1)
    engine.drain()
    assert (engine.log()["decode_start_s"][3], engine.log()["decode_instance"][3]) == (5.0, 2)


def test_a_changed_target_cancels_waiting_for_a_prefill_node(engine_name: str) -> None:
    engine = start(engine_name, cluster(2, 1), requests([0.0, 0.0], [6.0, 4.0]))
    engine.advance(1.0)
    aim(engine, 1)
    assert look(engine, 2.0) == Seen(2, 1, 0, 0)
    aim(engine, 2)
    assert look(engine, 20.0) == Seen(2, 1, 0, 0)


def test_a_conversion_that_has_begun_is_not_cancelled(engine_name: str) -> None:
    """P → D begins at 1 s; the target goes back at 2 s: the node arrives at 9 s, turns round, and is back at 17 s."""
    engine = start(engine_name, cluster(3, 1), requests([]))
    engine.advance(1.0)
    aim(engine, 2)
    engine.advance(2.0)
    aim(engine, 3)
    assert look(engine, 8.875) == Seen(2, 1, 1, 0)
    assert look(engine, 9.0) == Seen(2, 1, 1, 1)
    assert look(engine, 16.875) == Seen(2, 1, 1, 0)
    assert look(engine, 17.0) == Seen(3, 1, 0, 1)


def test_one_node_at_a_time(engine_name: str) -> None:
    """Four idle prefill nodes to go: one every 8 s, counted."""
    engine = start(engine_name, cluster(5, 1), requests([]))
    aim(engine, 1)
    seen = [look(engine, CONVERSION_S * k) for k in range(5)]
    assert seen == [Seen(4, 1, 1, 0), Seen(3, 2, 1, 1), Seen(2, 3, 1, 1), Seen(1, 4, 1, 1), Seen(1, 5, 0, 1)]


@pytest.mark.parametrize(("asked", "prefill", "decode"), [(0, 1, 3), (99, 3, 1)])
def test_one_node_of_each_role_remains(engine_name: str, asked: int, prefill: int, decode: int) -> None:
    engine = start(engine_name, cluster(2, 2), requests([]))
    aim(engine, asked)
    assert look(engine, 100.0)[:3] == (prefill, decode, 0)
    signals, _ = engine.measure()
    assert signals[SIGNAL["target_prefill_nodes"]] == prefill


def test_designs_that_leave_no_choice_are_pinned(engine_name: str) -> None:
    """Whatever the law: without a remote cluster everything stays, without local prefill everything goes."""
    laws = (Control(1, 0.0), Control(1, float("inf")), Control(1, law="price", price_s=-1e9), Control(1, law="price"))
    no_prefill = deployment(profile(), prefill=0, decode=3, remote=profile(), conversion_s=CONVERSION_S)
    for subject, remote, n_prefill in ((cluster(1, 3), False, 1), (no_prefill, True, 0)):
        for control in laws:
            engine = make_engine(engine_name, subject, requests([0.0, 1.0], [1.0, 64.0]), control=control)
            engine.drain()
            assert (engine.log()["remote"] == remote).all()
            assert look(engine, 1000.0) == Seen(n_prefill, 3, 0, 0)


def test_conversion_without_a_cost_is_instant(engine_name: str) -> None:
    subject = deployment(profile(), 3, 1, conversion_s=0.0)
    engine = start(engine_name, subject, requests([]))
    engine.advance(1.0)
    aim(engine, 1)
    assert look(engine, 1.0) == Seen(1, 3, 0, 2)
