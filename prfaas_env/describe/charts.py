"""Pictures of an episode: what arrives, how long it is, how much of it repeats, and what it asks of the deployment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prfaas_env.describe.episode import MINUTE_S, Episode, dispersion
from prfaas_env.pages.figures import NEUTRAL, PALETTE, Chart, figure, line, log_axis, number, reference

__all__ = ["SERIES", "charts"]

INPUT, UNCACHED, OUTPUT, ARRIVALS = "input", "uncached input", "output", "arrivals"
ADAPTED, PLANNED, LINK, INSTANCES = "best t and N_p", "planned t* and N_p*", "link", "instances"
NAMES = (INPUT, ARRIVALS, UNCACHED, PLANNED, OUTPUT, LINK, INSTANCES)
SERIES = {**dict(zip(NAMES, PALETTE, strict=False)), ADAPTED: NEUTRAL}

BINS = 60  # of a length histogram
POINTS = 240  # that a line over time can show
MINUTES = {"title": {"text": "time, minutes"}}


def charts(episode: Episode) -> list[Chart]:
    """Every chart that the episode has something to show in. Needs plotly (extra ``report``)."""
    return list(_charts(episode))


def _charts(episode: Episode) -> Iterator[Chart]:
    if len(episode.draw.stream):
        yield from _lengths(episode)
        yield _rate(episode)
        if episode.nominal_plan.threshold_tokens is not None:
            yield _tail(episode)
        yield _load(episode)
        yield from _burstiness(episode)
        yield from _caching(episode)
    yield from _link(episode)
    yield from _instances(episode)


def _lengths(episode: Episode) -> Iterator[Chart]:
    stream, threshold = episode.draw.stream, episode.nominal_plan.threshold_tokens
    inputs = {INPUT: stream.input_tokens}
    words, vertical = "Share of the requests in each bin.", []
    if episode.hit_tokens.any():
        inputs[UNCACHED] = episode.uncached_tokens
        words += " Uncached: under one cache without limits."
    if threshold:
        vertical = [threshold]
        beyond = number(100.0 * (episode.tail_share() or 0.0))
        words += f" Dotted: the planned t* of {threshold:,.0f} tokens; {beyond} % exceed it uncached."
    yield Chart("Input lengths", words, _histogram(inputs, vertical))
    if np.ptp(stream.output_tokens):
        words = "Share of the requests in each bin. The time that a request decodes is in proportion to its output."
        yield Chart("Output lengths", words, _histogram({OUTPUT: stream.output_tokens}))


def _histogram(shown: Mapping[str, np.ndarray], vertical: Sequence[float] = ()) -> dict[str, Any]:
    """Shares of the requests over the logarithm of their length, as the outline of the bins."""
    low = min(float(lengths.min()) for lengths in shown.values())
    high = max(float(lengths.max()) for lengths in shown.values())
    edges = np.geomspace(0.9 * low, 1.1 * high, BINS + 1)
    traces = []
    for name, lengths in shown.items():
        share = 100.0 * np.histogram(lengths, edges)[0] / len(lengths)
        hover = "%{x:.3~s} tokens: %{y:.2f} % of requests"
        traces.append(line(name, edges, np.append(share, share[-1]), SERIES, hover, "hv"))
    return figure(traces, log_axis("tokens (log)", [low, high, *vertical]), y_axis("requests, %"), vertical)


def y_axis(unit: str, top: float | None = None) -> dict[str, Any]:
    """A linear axis from zero."""
    return {"title": {"text": unit}, "rangemode": "tozero"} | ({} if top is None else {"range": [0, top]})


def _rate(episode: Episode) -> Chart:
    step_s = max(MINUTE_S, MINUTE_S * math.ceil(episode.horizon_s / POINTS / MINUTE_S))
    if episode.horizon_s < 10 * step_s:
        step_s = episode.horizon_s / 10
    counts = episode.arrivals(step_s)
    x = np.arange(len(counts) + 1) * step_s / 60.0
    rates = np.append(counts, counts[-1]) / step_s
    mean = episode.rate_rps
    traces = [
        line(ARRIVALS, x, rates, SERIES, "%{x:.1f} min: %{y:.3~g} requests/s", "hv"),
        reference(x[[0, -1]], np.array([mean, mean]), "mean: %{y:.3~g} requests/s"),
    ]
    words = f"Over steps of {step_s:g} s. Dotted: the mean of {number(mean)} requests/s."
    return Chart("Arrival rate", words, figure(traces, MINUTES, y_axis("requests/s")))


def _windows_min(episode: Episode) -> np.ndarray:
    return np.array([*(w.start_s for w in episode.windows), episode.horizon_s]) / 60.0


def _steps(values: list[float]) -> np.ndarray:
    """Values of windows, the last one drawn to its end."""
    return np.array([*values, values[-1]], dtype=np.float64)


def _tail(episode: Episode) -> Chart:
    shares = [100.0 * w.tail_share if w.tail_share is not None else math.nan for w in episode.windows]
    x = _windows_min(episode)
    mean = 100.0 * (episode.tail_share() or 0.0)
    traces = [
        line(UNCACHED, x, _steps(shares), SERIES, "%{x:.1f} min: %{y:.1f} % over t*", "hv"),
        reference(x[[0, -1]], np.array([mean, mean]), "episode: %{y:.1f} %"),
    ]
    words = (
        f"Requests whose uncached input exceeds t*: the mix that routing has to follow. Dotted: {mean:.0f} % in all."
    )
    return Chart("P(L > t*)", words, figure(traces, MINUTES, y_axis("requests, %", 100)))


def _load(episode: Episode) -> Chart:
    x = _windows_min(episode)
    hover = "%{x:.1f} min: %{y:.3~g} of Λ_max"
    adapted, planned = ([getattr(w, name) for w in episode.windows] for name in ("load", "load_at_plan"))
    traces = [
        line(PLANNED, x, _steps(planned), SERIES, hover, "hv"),
        line(ADAPTED, x, _steps(adapted), SERIES, hover, "hv"),
        reference(x[[0, -1]], np.ones(2), "Λ_max"),
    ]
    top = 1.1 * min(max(1.0, *adapted, *planned), 4.0 * max(1.0, *adapted))
    words = (
        "Rate over what the mix and the mean link of each window sustain (closed form). Above the dotted line queues "
        "grow. Between the lines: what adapting t and N_p is worth, at most."
    )
    return Chart("Load", words, figure(traces, MINUTES, y_axis("rate ÷ Λ_max", top)))


def _burstiness(episode: Episode) -> Iterator[Chart]:
    scales = np.geomspace(min(1.0, episode.horizon_s / 100), episode.horizon_s / 20, 16)
    found = [(scale, dispersion(episode.arrivals(float(scale)))) for scale in scales.tolist()]
    known = np.array([(scale, value) for scale, value in found if value]).reshape(-1, 2)
    if len(known) < 2:
        return
    x, y = known.T
    traces = [
        line(ARRIVALS, x, y, SERIES, "counts over %{x:.3~g} s: %{y:.3~g}"),
        reference(x[[0, -1]], np.ones(2), "Poisson: 1"),
    ]
    words = (
        "Variance over mean of the number of arrivals, by the time over which they are counted. Poisson arrivals stay "
        "at the dotted line; where the curve climbs lie the bursts, or the waves of the rate."
    )
    axes = log_axis("seconds (log)", x.tolist()), log_axis("index of dispersion (log)", [1.0, *y.tolist()])
    yield Chart("Burstiness", words, figure(traces, *axes))


def _caching(episode: Episode) -> Iterator[Chart]:
    curve = episode.cache_curve
    if curve is None:
        return
    y = 100.0 * curve.hit_share
    most = 100.0 * float(episode.hit_tokens.sum() / episode.draw.stream.input_tokens.sum())
    x = curve.size_tokens
    y, x = y[x > 1e-4 * x[-1]], x[x > 1e-4 * x[-1]]
    traces = [
        line(INPUT, x, y, SERIES, "%{x:.3~s} tokens: %{y:.1f} % of input tokens"),
        reference(x[[0, -1]], np.array([most, most]), "without limits: %{y:.1f} %"),
    ]
    words = (
        f"Input tokens that one cache hits, by its size (least recently used, approximated). Dotted: {most:.1f} % "
        "without limits. A model with recurrent state hits less where prompts are edited."
    )
    yield Chart(
        "Cache hit potential",
        words,
        figure(
            traces,
            log_axis("cache, tokens (log)", x.tolist()),
            y_axis("input tokens, %", 100),
        ),
    )


def _link(episode: Episode) -> Iterator[Chart]:
    capacity, link = episode.draw.capacity, episode.scenario.deployment.link
    if capacity is None or link is None:
        return
    inside = capacity.times_s < episode.horizon_s
    x = np.append(capacity.times_s[inside], episode.horizon_s) / 60.0
    gbps = capacity.gbps[inside]
    asked = episode.egress_at_plan_gbps
    traces = [
        line(LINK, x, np.append(gbps, gbps[-1]), SERIES, "%{x:.1f} min: %{y:.3~g} Gbps", "hv"),
        reference(x[[0, -1]], np.array([asked, asked]), "the plan asks for %{y:.3~g} Gbps"),
    ]
    words = (
        f"Capacity left for KV, of {link.capacity_gbps:g} Gbps. Dotted: {number(asked)} Gbps, the mean egress that the "
        "plan asks for."
    )
    top = 1.1 * max(float(gbps.max()), link.capacity_gbps)
    yield Chart("Link", words, figure(traces, MINUTES, y_axis("Gbps", top)))


def _instances(episode: Episode) -> Iterator[Chart]:
    faults, total = episode.draw.faults, episode.instances
    if len(faults.times_s) == 0:
        return
    times_s = np.concatenate([[0.0], np.minimum(faults.times_s, episode.horizon_s), [episode.horizon_s]])
    up = total + np.concatenate([[0], np.cumsum(np.where(faults.up, 1, -1))])
    traces = [line(INSTANCES, times_s / 60.0, np.append(up, up[-1]), SERIES, "%{x:.1f} min: %{y} up", "hv")]
    words = f"Instances of both clusters that work, of {total}: {int((~faults.up).sum())} failures."
    yield Chart("Instances up", words, figure(traces, MINUTES, y_axis("instances", total + 1)))
