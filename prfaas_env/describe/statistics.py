"""The statistics of an episode: one list that says of each its key (with its unit), its words, and where it comes from.

A share is between 0 and 1, a ratio may be more; 2k and 8k are 2000 and 8000 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.describe.episode import MINUTE_S, Episode, dispersion, held_s, mean_gbps

__all__ = ["STATISTICS", "Statistic", "Value", "statistics"]

Value = float | int | None


@dataclass(frozen=True)
class Statistic:
    """One figure: the section it stands in, its key, its words, and how it is read from an episode."""

    section: str
    key: str
    words: str
    read: Callable[[Episode], Value]


def statistics(episode: Episode) -> dict[str, Value]:
    """Every statistic by key; ``None`` for what the episode does not have, such as a link or sessions."""
    return {one.key: _plain(one.read(episode)) for one in STATISTICS}


def _plain(value: Any) -> Value:
    if value is None or not np.isfinite(value):
        return None
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


# ---- arrivals


def _minute_cv(episode: Episode) -> Value:
    counts = episode.arrivals(MINUTE_S)
    return float(counts.std() / counts.mean()) if counts.any() else None


def _busiest_minute_rps(episode: Episode) -> Value:
    counts = episode.arrivals(MINUTE_S)
    return float(counts.max() / MINUTE_S) if len(counts) else None


def _gap_cv(episode: Episode) -> Value:
    gaps = np.diff(episode.draw.stream.arrival_s)
    return float(gaps.std() / gaps.mean()) if len(gaps) and gaps.any() else None


# ---- lengths


def _input(episode: Episode) -> np.ndarray:
    return episode.draw.stream.input_tokens


def _uncached(episode: Episode) -> np.ndarray:
    return episode.uncached_tokens


def _output(episode: Episode) -> np.ndarray:
    return episode.draw.stream.output_tokens


def _lengths(section: str, name: str, of: Callable[[Episode], np.ndarray]) -> list[Statistic]:
    def quantile(share: float) -> Callable[[Episode], Value]:
        return lambda episode: float(np.quantile(of(episode), share)) if len(of(episode)) else None

    found = [Statistic(section, f"{name}_mean_tokens", "mean", lambda e: float(of(e).mean()) if len(of(e)) else None)]
    for percent in (50, 90, 99):
        found.append(Statistic(section, f"{name}_p{percent}_tokens", f"P{percent}", quantile(percent / 100)))
    return found


def _over(section: str, name: str, of: Callable[[Episode], np.ndarray]) -> list[Statistic]:
    def share(limit: float) -> Callable[[Episode], Value]:
        return lambda episode: float((of(episode) > limit).mean()) if len(of(episode)) else None

    return [Statistic(section, f"{name}_over_{k}k_share", f"share over {k}K tokens", share(1000.0 * k)) for k in (2, 8)]


def _over_context(episode: Episode) -> Value:
    deployment = episode.scenario.deployment
    limit = min(c.profile.context_limit_tokens for c in (deployment.local, deployment.remote) if c)
    return float((_input(episode) > limit).mean()) if len(_input(episode)) else None


# ---- sessions and prefixes


def _sessions(episode: Episode) -> Value:
    ids = episode.draw.stream.session_id
    return len(np.unique(ids[ids >= 0])) or None


def _requests_per_session(episode: Episode) -> Value:
    sessions = _sessions(episode)
    return int((episode.draw.stream.session_id >= 0).sum()) / sessions if sessions else None


def _turn_gap(percent: float) -> Callable[[Episode], Value]:
    def read(episode: Episode) -> Value:
        stream = episode.draw.stream
        order = np.lexsort((stream.arrival_s, stream.session_id))
        order = order[stream.session_id[order] >= 0]
        gaps = np.diff(stream.arrival_s[order])[np.diff(stream.session_id[order]) == 0]
        return float(np.percentile(gaps, percent)) if len(gaps) else None

    return read


def _hit_share(episode: Episode) -> Value:
    total = _input(episode).sum()
    return float(episode.hit_tokens.sum() / total) if total else None


def _size_for_hits(episode: Episode) -> Value:
    curve = episode.cache_curve
    if curve is None:
        return None
    return float(np.interp(0.9 * curve.hit_share[-1], curve.hit_share, curve.size_tokens))


# ---- load


def _load(episode: Episode) -> Value:
    own = episode.own_plan
    return episode.rate_rps / own.lambda_max_rps if own else 0.0


def _time_over(limit: float, of: Callable[[Any], float]) -> Callable[[Episode], Value]:
    return lambda episode: float(np.mean([of(window) > limit for window in episode.windows]))


# ---- link and faults


def _link_mean(episode: Episode) -> Value:
    return mean_gbps(episode.draw.capacity, 0.0, episode.horizon_s) if episode.draw.capacity else None


def _link_min(episode: Episode) -> Value:
    capacity = episode.draw.capacity
    return float(capacity.gbps[held_s(capacity.times_s, 0.0, episode.horizon_s) > 0].min()) if capacity else None


def _link_under_half(episode: Episode) -> Value:
    capacity, link = episode.draw.capacity, episode.scenario.deployment.link
    if capacity is None or link is None:
        return None
    held = held_s(capacity.times_s, 0.0, episode.horizon_s)
    return float(held[capacity.gbps < 0.5 * link.capacity_gbps].sum() / episode.horizon_s)


def _failures(episode: Episode) -> Value:
    return int((~episode.draw.faults.up).sum())


def _down_share(episode: Episode) -> Value:
    faults = episode.draw.faults
    ends_s = np.minimum(faults.times_s, episode.horizon_s)
    down_s = float(ends_s[faults.up].sum() - ends_s[~faults.up].sum())  # every failure has its repair
    return down_s / (episode.instances * episode.horizon_s)


ARRIVALS, INPUT, UNCACHED, OUTPUT = "Arrivals", "Input length", "Uncached input length", "Output length"
PREFIXES, LOAD, LINK = "Sessions and prefixes", "Load and closed form", "Link and faults"

STATISTICS: tuple[Statistic, ...] = (
    Statistic(ARRIVALS, "requests", "requests", lambda e: len(e.draw.stream)),
    Statistic(ARRIVALS, "horizon_s", "horizon", lambda e: e.horizon_s),
    Statistic(ARRIVALS, "rate_mean_rps", "mean rate", lambda e: e.rate_rps),
    Statistic(ARRIVALS, "rate_busiest_minute_rps", "rate of the busiest minute", _busiest_minute_rps),
    Statistic(ARRIVALS, "rate_minute_cv", "CV of minute rates", _minute_cv),
    Statistic(
        ARRIVALS,
        "dispersion_1min",
        "index of dispersion over 1 min (Poisson: 1)",
        lambda e: dispersion(e.arrivals(MINUTE_S)),
    ),
    Statistic(ARRIVALS, "gap_cv", "burstiness: CV of gaps (Poisson: 1)", _gap_cv),
    *_lengths(INPUT, "input", _input),
    *_over(INPUT, "input", _input),
    Statistic(INPUT, "input_over_context_share", "share over the profiles' context limit", _over_context),
    *_lengths(UNCACHED, "uncached", _uncached),
    *_over(UNCACHED, "uncached", _uncached),
    Statistic(UNCACHED, "uncached_over_plan_threshold_share", "share over t*, the planned t", lambda e: e.tail_share()),
    *_lengths(OUTPUT, "output", _output),
    Statistic(PREFIXES, "sessions", "sessions", _sessions),
    Statistic(PREFIXES, "requests_per_session", "requests a session", _requests_per_session),
    *(Statistic(PREFIXES, f"turn_gap_p{p}_s", f"turn gap P{p}", _turn_gap(p)) for p in (10, 50, 90)),
    Statistic(PREFIXES, "cache_hit_share", "tokens that a cache without limits hits", _hit_share),
    Statistic(PREFIXES, "cache_for_90_percent_of_hits_tokens", "cache that hits 90 % of those", _size_for_hits),
    Statistic(
        LOAD, "plan_threshold_tokens", "t* planned on the nominal mix", lambda e: e.nominal_plan.threshold_tokens
    ),
    Statistic(LOAD, "plan_n_prefill_instances", "N_p* planned", lambda e: e.nominal_plan.n_prefill),
    Statistic(LOAD, "plan_lambda_max_rps", "Λ_max planned", lambda e: e.nominal_plan.lambda_max_rps),
    Statistic(
        LOAD,
        "episode_threshold_tokens",
        "t best for the mix of the episode",
        lambda e: e.own_plan.threshold_tokens if e.own_plan else None,
    ),
    Statistic(
        LOAD,
        "episode_n_prefill_instances",
        "N_p best for the mix of the episode",
        lambda e: e.own_plan.n_prefill if e.own_plan else None,
    ),
    Statistic(
        LOAD,
        "episode_lambda_max_rps",
        "Λ_max of the mix of the episode",
        lambda e: e.own_plan.lambda_max_rps if e.own_plan else None,
    ),
    Statistic(LOAD, "load_ratio", "load: mean rate ÷ that Λ_max", _load),
    Statistic(
        LOAD, "load_peak_ratio", "highest load, best t and N_p at each time", lambda e: max(w.load for w in e.windows)
    ),
    Statistic(
        LOAD, "load_over_1_time_share", "time above 1, best t and N_p at each time", _time_over(1.0, lambda w: w.load)
    ),
    Statistic(
        LOAD,
        "load_at_plan_peak_ratio",
        "highest load, t* and N_p* kept",
        lambda e: max(w.load_at_plan for w in e.windows),
    ),
    Statistic(
        LOAD,
        "load_at_plan_over_1_time_share",
        "time above 1, t* and N_p* kept",
        _time_over(1.0, lambda w: w.load_at_plan),
    ),
    Statistic(LINK, "link_mean_gbps", "mean capacity left for KV", _link_mean),
    Statistic(LINK, "link_min_gbps", "least capacity", _link_min),
    Statistic(LINK, "link_under_half_time_share", "time under half of the nominal capacity", _link_under_half),
    Statistic(
        LINK,
        "egress_at_plan_gbps",
        "mean egress that the plan asks for",
        lambda e: e.egress_at_plan_gbps if e.draw.capacity else None,
    ),
    Statistic(LINK, "failures", "instance failures", _failures),
    Statistic(LINK, "instances_down_share", "instance-time down", _down_share),
)
