"""Single episodes against the paper's scheduler: where a policy gains most, where it loses most, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from docs.findings.markdown import percent
from docs.learned.comparison import number
from docs.learned.shipped import Shipped
from docs.panels import Panel, panels
from prfaas_env.evaluation.controls import PolicyRun
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.standings import BASELINE, METRIC, Row
from prfaas_env.scenario import Scenario

__all__ = ["chosen", "differs", "extremes", "picture", "section"]

EACH = 3
BIN_S = 60.0
EDGES_TOKENS = (256.0, 262_144.0)
LEAST = 0.05
"""Of a quantity, a difference that is worth a word."""
GAIN, LOSS = "gain", "loss"


def extremes(rows: Sequence[Row], model: Shipped) -> dict[str, list[tuple[str, int, float]]]:
    """Scenario, seed and ratio of the episodes of least and of greatest ratio, at most one of each scenario."""
    costs = {(row["policy"], row["scenario"], row["seed"]): row[METRIC] for row in rows}
    ratios = [
        (scenario, seed, own_s / costs[BASELINE, scenario, seed])
        for (policy, scenario, seed), own_s in costs.items()
        if policy == model.name and np.isfinite(own_s / costs.get((BASELINE, scenario, seed), np.nan))
    ]
    ratios.sort(key=lambda one: one[2])
    greatest = {scenario: (scenario, seed, ratio) for scenario, seed, ratio in ratios}
    least = {scenario: (scenario, seed, ratio) for scenario, seed, ratio in reversed(ratios)}
    gains, losses = (sorted(of.values(), key=lambda one: one[2]) for of in (least, greatest))
    return {GAIN: gains[:EACH], LOSS: losses[::-1][:EACH]}


def chosen(rows: Sequence[Row], scenarios: Sequence[Scenario], model: Shipped) -> list[dict[str, Any]]:
    """The episodes played again: their course by the minute under both policies, and their figures."""
    named = {one.name: one for one in scenarios}
    found = []
    for kind, picked in extremes(rows, model).items():
        for scenario, seed, ratio in picked:
            runs = {policy: simulate(named[scenario], policy, seed) for policy in (model.name, BASELINE)}
            found.append(
                {
                    "kind": kind,
                    "scenario": scenario,
                    "seed": seed,
                    "ratio": ratio,
                    "course": {policy: _course(run) for policy, run in runs.items()},
                    "figures": {policy: _figures(run) for policy, run in runs.items()},
                }
            )
    return found


def _course(run: PolicyRun) -> dict[str, list[float]]:
    """Sums and means by the minute; nothing (NaN) of a routing law in minutes without it."""
    steps, controls = run.timeline, run.controls
    minute = ((steps["time_s"] - 1e-6) // BIN_S).astype(int)
    n = np.bincount(minute).astype(float)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(minute, values)

    with np.errstate(invalid="ignore", divide="ignore"):
        course = {
            "minutes": (np.arange(len(n)) + 0.5) * BIN_S / 60.0,
            "arrivals_rps": total(steps["arrived"]) / total(steps["interval_s"]),
            "remote_share": total(steps["routed_remote"]) / total(steps["arrived"]),
            "n_prefill": total(steps["prefill_nodes"]) / n,
            "waiting": total(steps["waiting"]) / n,
            "ttft_s": total(steps["ttft_sum_s"]) / total(steps["first_tokens"]),
        }
        priced = controls["by_price"].astype(float)
        if priced.any():
            course["price_s"] = total(priced * controls["price_s"]) / total(priced)
        if not priced.all():
            logs = np.log(np.clip(controls["threshold_tokens"], *EDGES_TOKENS))
            course["threshold_tokens"] = np.exp(total((1.0 - priced) * logs) / total(1.0 - priced))
    return {key: values.tolist() for key, values in course.items()}


def _figures(run: PolicyRun) -> dict[str, float]:
    """Of the whole episode; ``first_change_s``: when another N_p than that of the first step was first asked for."""
    targets = run.controls["n_prefill"]
    changes = np.flatnonzero(targets != run.timeline["prefill_nodes"][0])
    return {
        "ttft_mean_s": run.summary["ttft_mean_s"],
        "remote_share": run.summary["offload_fraction"],
        "n_prefill": float(run.timeline["prefill_nodes"].mean()),
        "threshold_tokens": float(np.exp(np.log(np.clip(run.controls["threshold_tokens"], *EDGES_TOKENS)).mean())),
        "by_price": float(run.controls["by_price"].any()),
        "conversions": run.summary["conversions"],
        "first_change_s": float(run.timeline["time_s"][changes[0]]) if len(changes) else np.nan,
        "most_waiting": float(run.timeline["waiting"].max()),
    }


def differs(model: Shipped, episode: Mapping[str, Any]) -> str:
    """One sentence on what the two policies did otherwise, the greatest difference first."""
    own, other = (episode["figures"][policy] for policy in (model.name, BASELINE))
    told: list[tuple[float, str]] = []

    def tell(key: str, words: str) -> None:
        size = abs(np.log(max(own[key], 1e-3) / max(other[key], 1e-3)))
        if size > LEAST:
            told.append((size, words))

    tell(
        "remote_share",
        f"sends {percent(own['remote_share'])} of the requests remote ({percent(other['remote_share'])})",
    )
    tell("n_prefill", f"has {own['n_prefill']:.1f} prefill instances on average ({other['n_prefill']:.1f})")
    tell("conversions", f"converts {_times(own['conversions'])} ({_times(other['conversions'])})")
    if not own["by_price"]:
        both = f"{own['threshold_tokens']:,.0f} tokens ({other['threshold_tokens']:,.0f})"
        tell("threshold_tokens", f"keeps t at {both}")
    first, theirs = own["first_change_s"], other["first_change_s"]
    if first is None and theirs is not None:
        told.append((1.0, f"asks for no conversion (first at {theirs:,.0f} s)"))
    elif first is None:
        pass
    elif theirs is None:
        told.append((1.0, f"asks for its first conversion at {first:,.0f} s (for none)"))
    elif first != theirs:
        when = f"{abs(first - theirs):,.0f} s {'earlier' if first < theirs else 'later'}"
        told.append((abs(np.log(first / theirs)), f"asks for its first conversion {when}, at {first:,.0f} s"))
    told.sort(key=lambda one: -one[0])
    did = ", ".join(words for _, words in told[:3]) or "acts much the same"
    return (
        f"`{model.name}` {did}; at most {own['most_waiting']:,.0f} requests wait ({other['most_waiting']:,.0f}), and "
        f"mean TTFT is {number(own['ttft_mean_s'])} s ({number(other['ttft_mean_s'])} s)."
    )


def _times(count: float) -> str:
    return {0: "never", 1: "once"}.get(round(count), f"{count:.0f} times")


def picture(episode: Mapping[str, Any]) -> str:
    """The course of both runs, one chart under the other."""
    course = episode["course"]
    routes = {"threshold_tokens": "t, tokens", "price_s": "price β, s"}
    charts: list[list[Panel]] = []
    for key, title in (
        ("arrivals_rps", "arrivals, requests/s"),
        *routes.items(),
        ("remote_share", "share sent remote"),
        ("n_prefill", "prefill instances N_p"),
        ("waiting", "requests waiting for a first token"),
        ("ttft_s", "mean TTFT of the minute's first tokens, s"),
    ):
        curves = {who: (own["minutes"], own[key]) for who, own in course.items() if key in own}
        if key == "arrivals_rps":
            curves.pop(BASELINE)  # they are the same
        if curves:
            charts.append([Panel(title, curves, log_y=key == "threshold_tokens")])
    last = len(charts) - (2 - len(charts) % 2)
    charts[last:] = [[chart._replace(x_title="minutes")] for (chart,) in charts[last:]]
    pairs = [[*a, *b] for a, b in zip(charts[::2], charts[1::2], strict=False)]
    return panels([*pairs, *([charts[-1]] if len(charts) % 2 else [])], height=80)


def section(model: Shipped, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every episode with its picture and its sentence."""
    lines = [
        "### Single episodes",
        "",
        f"The episodes of the least and of the greatest ratio of mean TTFT to `{BASELINE}`, whose figures stand in "
        "brackets; at most one of each scenario. N_p is what serves, not what was asked for; t is the geometric mean.",
        "",
    ]
    for k, episode in enumerate(found):
        what = "Gain" if episode["kind"] == GAIN else "Loss" if episode["ratio"] > 1.0 else "Least gain"
        title = f"{what}: {episode['scenario']}, seed {episode['seed']}, ratio {number(episode['ratio'])}"
        lines += [
            f"**{title}.** {differs(model, episode)}",
            "",
            f"![{title}](images/{model.name}-episode-{k + 1}.svg)",
            "",
        ]
    return lines
