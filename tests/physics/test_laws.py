"""What holds in every run, whatever the deployment, the stream, the link and the controls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from prfaas_env.deployment import Deployment
from prfaas_env.profiles import Profile
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.log import COMPLETED, IN_SYSTEM, REJECTED
from tests.engines import Run, play
from tests.physics.queueing import kiefer_wolfowitz
from tests.strategies import Case, cases

EXAMPLES = 120
# Times of one run are sums of its own numbers: equal ones differ by rounding only.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def profile_of(deployment: Deployment, remote: bool) -> Profile:
    if remote:
        assert deployment.remote is not None
        return deployment.remote.profile
    return deployment.local.profile


def default_control(deployment: Deployment) -> Control:
    """What is in force where none is given."""
    return Control(deployment.local.prefill, deployment.threshold_tokens)


def peak(begin: np.ndarray, end: np.ndarray, weight: np.ndarray) -> float:
    """The most weight that half-open intervals [begin, end) put on one instant."""
    times = np.concatenate([end, begin])  # ends first where both fall on one instant
    changes = np.concatenate([-weight, weight])
    order = np.argsort(times, kind="stable")
    return float(np.cumsum(changes[order]).max(initial=0.0))


@settings(max_examples=EXAMPLES)
@given(cases(ends_up=False))
def test_counts_add_up_at_every_cut(engine_name: str, case: Case) -> None:
    """Arrived = completed + rejected + in system, in the signals as in the log, and both say the same."""
    run = play(engine_name, case)
    total = {name: run.signal(name).cumsum() for name in ("arrived", "rejected", "completed", "first_tokens")}
    for k, (log, now_s) in enumerate(zip(run.cuts, run.signal("time_s"), strict=True)):
        assert total["arrived"][k] == len(log) == np.sum(case.stream.arrival_s[: len(log)] <= now_s)
        assert total["rejected"][k] == np.sum(log["status"] == REJECTED)
        assert total["completed"][k] == np.sum(log["status"] == COMPLETED) == np.sum(~np.isnan(log["finish_s"]))
        assert total["first_tokens"][k] == np.sum(~np.isnan(log["first_token_s"]))
        inside = log[log["status"] == IN_SYSTEM]
        no_token = np.isnan(inside["first_token_s"])
        decoding = ~np.isnan(inside["decode_start_s"])
        # `prefill_end_s` may be known ahead; a hand-off, a slot and a token are not.
        assert run.signal("waiting")[k] == no_token.sum()
        assert run.signal("decode_active")[k] == decoding.sum()
        assert run.signal("decode_queue")[k] == np.sum(~np.isnan(inside["kv_ready_s"]) & ~decoding)
        for side, remote in (("remote_queue", True), ("local_queue", False)):
            queued = np.isnan(inside["prefill_start_s"]) & (inside["remote"] == remote)
            assert run.signal(side)[k] == queued.sum()
    log = run.log
    done = log[log["status"] == COMPLETED]
    assert run.signal("completed_output_tokens").sum() == done["output_tokens"].sum()
    assert run.signal("routed_remote").sum() == log["remote"].sum()
    assert run.bins.sum() == np.sum(log["status"] != REJECTED)
    assert run.signal("ttft_sum_s").sum() == pytest.approx(np.nansum(log["ttft_s"]), rel=1e-9, abs=1e-9)
    ttft_limit, tpot_limit = np.array(case.objectives.ttft_s), np.array(case.objectives.tpot_s)
    good = (done["ttft_s"] <= ttft_limit[done["service_class"]]) & (done["tpot_s"] <= tpot_limit[done["service_class"]])
    assert run.signal("completed_good").sum() == good.sum()


@settings(max_examples=EXAMPLES)
@given(cases())
def test_everything_that_can_be_served_is_served(engine_name: str, case: Case) -> None:
    """After a drain nobody is left, and only what can never fit has been refused."""
    run = play(engine_name, case)
    profiles = [case.deployment.local.profile] + ([case.deployment.remote.profile] if case.deployment.remote else [])
    whole = case.stream.input_tokens + case.stream.output_tokens
    too_long = whole > min(p.context_limit_tokens for p in profiles)
    too_large = case.deployment.local.profile.kv.size_bytes(whole) > case.deployment.local.profile.hbm_for_kv_bytes
    np.testing.assert_array_equal(run.log["status"], np.where(too_long | too_large, REJECTED, COMPLETED))
    np.testing.assert_array_equal(run.log["reject_reason"], np.where(too_long, 1, np.where(too_large, 2, 0)))


@settings(max_examples=EXAMPLES)
@given(cases())
def test_a_life_in_order(engine_name: str, case: Case) -> None:
    """Causes come before effects, and each stage takes at least, or exactly, what its law says."""
    deployment = case.deployment
    log = play(engine_name, case).log
    log = log[log["status"] == COMPLETED]
    stages = ("arrival_s", "prefill_start_s", "prefill_end_s", "kv_ready_s", "decode_start_s", "first_token_s")
    for before, after in pairwise(stages):
        assert (log[before] <= log[after]).all()
    assert (log["prefill_start_s"] < log["prefill_end_s"]).all()
    assert (log["decode_start_s"] < log["first_token_s"]).all()
    assert (log["first_token_s"] <= log["finish_s"]).all()
    np.testing.assert_array_equal(log["first_token_s"] == log["finish_s"], log["output_tokens"] == 1)
    for remote in {bool(r) for r in log["remote"]}:
        mine = log[log["remote"] == remote]
        profile = profile_of(deployment, remote)
        prefill_s = profile.prefill.time_s(mine["input_tokens"])
        np.testing.assert_allclose(mine["prefill_end_s"] - mine["prefill_start_s"], prefill_s, **CLOSE)
        sending_starts_s = mine["prefill_start_s" if deployment.layerwise_pipelining else "prefill_end_s"]
        size = profile.kv.size_bytes(mine["input_tokens"])
        if remote:
            assert deployment.link is not None
            fastest_bps, delay_s = deployment.link.flow_cap_gbps * 1e9, deployment.link.one_way_delay_s
            np.testing.assert_allclose(mine["bytes_sent"], size, rtol=1e-12)
        else:
            fastest_bps, delay_s = deployment.fabric_gbps * 1e9, 0.0
            assert (mine["bytes_sent"] == 0).all()
        earliest_s = np.maximum(mine["prefill_end_s"], sending_starts_s + size * 8 / fastest_bps) + delay_s
        assert (mine["kv_ready_s"] >= earliest_s - 1e-9 * (1 + earliest_s)).all()
    steps = deployment.local.profile.decode.step_s
    for tokens, span_s in (
        (1, log["first_token_s"] - log["decode_start_s"]),
        (log["output_tokens"], log["finish_s"] - log["decode_start_s"]),
    ):
        rounding = 1e-9 * (1 + log["finish_s"])
        assert (span_s >= tokens * steps[1] - rounding).all()
        assert (span_s <= tokens * steps[-1] + rounding).all()
    ttft_s = log["first_token_s"] - log["arrival_s"] + deployment.ttft_overhead_s
    np.testing.assert_allclose(log["ttft_s"], ttft_s, rtol=0, atol=1e-12)
    tpot_s = (log["finish_s"] - log["first_token_s"]) / np.maximum(log["output_tokens"] - 1, 1)
    np.testing.assert_allclose(log["tpot_s"], tpot_s, rtol=0, atol=1e-12)


@settings(max_examples=EXAMPLES)
@given(cases())
def test_an_instance_does_one_thing(engine_name: str, case: Case) -> None:
    """One prefill at a time; no more sequences than slots, no more KV than memory; a conversion between two roles."""
    deployment, log = case.deployment, play(engine_name, case).log
    log = log[log["status"] == COMPLETED]
    # Without pipelining an instance is held until its KV has been sent (and, locally, has arrived).
    released_s = log["prefill_end_s"]
    if not deployment.layerwise_pipelining:
        delay_s = deployment.link.one_way_delay_s if deployment.link else 0.0
        released_s = log["kv_ready_s"] - np.where(log["remote"], delay_s, 0.0)
    for remote in (True, False):
        for instance in np.unique(log["prefill_instance"][log["remote"] == remote]):
            mine = (log["remote"] == remote) & (log["prefill_instance"] == instance)
            order = np.argsort(log["prefill_start_s"][mine], kind="stable")
            begins, ends = log["prefill_start_s"][mine][order], released_s[mine][order]
            assert (ends[:-1] <= begins[1:] + 1e-9 * (1 + ends[:-1])).all()
    profile = deployment.local.profile
    kv = profile.kv.size_bytes(log["input_tokens"] + log["output_tokens"])
    for instance in range(deployment.local.instances):
        decoded = log["decode_instance"] == instance
        begins, ends = log["decode_start_s"][decoded], log["finish_s"][decoded]
        assert peak(begins, ends, np.ones(len(begins))) <= profile.decode.slots
        assert peak(begins, ends, kv[decoded]) <= profile.hbm_for_kv_bytes * (1 + 1e-12)
        prefilled = ~log["remote"] & (log["prefill_instance"] == instance)
        for begin, end in zip(log["prefill_start_s"][prefilled], released_s[prefilled], strict=True):
            apart_s = np.maximum(begins - end, begin - ends)
            assert (apart_s >= deployment.conversion_s - 1e-9 * (1 + end)).all()


@settings(max_examples=EXAMPLES)
@given(cases(ends_up=False))
def test_the_link_carries_what_it_can_and_no_more(engine_name: str, case: Case) -> None:
    """Bytes in = bytes out; in no interval more than its capacity, and none at all while it is down."""
    run = play(engine_name, case)
    sent, could = run.signal("link_sent_bytes"), run.signal("link_capacity_bytes")
    assert (sent <= could * (1 + 1e-9) + 1e-3).all()
    assert (run.signal("link_congested_share") <= 1 + 1e-12).all()
    delivered = run.log["bytes_sent"].sum()
    if run.signal("link_flows")[-1] == 0:
        assert sent.sum() == pytest.approx(delivered, rel=1e-9, abs=1e-2)
    else:
        assert sent.sum() >= delivered * (1 - 1e-9) - 1e-2
    if case.deployment.link is not None:
        times_s, gbps = (case.capacity.times_s, case.capacity.gbps) if case.capacity else (np.zeros(1), None)
        levels = gbps if gbps is not None else np.array([case.deployment.link.capacity_gbps])
        edges = np.concatenate([[0.0], run.signal("time_s")])
        cumulated = [np.sum(levels * np.diff(np.minimum([*times_s, max(times_s[-1], t)], t))) for t in edges]
        np.testing.assert_allclose(could, np.diff(cumulated) * 1e9 / 8, rtol=1e-9, atol=1e-3)


@settings(max_examples=EXAMPLES)
@given(cases())
def test_littles_law(engine_name: str, case: Case) -> None:
    """∫ N dt of those without a first token = Σ (first token − arrival): exactly, at every cut."""
    run = play(engine_name, case)
    integral = run.signal("waiting_integral_s").cumsum()
    young = run.signal("waiting_young_integral_s").cumsum()
    for k, (log, now_s) in enumerate(zip(run.cuts, run.signal("time_s"), strict=True)):
        log = log[log["status"] != REJECTED]
        until = np.where(np.isnan(log["first_token_s"]), now_s, log["first_token_s"])
        waited = until - log["arrival_s"]
        np.testing.assert_allclose(integral[k], waited.sum(), **CLOSE)
        np.testing.assert_allclose(young[k], np.minimum(waited, case.patience_s).sum(), **CLOSE)
    assert run.signal("waiting")[-1] == 0


@settings(max_examples=EXAMPLES)
@given(cases())
def test_roles_add_up(engine_name: str, case: Case) -> None:
    run = play(engine_name, case)
    prefill, decode, converting = (run.signal(f"{role}_nodes") for role in ("prefill", "decode", "converting"))
    assert (prefill + decode + converting == case.deployment.local.instances).all()
    low, high = case.deployment.prefill_bounds
    assert ((low <= prefill) & (prefill <= high)).all()
    assert (decode >= 1).all()
    assert ((converting >= 0) & (converting <= 1)).all()
    for name in ("remote_busy_share", "local_busy_share", "decode_busy_share"):
        assert ((run.signal(name) >= 0) & (run.signal(name) <= 1 + 1e-9)).all()


@settings(max_examples=EXAMPLES)
@given(cases())
def test_routing_follows_the_law_in_force(engine_name: str, case: Case) -> None:
    """The threshold law, at the control step before each arrival; a control at an arrival's instant is in force."""
    log = play(engine_name, case).log
    start = case.start or default_control(case.deployment)
    times = np.array([time for time, _ in case.controls])
    in_force = [start, *(control for _, control in case.controls)]
    for row in log[log["status"] != REJECTED]:
        control = in_force[int(np.searchsorted(times, row["arrival_s"], side="right"))]
        pinned = case.deployment.route_pinned
        if pinned is not None:
            assert row["remote"] == (pinned == "remote")
        elif control.law == "threshold":
            assert row["remote"] == (row["input_tokens"] > control.threshold_tokens)


@settings(max_examples=EXAMPLES)
@given(cases())
def test_pools_serve_in_order_without_idling(engine_name: str, case: Case) -> None:
    """With pipelining every prefill starts as Kiefer and Wolfowitz's recursion over the routes taken says.

    The remote pool always has the same instances; the local one has where its target never moves.
    """
    deployment = replace(case.deployment, layerwise_pipelining=True)
    still = replace(case.start or default_control(deployment), n_prefill=deployment.local.prefill)
    steps = tuple((time, replace(control, n_prefill=deployment.local.prefill)) for time, control in case.controls)
    log = play(engine_name, replace(case, deployment=deployment, start=still, controls=steps)).log
    log = log[log["status"] == COMPLETED]
    for remote in {bool(r) for r in log["remote"]}:
        mine = log[log["remote"] == remote]
        servers = deployment.local.prefill
        if remote:
            assert deployment.remote is not None
            servers = deployment.remote.instances
        service_s = profile_of(deployment, remote).prefill.time_s(mine["input_tokens"])
        starts = kiefer_wolfowitz(mine["arrival_s"], service_s, servers)
        np.testing.assert_allclose(mine["prefill_start_s"], starts, **CLOSE)


@settings(max_examples=EXAMPLES)
@given(cases())
def test_slots_do_not_idle_while_hand_offs_wait(engine_name: str, case: Case) -> None:
    """While a request waits for a slot, all slots that decode are taken (unlimited memory, no conversions)."""
    local = case.deployment.local
    roomy = replace(case.deployment, local=replace(local, profile=replace(local.profile, hbm_for_kv_gib=None)))
    log = play(engine_name, replace(case, deployment=roomy, start=None, controls=())).log
    log = log[log["status"] == COMPLETED]
    slots = local.decode * local.profile.decode.slots
    for row in log[log["decode_start_s"] > log["kv_ready_s"]]:
        for at_s in (row["kv_ready_s"], np.nextafter(row["decode_start_s"], 0)):
            assert np.sum((log["decode_start_s"] <= at_s) & (at_s < log["finish_s"])) == slots


@settings(max_examples=EXAMPLES)
@given(cases())
def test_a_run_is_repeatable_and_does_not_depend_on_how_it_is_cut(engine_name: str, case: Case) -> None:
    """The same log to the bit: again, in steps of 1 s, in steps of 7.3 s; and the stream is as it was."""
    before = [getattr(case.stream, name).copy() for name in ("arrival_s", "input_tokens", "output_tokens")]
    whole = play(engine_name, case)
    for step_s in (None, 1.0, 7.3):
        same(whole, play(engine_name, case, step_s))
    for name, array in zip(("arrival_s", "input_tokens", "output_tokens"), before, strict=True):
        np.testing.assert_array_equal(getattr(case.stream, name), array)


def same(one: Run, other: Run) -> None:
    assert one.log.tobytes() == other.log.tobytes()
    np.testing.assert_array_equal(one.bins, other.bins)
    np.testing.assert_allclose(one.signals, other.signals, rtol=1e-9, atol=1e-3)
