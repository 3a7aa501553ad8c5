"""The shipped suite: splits that cannot meet, groups, loads, and how fast its requests are drawn."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.suites import members
from prfaas_env.processes import GRID_S, grid
from prfaas_env.resources import names
from prfaas_env.scenario import SPLITS, LoadRange, load_scenario
from prfaas_env.seeds import check_evaluation_seeds, split_of, training_seed, validation_seeds
from prfaas_env.workload.lengths import TruncatedLogNormal
from prfaas_env.workload.prefixes import infinite_cache_hits
from prfaas_env.workload.workload import SyntheticWorkload

HELD_OUT = {"agents", "azure", "mooncake"}
ON_PURPOSE = {"light-load", "agentic-sessions", "cold-restart"}  # below .4 of Λ_max: their notes say why

# ---- splits


def test_splits_divide_the_suite_and_some_families_are_held_out() -> None:
    parts = {split: set(members(split)) for split in SPLITS}
    assert set.union(*parts.values()) == set(members("all")) == set(names("scenarios"))
    assert sum(map(len, parts.values())) == len(members("all"))
    family = {name: load_scenario(name).family for name in members("all")}
    families = {split: {family[name] for name in part} for split, part in parts.items()}
    assert families["test"] - families["train"] - families["validation"] == HELD_OUT
    assert families["train"] & families["test"]  # and some are not: new scenarios of known kinds
    assert families["validation"] <= families["train"]
    assert set(members("quick")) <= set(members("all"))


@given(st.integers(0, 2**32 - 1), st.integers(0, 10**10 - 1), st.integers(0, 4095), st.integers(1, 500_000))
def test_seeds_of_the_splits_cannot_meet(run_seed: int, steps: int, copy: int, count: int) -> None:
    assert split_of(training_seed(run_seed, steps) + copy) == "train"
    seeds = validation_seeds(count)
    assert {split_of(seeds[0]), split_of(seeds[-1])} == {"validation"}
    with pytest.raises(ConfigError, match=r"seeds: expected less than 1,000,000"):
        check_evaluation_seeds([training_seed(run_seed, steps) + copy])


def test_an_evaluation_stays_in_one_range_of_seeds() -> None:
    for seeds in (range(10), range(499_990, 500_000), range(500_000, 500_010), range(999_999, 1_000_000)):
        check_evaluation_seeds(seeds)
    for seeds, message in (
        (range(0), "expected at least one"),
        (range(499_999, 500_001), "expected all below 500,000"),
        (range(999_999, 1_000_001), "expected less than 1,000,000"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_evaluation_seeds(seeds)


def test_episodes_of_one_environment_do_not_run_into_other_seeds() -> None:
    """Resets without a seed spawn from the first one's generator: they share nothing with any numbered seed."""
    generator = np.random.default_rng(1_000_000)
    later = [child.bit_generator.seed_seq.generate_state(4).tolist() for child in generator.spawn(200)]
    numbered = [np.random.SeedSequence(s).generate_state(4).tolist() for s in range(1_000_000, 1_000_200)]
    own = [c.generate_state(4).tolist() for s in range(5) for c in np.random.SeedSequence(s).spawn(200)]
    states = [tuple(state) for state in (*later, *numbered, *own)]
    assert len(set(states)) == len(states)


# ---- loads


@pytest.mark.parametrize("name", names("scenarios"))
def test_the_notes_say_the_load(name: str) -> None:
    """λ/Λ_max: the figure in the notes is what arrives, and no scenario is idle or hopeless unless it says so."""
    scenario = load_scenario(name)
    if reason := scenario.workload.missing():
        pytest.skip(reason)
    said = re.search(r"[Ll]oad (\.\d+)(?:, (\.\d+) or (\.\d+))?", scenario.notes)
    assert said is not None
    stated = np.mean([float(figure) for figure in said.groups() if figure])
    draws = [scenario.draw(seed) for seed in range(16)]
    measured = np.mean([len(draw.stream) for draw in draws]) / scenario.horizon_s / scenario.lambda_max_rps
    if isinstance(scenario.load, LoadRange):  # sixteen uniform numbers are far from their mean; what is drawn is known
        drawn = np.mean([draw.rate_rps for draw in draws]) / scenario.lambda_max_rps
        measured *= (scenario.load.low + scenario.load.high) / 2.0 / drawn
    assert measured == pytest.approx(stated, rel=0.12)
    assert name in ON_PURPOSE or 0.4 <= stated <= 0.95


# ---- what the generated streams are held to


def test_the_mix_steps_as_measured() -> None:
    """.5 → .8 and .5 → .2 of prompts above 19.4K tokens: before minute 9, and after minute 40."""
    for name, after in (("mix-step-up", 0.8), ("mix-step-down", 0.2)):
        streams = [load_scenario(name).draw(seed).stream for seed in range(10)]
        arrival_s = np.concatenate([stream.arrival_s for stream in streams])
        long = np.concatenate([stream.input_tokens for stream in streams]) > 19_400
        assert long[arrival_s < 540.0].mean() == pytest.approx(0.4957, abs=0.02)
        assert long[arrival_s > 2400.0].mean() == pytest.approx(after, abs=0.02)


def test_the_coding_day_has_the_harmonics_of_its_trace() -> None:
    """Azure 2024, coding: 1 + .927 cos(h − 18.0) + .278 cos 2(h − 5.1), cut at 0; found again in the arrivals."""
    scenario = load_scenario("diurnal-coding").with_overrides(
        clock={"start_h": 0.0}, workload={"arrivals": {"weekly": None, "minute_noise": None}}
    )
    per_minute = np.sum(
        [np.histogram(scenario.draw(k).stream.arrival_s, 60, (0.0, 3600.0))[0] for k in range(60)], axis=0
    )
    relative = per_minute / per_minute.mean()
    hour = (np.arange(60) + 0.5) * 0.4
    for order, amplitude, peak_h in ((1, 0.927, 18.0), (2, 0.278, 5.1)):
        turn = np.exp(2j * np.pi * order * hour / 24.0)
        found = 2.0 * np.mean(relative * turn)
        assert abs(found) == pytest.approx(amplitude, rel=0.1)
        assert np.cos(np.angle(found) - 2.0 * np.pi * order * peak_h / 24.0) > 0.97


def test_bursts_disperse_as_their_stays_say() -> None:
    """On-off with exponential stays: counts over T disperse by 1 + λ·v·2τ(1 − τ/T (1 − e^(−T/τ)))."""
    scenario = load_scenario("burst-on-off").with_overrides(horizon_s=36_000)
    on_s, off_s, peak, window = 23.0, 52.8, 3.25, 60.0
    share, tau = on_s / (on_s + off_s), on_s * off_s / (on_s + off_s)
    variance = share * (peak - 1.0) ** 2 + (1.0 - share) * (share * (peak - 1.0) / (1.0 - share)) ** 2  # of the factor
    rate = scenario.draw(0).rate_rps or 0.0
    expected = 1.0 + rate * variance * 2.0 * tau * (1.0 - tau / window * (1.0 - np.exp(-window / tau)))
    found = []
    for seed in range(8):
        counts = np.histogram(scenario.draw(seed).stream.arrival_s, 600, (0.0, 36_000.0))[0]
        found.append(counts.var() / counts.mean())
    assert np.mean(found) == pytest.approx(expected, rel=0.08)


def test_the_wander_of_the_mix_has_its_memory() -> None:
    """logit P(L > 19.4K) of mix-wander: mean-reverting over 13.2 h, jumps over 1.45 h, white noise each 10 minutes."""
    scenario = load_scenario("mix-wander").with_overrides(
        horizon_s=36_000, workload={"drift": {"low_share": 0.001, "high_share": 0.999}}
    )
    workload = scenario.workload
    assert isinstance(workload, SyntheticWorkload)
    drift, law = workload.drift, workload.lengths
    assert drift is not None
    assert isinstance(law, TruncatedLogNormal)
    paths = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        clock = scenario.clock.started(rng)
        rate = workload.arrivals.rate_path(rng, 36_000.0, clock)
        times_s = grid(36_000.0)
        paths.append(drift.logit_share(rng, times_s, clock, law, rate.wander))
    x = np.array(paths) - np.mean(paths)
    slow, jumps, white = 0.69**2, 0.13 * 1.45 * 2.0 * 0.72**2, 0.14**2
    assert x.var() == pytest.approx(slow + jumps + white, rel=0.15)
    for hours in (1, 3, 6, 12):
        lag = round(hours * 150.0 / GRID_S)
        found = np.mean(x[:, :-lag] * x[:, lag:]) / x.var()
        expected = (slow * np.exp(-hours / 13.2) + jumps * np.exp(-hours / 1.45)) / (slow + jumps + white)
        assert found == pytest.approx(expected, abs=0.08)


def test_agents_are_what_is_measured_of_coding_agents() -> None:
    """Contexts of 67–154K tokens on average, 85.7–95.7 % cached, 6.5–9.7K uncached; and turns find their caches."""
    scenario = load_scenario("agentic-sessions")
    rows = []
    for seed in range(4):
        stream = scenario.draw(seed).stream
        hits = infinite_cache_hits(stream)
        rows.append(
            [stream.input_tokens.mean(), hits.sum() / stream.input_tokens.sum(), (stream.input_tokens - hits).mean()]
        )
    context, cached, uncached = np.mean(rows, axis=0)
    assert 67_000 < context < 154_000
    assert 0.857 < cached < 0.957
    assert 6_500 < uncached < 9_700
    requests = simulate(scenario, "least-completion", 1).requests
    late = requests[requests["arrival_s"] > 600.0]
    assert late["cached_tokens"].sum() / late["input_tokens"].sum() == pytest.approx(cached, abs=0.03)


def test_a_cold_restart_is_felt() -> None:
    """Most of the prompts that come within a minute of it are prefilled whole; a quarter of an hour later few are."""
    scenario = load_scenario("cold-restart")
    requests = simulate(scenario, "least-completion", 0).requests
    share = requests["cached_tokens"] / requests["input_tokens"]
    whole = np.array([(share[(requests["arrival_s"] // 60) == minute] == 0.0).mean() for minute in range(60)])
    restart = int(whole[20:36].argmax()) + 20
    assert whole[restart] > 0.5
    assert np.mean(whole[10:20]) < 0.2
    assert np.mean(whole[restart + 15 : restart + 20]) < 0.2


def test_new_weights_take_the_line_for_as_long_as_they_need() -> None:
    """1,056 GB at three quarters of 40 Gbps, four times."""
    draw = load_scenario("weight-sync").draw(0)
    assert draw.capacity is not None
    taken = np.maximum(40.0 - draw.capacity.gbps, 0.0)
    spans = np.diff(np.append(draw.capacity.times_s, 3600.0))
    assert (taken * spans).sum() / 8.0 == pytest.approx(4 * 1056, rel=0.01)


# ---- speed


def test_generation_is_not_the_bottleneck() -> None:
    """Stationary: 5 million requests a second. Sessions: at most a fifth of what their run takes."""
    stationary = load_scenario("paper-stationary").with_overrides(load=None, rate_rps=200.0)
    best = 0.0
    for seed in range(4):
        start = time.process_time()
        n = len(stationary.draw(seed).stream)
        best = max(best, n / (time.process_time() - start))
    assert best > 5e6, f"{best:,.0f} requests/s"
    agents = load_scenario("agentic-sessions")
    simulate(agents, "windowed-closed-form", 1)  # compiles
    drawn, run = [], []
    for seed in (1, 2, 5):
        start = time.process_time()
        agents.draw(seed)
        middle = time.process_time()
        simulate(agents, "windowed-closed-form", seed)
        drawn.append(middle - start)
        run.append(time.process_time() - middle)
    assert min(drawn) < 0.2 * min(run), (drawn, run)
