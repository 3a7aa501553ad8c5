"""Service classes: their shares, laws, objectives, and what becomes of them in a scenario."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prfaas_env.config import ConfigError
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.conditions import Objectives
from prfaas_env.theory.plan import plan

CHAT: dict[str, Any] = {"name": "chat", "share": 0.7, "ttft_s": 2.0, "tpot_s": 0.04}
BATCH: dict[str, Any] = {"name": "batch", "share": 0.3, "ttft_s": 60.0, "tpot_s": 0.2}
SHORT = {"lengths": {"kind": "constant", "tokens": 700}, "output_tokens": {"kind": "constant", "tokens": 50}}
LONGER = {"lengths": {"kind": "constant", "tokens": 1700}}  # than what a session needs to go on
SESSIONS = {"sessions": {"message_tokens": {"kind": "constant", "tokens": 100}}}


@pytest.fixture(scope="module")
def paper() -> Scenario:
    return load_scenario("paper-stationary-80")


def test_shares_laws_and_objectives_go_with_the_class(paper: Scenario) -> None:
    scenario = paper.with_overrides(classes=[CHAT | SHORT, BATCH])
    assert scenario.objectives == Objectives((2.0, 60.0), (0.04, 0.2))
    stream = scenario.draw(0).stream
    chat = stream.service_class == 0
    assert chat.mean() == pytest.approx(0.7, abs=0.02)
    assert set(stream.input_tokens[chat]) == {700}
    assert set(stream.output_tokens[chat]) == {50}
    assert stream.input_tokens[~chat].mean() == pytest.approx(paper.nominal.lengths.mean(), rel=0.05)
    assert len(stream) / 3600.0 == pytest.approx(scenario.draw(0).rate_rps, rel=0.05)


def test_the_operator_reckons_with_the_mix(paper: Scenario) -> None:
    scenario = paper.with_overrides(classes=[CHAT | SHORT, BATCH])
    assert scenario.nominal.lengths.mean() == pytest.approx(0.7 * 700 + 0.3 * paper.nominal.lengths.mean())
    assert scenario.nominal.output_tokens.mean() == pytest.approx(0.7 * 50 + 0.3 * 1024)
    assert scenario.lambda_max_rps == plan(scenario.deployment, scenario.nominal).lambda_max_rps
    # Taken anew where the classes change.
    assert scenario.with_overrides(classes=[CHAT | {"share": 1.0}]).nominal.lengths.mean() == pytest.approx(
        paper.nominal.lengths.mean()
    )


def test_one_class_leaves_the_others_requests_alone(paper: Scenario) -> None:
    fixed = paper.with_overrides(rate_rps=2.0)
    a = fixed.with_overrides(classes=[CHAT, BATCH]).draw(3).stream
    b = fixed.with_overrides(classes=[CHAT | SHORT, BATCH]).draw(3).stream
    for name in ("arrival_s", "input_tokens"):
        assert (getattr(a, name)[a.service_class == 1] == getattr(b, name)[b.service_class == 1]).all()


def test_a_rush_is_a_rush_for_all(paper: Scenario) -> None:
    bursts = {"arrivals": {"bursts": {"mean_on_s": 300, "mean_off_s": 600, "on_over_mean": 2.9}}}
    scenario = paper.with_overrides(workload=bursts, classes=[CHAT | {"share": 0.5}, BATCH | {"share": 0.5}])
    stream = scenario.draw(1).stream
    per_minute = [np.histogram(stream.arrival_s[stream.service_class == k], 60, (0.0, 3600.0))[0] for k in (0, 1)]
    assert np.corrcoef(*per_minute)[0, 1] > 0.9


def test_sessions_of_classes_share_nothing(paper: Scenario) -> None:
    scenario = paper.with_overrides(
        nominal=SHORT, rate_rps=1.0, classes=[CHAT | SESSIONS, BATCH | SESSIONS | SHORT | LONGER]
    )
    stream = scenario.draw(0).stream
    owner = np.repeat(stream.service_class, np.diff(stream.hash_offsets))
    for ids, cls in ((stream.session_id, stream.service_class), (stream.block_hashes, owner)):
        assert len(ids) > 0
        assert not np.intersect1d(ids[cls == 0], ids[cls == 1]).size
    # Within a class each request still begins with what its session said before.
    later = np.flatnonzero((stream.turn > 0) & (stream.service_class == 1))
    assert len(later) > 10
    systems = {int(stream.hashes(i)[0]) for i in np.flatnonzero(stream.service_class == 1)}
    assert len(systems) == 1


def test_classes_of_their_own_lengths_do_not_drift() -> None:
    scenario = load_scenario("drift-mix").with_overrides(classes=[CHAT | SHORT, BATCH])
    spans = []
    for seed in range(5):
        stream = scenario.draw(seed).stream
        assert set(stream.input_tokens[stream.service_class == 0]) == {700}
        long = stream.input_tokens[stream.service_class == 1] > 19_400
        spans.append(np.ptp([part.mean() for part in np.array_split(long, 6)]))
    assert np.median(spans) > 0.2


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([CHAT], r"classes: expected shares that sum to 1, got 0.7"),
        ([CHAT, BATCH | {"name": "chat"}], r"classes: expected different names, got chat, chat"),
        ([CHAT, BATCH | {"ttft_s": 0}], r"classes\[1\].ttft_s: expected a number > 0, got 0"),
        ([CHAT, {k: v for k, v in BATCH.items() if k != "share"}], r"classes\[1\].share: missing key"),
        ([CHAT, BATCH | {"shre": 1}], r"classes\[1\].shre: unknown key; did you mean 'share'"),
        ([CHAT, BATCH | SESSIONS], r"nominal: missing key"),
        ("chat", r"classes: expected a list of a mapping with name, share, .*got 'chat'"),
    ],
)
def test_bad_classes_are_refused(paper: Scenario, classes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        paper.with_overrides(classes=classes)
    assert "\n" not in str(refusal.value)


def test_classes_and_objectives_exclude_each_other(paper: Scenario) -> None:
    both = {"classes": [CHAT, BATCH], "objectives": {"ttft_s": [3.0], "tpot_s": [0.1]}}
    with pytest.raises(ConfigError, match="objectives: expected none: each of the classes has its own"):
        paper.with_overrides(both)
    classed = paper.with_overrides(classes=[CHAT, BATCH])
    assert classed.with_overrides(load=0.5).objectives == classed.objectives
    plain = classed.with_overrides(objectives={"ttft_s": [3.0], "tpot_s": [0.1]})
    assert plain.classes == ()
    assert plain.objectives == Objectives((3.0,), (0.1,))
    assert classed.hash != paper.hash


def test_a_trace_tells_no_classes_apart() -> None:
    with pytest.raises(ConfigError, match="classes: expected none: a trace does not tell service classes apart"):
        load_scenario("mooncake-conversation").with_overrides(classes=[CHAT | {"share": 1.0}])
