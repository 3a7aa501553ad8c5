"""Generated workloads: targets from the paper and the traces, and draws that do not disturb each other."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_env.config import ConfigError, from_mapping
from prfaas_env.processes import Clock, Jumps, MeanReverting, alternating, grid
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.reference.cache import BlockCache
from prfaas_env.workload.arrivals import (
    Arrivals,
    Diurnal,
    GammaGaps,
    MinuteNoise,
    OnOff,
    Ramp,
    RateWander,
    Spikes,
    Weekly,
    WeibullGaps,
    arrival_times,
)
from prfaas_env.workload.drift import DailyWave, Drift, Regimes, Step, logit
from prfaas_env.workload.lengths import Constant, TruncatedLogNormal
from prfaas_env.workload.prefixes import infinite_cache_hits, ragged_index
from prfaas_env.workload.sessions import CacheRestart, Sessions
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.workload import SyntheticWorkload

PAPER = TruncatedLogNormal(mu=9.90, sigma=1.00, low_tokens=128, high_tokens=131_072)
STATIONARY = SyntheticWorkload(PAPER, Constant(1024))
DAY_IN_AN_HOUR = Clock(day_s=3600.0)
DRIFTING = replace(
    STATIONARY,
    arrivals=Arrivals(Diurnal(), RateWander(), MinuteNoise(), OnOff(1.4), Spikes()),
    drift=Drift(regimes=Regimes(per_h=0.1, low_share=0.2, high_share=0.8)),
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def autocorrelation(x: np.ndarray, lag: int) -> float:
    return float(np.corrcoef(x[:-lag], x[lag:])[0, 1])


# ---- lengths as requests carry them


def test_paper_lengths() -> None:
    stream = STATIONARY.draw(rng(), 3600.0, 60.0)  # 216,000 requests: the mean is known within .2 %
    lengths = stream.input_tokens
    assert lengths.mean() == pytest.approx(27_486, rel=0.01)
    for share, tokens in ((0.5, 19_200), (0.9, 62_400), (0.99, 115_000)):
        assert np.quantile(lengths, share) == pytest.approx(tokens, rel=0.015)
    assert (lengths > 19_400).mean() == pytest.approx(0.4957, abs=0.004)
    assert lengths.min() >= 128
    assert lengths.max() <= 131_072
    assert (lengths == 131_072).mean() < 1e-4  # truncated, not clipped: no atom at the bound
    assert (stream.output_tokens == 1024).all()


# ---- arrivals


def test_poisson_counts_and_gaps() -> None:
    arrival_s = STATIONARY.draw(rng(), 36_000.0, 5.0).arrival_s
    assert len(arrival_s) == pytest.approx(180_000, rel=0.01)
    per_minute = np.bincount((arrival_s // 60).astype(int), minlength=600)
    assert per_minute.var() / per_minute.mean() == pytest.approx(1.0, abs=0.2)  # index of dispersion, sd .058
    gaps = np.sort(np.diff(arrival_s))
    kolmogorov = np.abs(np.arange(len(gaps)) / len(gaps) - (1.0 - np.exp(-5.0 * gaps))).max()
    assert kolmogorov < 1.95 / np.sqrt(len(gaps))  # the .1 % point


def test_varying_rate_is_followed() -> None:
    rate = np.repeat([2.0, 0.0, 10.0], 1000)
    counts, _ = np.histogram(arrival_times(rng(), rate, 0.0, 3000.0), bins=[0, 1000, 2000, 3000])
    assert counts[1] == 0
    assert counts[[0, 2]] == pytest.approx([2000, 10_000], rel=0.1)


def test_horizon_inside_a_second() -> None:
    assert arrival_times(rng(), np.full(2, 1000.0), 0.0, 1.5).max() < 1.5


def test_diurnal_rhythm() -> None:
    hours = np.arange(0.0, 24.0, 0.1)
    factor = Diurnal().factor(hours)
    assert factor.mean() == pytest.approx(1.0, abs=1e-9)
    assert hours[factor.argmax()] == pytest.approx(13.5, abs=0.8)  # the 12-hour harmonic pulls the peak of 12.8 h
    workload = replace(STATIONARY, arrivals=Arrivals(diurnal=Diurnal(amplitude_24h=0.927, peak_h=18.0)))
    counts, _ = np.histogram(workload.draw(rng(), 3600.0, 60.0, DAY_IN_AN_HOUR).arrival_s, bins=24, range=(0, 3600))
    expected = workload.arrivals.rate_path(rng(), 3600.0, DAY_IN_AN_HOUR).factor.reshape(24, 150).sum(axis=1) * 60.0
    assert np.abs((counts - expected) / np.sqrt(expected)).max() < 4.5


def test_every_rate_factor_keeps_the_mean() -> None:
    parts = [  # so wild that a forgotten correction shifts the mean by a quarter or more
        Arrivals(minute_noise=MinuteNoise(cv=1.05, correlation=0.17)),
        Arrivals(bursts=OnOff()),
        Arrivals(wander=RateWander(sd=0.7, time_constant_h=0.3, jumps=None)),
        Arrivals(wander=RateWander(sd=0.0, jumps=Jumps(per_h=2.0, laplace_scale=0.4, mean_duration_h=0.7))),
    ]
    for arrivals in parts:
        factor = arrivals.rate_path(rng(4), 600 * 3600.0, Clock()).factor
        assert factor.mean() == pytest.approx(1.0, abs=0.1), arrivals


def test_minute_noise_has_its_variation_and_correlation() -> None:
    minutes = MinuteNoise(cv=0.21, correlation=0.82).factor(rng(), np.arange(0.0, 60.0 * 20_000, 60.0))
    assert minutes.std() / minutes.mean() == pytest.approx(0.21, abs=0.02)
    assert autocorrelation(np.log(minutes), 1) == pytest.approx(0.82, abs=0.03)


def test_bursts_make_arrivals_over_dispersed() -> None:
    bursty = replace(STATIONARY, arrivals=Arrivals(bursts=OnOff())).draw(rng(), 36_000.0, 5.0).arrival_s
    per_10_s = np.bincount((bursty // 10).astype(int), minlength=3600)
    assert per_10_s.var() / per_10_s.mean() > 20.0
    assert per_10_s.max() / per_10_s.mean() > 3.0


def test_on_off_stays() -> None:
    switches, first_on = alternating(rng(1), 200_000.0, 23.0, 52.8)
    stays = np.diff(switches)
    on, off = (stays[1::2], stays[::2]) if first_on else (stays[::2], stays[1::2])
    assert on.mean() == pytest.approx(23.0, rel=0.1)
    assert off.mean() == pytest.approx(52.8, rel=0.1)


def test_spikes_come_at_their_rate() -> None:
    factor = Spikes(per_h=1.0).factor(rng(), np.arange(0.0, 500 * 3600.0), Clock())
    assert (factor > 1.0).mean() == pytest.approx(1.0 / 60.0, rel=0.15)
    assert 2.0 <= factor[factor > 1.0].min() <= factor.max() <= 2.5


def dispersion(arrival_s: np.ndarray, window_s: float) -> float:
    """Index of dispersion of the counts in whole windows."""
    counts = np.bincount((arrival_s // window_s).astype(int))[:-1]
    return float(counts.var() / counts.mean())


@pytest.mark.parametrize("gaps", [GammaGaps(2.3), GammaGaps(0.5), WeibullGaps(0.48), WeibullGaps(0.92)])
def test_renewal_arrivals_have_their_gaps_from_the_start(gaps: GammaGaps | WeibullGaps) -> None:
    workload = replace(STATIONARY, arrivals=Arrivals(gaps=gaps))
    arrival_s = workload.draw(rng(), 40_000.0, 10.0).arrival_s
    between = np.diff(arrival_s)
    assert len(arrival_s) == pytest.approx(400_000, rel=0.02)
    assert between.std() / between.mean() == pytest.approx(gaps.cv, rel=0.03)
    # The counts of a renewal process disperse by the square of the variation of its gaps, in long windows.
    assert dispersion(arrival_s, 60.0) == pytest.approx(gaps.cv**2, rel=0.2)
    early = [len(workload.draw(rng(seed), 2.0, 10.0)) for seed in range(1500)]
    assert np.mean(early) == pytest.approx(20.0, abs=5.0 * np.std(early) / 1500**0.5)  # no clump at time 0


def test_gaps_follow_the_rate_and_a_longer_horizon_continues_them() -> None:
    law, rate = GammaGaps(2.3), np.repeat([2.0, 0.0, 10.0], 1000)
    whole, short = (arrival_times(rng(3), rate, 0.0, horizon, law) for horizon in (3000.0, 2500.0))
    assert np.array_equal(short, whole[: len(short)])
    assert len(short) == np.searchsorted(whole, 2500.0)
    assert np.histogram(whole, bins=[0, 1000, 2000, 3000])[0] == pytest.approx([2000, 0, 10_000], rel=0.15)


def test_weekends_are_quieter_and_the_week_keeps_its_mean() -> None:
    hour = np.arange(0.0, 7 * 24.0)
    factor = Weekly(first_day=4).factor(rng(), hour)  # from Friday
    assert factor.mean() == pytest.approx(1.0)
    assert np.unique(factor[24:72] / factor[0]) == pytest.approx([0.57])
    assert (factor[72:] == factor[0]).all()
    weekend_starts = [Weekly().factor(rng(seed), np.zeros(1))[0] < 1.0 for seed in range(700)]
    assert np.mean(weekend_starts) == pytest.approx(2 / 7, abs=0.06)


def test_a_ramp_moves_the_rate_as_it_says() -> None:
    workload = replace(STATIONARY, arrivals=Arrivals(ramp=Ramp((0.0, 3600.0), (0.5, 1.5))))
    counts, _ = np.histogram(workload.draw(rng(), 3600.0, 60.0).arrival_s, bins=4, range=(0.0, 3600.0))
    assert counts == pytest.approx(60.0 * 900.0 * np.array([0.625, 0.875, 1.125, 1.375]), rel=0.02)


# ---- drift


def test_a_step_goes_where_it_says_and_stays_there() -> None:
    step = Step(share=0.8, low_start_h=0.2, high_start_h=0.3, low_ramp_h=0.1, high_ramp_h=0.2)
    back = Step(share=0.3, low_start_h=0.7, high_start_h=0.7, low_ramp_h=0.0, high_ramp_h=0.0)
    drift = Drift(wander=None, jumps=None, daily=None, white_sd=0.0, steps=(step, back))
    paths = 1.0 / (
        1.0 + np.exp(-np.array([drift.logit_share(rng(s), grid(3600.0), Clock(), PAPER) for s in range(40)]))
    )
    before, moving, after, later = (paths[:, k] for k in (72, 108, 180, 260))  # minutes 12, 18, 30, 43
    assert before == pytest.approx(0.4957, abs=1e-3)
    assert after == pytest.approx(0.8)
    assert later == pytest.approx(0.3)
    assert moving.std() > 0.03  # when it begins, and how fast it goes, differ between episodes
    at_18_minutes = (moving > 0.4957 + 1e-6) & (moving < 0.8)
    assert 0.5 < at_18_minutes.mean() <= 1.0


@pytest.mark.parametrize("correlation", [-0.55, 0.71])
def test_rate_and_mix_wander_together(correlation: float) -> None:
    clock = Clock(day_s=600.0)  # many days in an hour
    drift = Drift(
        wander=MeanReverting(0.69, 13.2), jumps=None, daily=None, white_sd=0.0, low_share=1e-3, high_share=0.999
    )
    arrivals, coupled = Arrivals(wander=RateWander(jumps=None)), replace(drift, rate_correlation=correlation)
    logs, logits = [], []
    for seed in range(120):
        path = arrivals.rate_path(rng(seed), 3600.0, clock)
        logs.append(np.log(path.factor[::10]))
        logits.append(coupled.logit_share(rng(1000 + seed), grid(3600.0), clock, PAPER, path.wander)[:-1])
    assert np.corrcoef(np.ravel(logs), np.ravel(logits))[0, 1] == pytest.approx(correlation, abs=0.05)
    assert np.std(logits) == pytest.approx(0.69, rel=0.05)  # the coupling leaves the spread of the mix as it was
    early, late = (np.array(logits)[:, part].ravel() for part in (slice(None, -25), slice(25, None)))  # 10 hours apart
    memory = (1.0 - correlation**2) * np.exp(-10.0 / 13.2) + correlation**2 * np.exp(-10.0 / 15.3)
    assert np.corrcoef(early, late)[0, 1] == pytest.approx(memory, abs=0.05)


def test_a_correlated_workload_draws_as_said() -> None:
    arrivals = Arrivals(wander=RateWander(sd=1.0, time_constant_h=2.0, jumps=None))
    drift = Drift(wander=MeanReverting(1.0, 2.0), jumps=None, daily=None, white_sd=0.0, rate_correlation=0.95)
    stream = replace(STATIONARY, arrivals=arrivals, drift=drift).draw(rng(2), 3600.0, 30.0, DAY_IN_AN_HOUR)
    window = (stream.arrival_s // 120.0).astype(int)
    count = np.bincount(window, minlength=30)
    share = np.bincount(window, stream.input_tokens > 19_400, minlength=30) / np.maximum(count, 1)
    busy = count > 50
    assert np.corrcoef(np.log(count[busy]), logit(np.clip(share[busy], 0.01, 0.99)))[0, 1] > 0.85


def test_mean_reverting_path() -> None:
    path = MeanReverting(sd=0.69, time_constant_h=13.2).path(rng(), np.arange(0.0, 200_000.0))
    assert path.std() == pytest.approx(0.69, rel=0.03)
    for lag in (1, 6, 12):
        assert autocorrelation(path, lag) == pytest.approx(np.exp(-lag / 13.2), abs=0.03)


def test_jumps_are_stationary() -> None:
    jumps = Jumps(per_h=0.5, laplace_scale=0.7, mean_duration_h=1.0)
    paths = np.array([jumps.path(rng(seed), np.array([0.0, 10.0, 20.0])) for seed in range(6000)])
    # A Poisson number (mean .5) of Laplace(.7) heights: variance .5 × 2 × .49.
    assert paths.var(axis=0)[:2] == pytest.approx([0.49, 0.49], rel=0.12)
    assert (paths[:, 0] != 0).mean() == pytest.approx(1.0 - np.exp(-0.5), abs=0.02)


def test_drift_stays_in_its_bounds_and_uses_them() -> None:
    drift = Drift(low_share=0.2, high_share=0.8, regimes=Regimes(per_h=0.3, low_share=0.2, high_share=0.8))
    logits = np.concatenate([drift.logit_share(rng(seed), grid(3600.0), DAY_IN_AN_HOUR, PAPER) for seed in range(60)])
    share = 1.0 / (1.0 + np.exp(-logits))
    assert share.min() == pytest.approx(0.2, abs=1e-9)
    assert share.max() == pytest.approx(0.8, abs=1e-9)
    assert share.mean() == pytest.approx(0.5, abs=0.06)


def test_drift_without_regimes_wanders_about_the_base_share() -> None:
    calm = Drift(wander=MeanReverting(0.2, 1.0), jumps=None, daily=None, white_sd=0.0)
    logits = calm.logit_share(rng(), grid(400 * 3600.0), Clock(), PAPER)
    assert logits.mean() == pytest.approx(np.log(0.4957 / 0.5043), abs=0.05)
    assert logits.std() == pytest.approx(0.2, rel=0.15)
    assert autocorrelation(logits, 360) == pytest.approx(np.exp(-1.0), abs=0.1)  # one hour of 10 s steps


def test_daily_wave_follows_the_clock() -> None:
    wave = Drift(wander=None, jumps=None, white_sd=0.0, daily=DailyWave(amplitude=0.46, peak_h=12.0))
    logits = wave.logit_share(rng(), grid(3600.0), DAY_IN_AN_HOUR, PAPER)
    assert logits.argmax() == 180
    assert np.ptp(logits) == pytest.approx(0.92, abs=1e-3)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8, 0.9])
def test_drifted_requests_have_the_share_of_their_hour(share: float) -> None:
    level = Regimes(per_h=0.0, low_share=share, high_share=share, first_share=share)
    drift = Drift(regimes=level, wander=None, jumps=None, daily=None, white_sd=0.0)
    stream = replace(STATIONARY, drift=drift).draw(rng(), 3600.0, 60.0)
    assert (stream.input_tokens > 19_400).mean() == pytest.approx(share, abs=0.005)


def test_drift_needs_a_law_that_can_shift() -> None:
    with pytest.raises(ConfigError, match=r"drift: expected lengths of kind 'truncated-log-normal', got 'constant'"):
        replace(STATIONARY, lengths=Constant(1000), drift=Drift())


# ---- draws do not disturb each other


def test_a_seed_gives_one_stream() -> None:
    a, b = (DRIFTING.draw(rng(7), 3600.0, 3.0) for _ in range(2))
    assert (a.arrival_s == b.arrival_s).all()
    assert (a.input_tokens == b.input_tokens).all()
    other = DRIFTING.draw(rng(8), 3600.0, 3.0)
    assert len(other) != len(a) or (other.arrival_s != a.arrival_s).any()


def test_drift_leaves_arrivals_alone_and_rate_leaves_lengths_alone() -> None:
    plain = STATIONARY.draw(rng(7), 3600.0, 3.0)
    drifted = replace(STATIONARY, drift=Drift()).draw(rng(7), 3600.0, 3.0)
    assert (drifted.arrival_s == plain.arrival_s).all()
    assert (drifted.input_tokens != plain.input_tokens).any()
    busier = STATIONARY.draw(rng(7), 3600.0, 6.0)
    n = len(plain)
    assert (busier.input_tokens[:n] == plain.input_tokens).all()
    assert busier.arrival_s[:n] * 2.0 == pytest.approx(plain.arrival_s)


def test_one_factor_leaves_the_others_alone() -> None:
    both = Arrivals(minute_noise=MinuteNoise(), bursts=OnOff(1.4)).rate_path(rng(3), 3600.0, Clock()).factor
    bursts = Arrivals(bursts=OnOff(1.4)).rate_path(rng(3), 3600.0, Clock()).factor
    minutes = Arrivals(minute_noise=MinuteNoise()).rate_path(rng(3), 3600.0, Clock()).factor
    assert both == pytest.approx(bursts * minutes)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(100, 3600))
def test_a_shorter_horizon_is_a_prefix(seed: int, horizon_s: int) -> None:
    whole = DRIFTING.draw(rng(seed), 3600.0, 1.0, DAY_IN_AN_HOUR)
    short = DRIFTING.draw(rng(seed), float(horizon_s), 1.0, DAY_IN_AN_HOUR)
    n = len(short)
    assert n == np.searchsorted(whole.arrival_s, horizon_s)
    assert short.arrival_s == pytest.approx(whole.arrival_s[:n], abs=1e-6)
    assert np.abs(short.input_tokens - whole.input_tokens[:n]).max(initial=0) <= 1


def test_speed_with_drift() -> None:
    DRIFTING.draw(rng(), 60.0, 1.0)  # imports and tables
    best = 0.0
    for seed in range(3):
        start = time.perf_counter()
        n = len(DRIFTING.draw(rng(seed), 3600.0, 100.0, DAY_IN_AN_HOUR))
        best = max(best, n / (time.perf_counter() - start))
    assert best > 1e6, f"{best:,.0f} requests/s"


# ---- sessions


@pytest.fixture(scope="module")
def conversations() -> list[RequestStream]:
    scenario = load_scenario("mooncake-like").with_overrides(rate_rps=3.4)  # the rate of the trace
    return [scenario.draw(seed).stream for seed in range(6)]


def test_conversations_match_the_trace(conversations: list[RequestStream]) -> None:
    """The figures of the Mooncake conversation trace, on the mean of six hours."""
    rows = []
    for stream in conversations:
        uncached = stream.input_tokens - infinite_cache_hits(stream)
        order = np.lexsort((stream.arrival_s, stream.session_id))
        gaps = np.diff(stream.arrival_s[order])[np.diff(stream.session_id[order]) == 0]
        rows.append(
            [
                len(stream) / 3600.0,
                stream.input_tokens.mean(),
                stream.output_tokens.mean(),
                1.0 - uncached.sum() / stream.input_tokens.sum(),
                *((uncached > tokens).mean() for tokens in (2000, 8000, 19_400)),
                len(stream) / len(np.unique(stream.session_id)),
                *np.quantile(gaps, [0.1, 0.5, 0.9]),
                *np.quantile(stream.input_tokens, [0.5, 0.99]),
            ]
        )
    mean = np.mean(rows, axis=0)
    measured = [3.4, 12_035, 343, 0.374, 0.517, 0.273, 0.097, 1.63, 42, 123, 480, 6_909, 85_400]
    tolerance = [0.1, 360, 10, 0.012, 0.015, 0.010, 0.005, 0.03, 2, 4, 20, 250, 4_000]
    off = {k: (m, t) for k, (m, t, d) in enumerate(zip(mean, measured, tolerance, strict=True)) if abs(m - t) > d}
    assert not off


def test_later_turns_begin_with_what_was_said(conversations: list[RequestStream]) -> None:
    stream = conversations[0]
    previous: dict[int, tuple[np.ndarray, int]] = {}
    continued = edited = 0
    for i in range(len(stream)):
        session, ids = int(stream.session_id[i]), stream.hashes(i)
        tokens = int(stream.input_tokens[i])
        assert len(ids) == -(-(tokens + int(stream.output_tokens[i])) // 512)
        assert tokens < 512 or ids[0] == conversations[0].hashes(0)[0]  # the system block
        if session in previous:
            before, said = previous[session]
            shared = int(np.argmin(np.append(before[: len(ids)] == ids[: len(before)], False)))
            full = said // 512
            assert shared <= full
            continued += shared == full
            edited += shared < full
        previous[session] = (ids, tokens + int(stream.output_tokens[i]))
    assert edited / (continued + edited) == pytest.approx(0.27, abs=0.04)


def test_block_ids_have_no_gaps(conversations: list[RequestStream]) -> None:
    ids = conversations[0].block_hashes
    assert len(np.unique(ids)) == ids.max() + 1


def test_traffic_is_steady_from_the_start() -> None:
    """Without the warm-up the rate would climb for minutes, as sessions find their later turns."""
    scenario = load_scenario("mooncake-like").with_overrides(rate_rps=3.4)
    early = np.mean([(scenario.draw(seed).stream.arrival_s < 300.0).sum() / 300.0 for seed in range(20)])
    assert early == pytest.approx(3.4, rel=0.06)


AGENTS = SyntheticWorkload(
    TruncatedLogNormal(mu=10.0, sigma=0.4, low_tokens=12_288, high_tokens=65_536),
    Constant(400),
    sessions=Sessions(
        TruncatedLogNormal(mu=8.5, sigma=0.8, low_tokens=64, high_tokens=32_768),
        continue_alpha=44.0,
        continue_beta=5.0,
        gap_p10_s=15.0,
        gap_p50_s=30.0,
        gap_p90_s=120.0,
        edit_share=0.0,
        compact_to_tokens=30_720,
        system_prompts=4,
        system_tokens=10_240,
    ),
)


def test_system_prompts_are_shared_by_their_popularity_and_survive_compaction() -> None:
    stream = AGENTS.draw(rng(), 3600.0, 2.0)
    first = stream.block_hashes[stream.hash_offsets[:-1]]
    kinds = np.unique(first)
    assert len(kinds) == 4
    sessions = np.sort([len(np.unique(stream.session_id[first == kind])) for kind in kinds])[::-1]
    assert sessions / sessions.sum() == pytest.approx(np.array([12, 6, 4, 3]) / 25, abs=0.06)
    for kind in kinds:  # all prompts of a kind share its 20 blocks, and no other blocks across kinds
        heads = {tuple(stream.hashes(int(i))[:20]) for i in np.flatnonzero(first == kind)}
        assert len(heads) == 1
    assert stream.input_tokens.max() <= 131_072
    order = np.lexsort((stream.arrival_s, stream.session_id))
    same = np.diff(stream.session_id[order]) == 0
    shrunk = np.flatnonzero(same & (np.diff(stream.input_tokens[order]) < 0))
    assert len(shrunk) > 50
    for k in shrunk[:20]:
        before, after = int(order[k]), int(order[k + 1])
        assert stream.input_tokens[after] == 30_720
        assert np.array_equal(stream.hashes(before)[:20], stream.hashes(after)[:20])
        assert stream.hashes(before)[20] != stream.hashes(after)[20]


def test_after_a_restart_nothing_cached_before_is_hit() -> None:
    cold = replace(AGENTS, cache_restart=CacheRestart(1200.0, 1800.0))
    plain, stream = AGENTS.draw(rng(5), 3600.0, 2.0), cold.draw(rng(5), 3600.0, 2.0)
    assert np.array_equal(plain.input_tokens, stream.input_tokens)
    hits, cold_hits = infinite_cache_hits(plain), infinite_cache_hits(stream)
    changed = np.flatnonzero(hits != cold_hits)
    restart_s = stream.arrival_s[changed[0]]
    assert 1200.0 <= restart_s < 1810.0
    before = stream.hash_offsets[np.searchsorted(stream.arrival_s, restart_s)]
    assert not set(stream.block_hashes[:before].tolist()) & set(stream.block_hashes[before:].tolist())
    late = stream.arrival_s > restart_s + 900.0
    assert cold_hits[late].sum() > 0.9 * hits[late].sum()  # and the caches fill again


def test_a_restart_and_a_cache_emptied_hit_the_same() -> None:
    """Dead blocks are the least recently used, so they cost the living nothing."""
    stream = replace(AGENTS, cache_restart=CacheRestart(900.0, 900.0)).draw(rng(1), 1800.0, 1.0)

    def small_cache() -> BlockCache:
        return BlockCache(2.0e9, 512, 1.0e6, 0.0)  # 2,000 blocks: a few contexts

    used = {}
    for emptied in (False, True):
        cache = small_cache()
        used[emptied] = []
        for i in range(len(stream)):
            if emptied and stream.arrival_s[i - 1] < 900.0 <= stream.arrival_s[i]:
                cache = small_cache()
            prompt = stream.hashes(i)[: int(stream.input_tokens[i]) // 512].tolist()
            used[emptied].append(cache.match(prompt, int(stream.input_tokens[i]))[1])
            cache.touch(prompt)
            cache.insert(prompt)
    assert used[True] == used[False]
    assert sum(used[True]) > 0


def test_sessions_refuse_gaps_out_of_order() -> None:
    with pytest.raises(ConfigError, match="gap_p10_s < gap_p50_s < gap_p90_s"):
        Sessions(Constant(100), gap_p10_s=200.0)


def test_no_arrivals_no_requests() -> None:
    workload = load_scenario("mooncake-like").workload
    assert len(workload.draw(rng(), 600.0, 0.0)) == 0
    assert len(STATIONARY.draw(rng(), 600.0, 0.0)) == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
def test_ragged_index(rows: list[tuple[int, int]]) -> None:
    starts, counts = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    expected = [start + k for start, count in rows for k in range(count)]
    assert ragged_index(starts, counts).tolist() == expected


def test_infinite_cache_by_hand() -> None:
    stream = RequestStream(
        np.arange(4.0),
        np.array([1100, 1600, 1024, 300]),
        np.ones(4, dtype=np.int64),
        hash_offsets=np.array([0, 3, 7, 9, 10]),
        # The third block of request 0 is not full, so request 1 has another in its place; request 2 hits whole.
        block_hashes=np.array([0, 1, 2, 0, 1, 3, 4, 0, 1, 5]),
    )
    assert infinite_cache_hits(stream).tolist() == [0, 1024, 1024, 0]


# ---- bad input


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"arrivals": {"bursts": {"on_over_mean": 9}}}, r"arrivals.bursts.on_over_mean: expected at most 3.296"),
        ({"arrivals": {"diurnl": {}}}, r"arrivals.diurnl: unknown key; did you mean 'diurnal'"),
        ({"lengths": {"kind": "truncated-log-normal", "mu": float("nan")}}, "lengths"),
        ({"drift": {"low_share": 0.8, "high_share": 0.2}}, r"drift.high_share: expected more than low_share 0.8"),
        ({"drift": {"regimes": {"per_h": 1, "low_share": 0.9, "high_share": 0.2}}}, r"drift.regimes.high_share"),
        ({"drift": {"regimes": {"per_h": -1, "low_share": 0.2, "high_share": 0.8}}}, r"per_h: expected a number ≥ 0"),
        ({"arrivals": {"wander": {"jumps": {"per_h": 1, "laplace_scale": 2, "mean_duration_h": 1}}}}, "laplace_scale"),
        ({"arrivals": {"spikes": {"low_factor": 3}}}, r"spikes.high_factor: expected at least low_factor 3"),
        ({"arrivals": {"gaps": {"kind": "gama"}}}, r"arrivals.gaps.*gamma"),
        ({"arrivals": {"ramp": {"times_s": [5, 5], "factors": [1, 2]}}}, r"ramp.times_s: expected increasing times"),
        ({"arrivals": {"ramp": {"times_s": [5], "factors": []}}}, r"ramp.factors: expected one a time"),
        ({"drift": {"rate_correlation": 0.5}}, r"drift.rate_correlation: expected 0: the arrivals have no wander"),
        ({"drift": {"rate_correlation": 0.5, "wander": None}}, r"drift.rate_correlation: expected 0: the drift has no"),
        ({"drift": {"steps": [{"share": 0.8, "low_start_h": 2, "high_start_h": 1}]}}, r"steps\[0\].high_start_h"),
        ({"cache_restart": {"low_s": 1, "high_s": 2}}, r"cache_restart: expected none: without sessions"),
    ],
)
def test_bad_workloads_are_refused(workload: dict, message: str) -> None:
    plain = {
        "lengths": {"kind": "truncated-log-normal", "mu": 9.9, "sigma": 1, "low_tokens": 128, "high_tokens": 131072}
    }
    plain |= {"output_tokens": {"kind": "constant", "tokens": 1024}} | workload
    with pytest.raises(ConfigError, match=message):
        from_mapping(SyntheticWorkload, plain)
