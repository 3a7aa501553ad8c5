"""What a shipped policy answers to load, mix and link: its knobs, with one thing of recorded observations moved.

Observations of ordinary episodes are recorded under the policy itself, together with the window of lengths behind them.
Then one thing is set to each of some values in all of them, with what the environment would derive from it, and the
policy is asked anew, without memory. Rates of arrivals follow Λ_max where that changes, so that the load stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from docs.learned.shipped import Shipped
from docs.panels import Panel, panels
from prfaas_env.environment.actions import action_form
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import (
    COMPONENTS,
    HISTOGRAM_FACTS,
    coarse_shares,
    decode,
    encode,
    observed_remote_wait_s,
)
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS
from prfaas_env.theory.online import OnlineClosedForm

__all__ = ["SWEEPS", "Moment", "picture", "record", "responses", "section"]

ORDINARY = "paper-stationary-80"
SEEDS = (0, 1)
EVERY, FIRST = 12, 30  # steps: two minutes apart, and none before the window is full
LONG_TOKENS = 32_768.0
EDGES_TOKENS = (256.0, 262_144.0)
RATES = ("arrivals", "arrivals_interval", "arrivals_window", "first_tokens", "completions")


class Moment(NamedTuple):
    """An observation, its components in physical units, and the closed form's window behind it."""

    observed: Mapping[str, float]
    window: np.ndarray


Change = Callable[[OnlineClosedForm, Moment, float], dict[str, float]]
"""The components with one thing of a moment set to a value; the closed form is the deployment's."""


def record(scenario: Scenario, name: str, seeds: tuple[int, ...] = SEEDS) -> list[Moment]:
    """Moments of ordinary episodes under a policy."""
    moments = []
    policy = load_policy(name, scenario)
    for seed in seeds:
        loop = ControlLoop(scenario, action=policy.action_mode)
        observation, state, step, ended = loop.reset(seed), None, 0, False
        while not ended:
            if step >= FIRST and step % EVERY == 0:
                moments.append(Moment(decode(observation), loop.episode.closed_form.total.copy()))
            action, state = policy.predict(observation, state, np.array([step == 0]))
            interval = loop.step(action)
            observation, ended, step = interval.observation, interval.ended, step + 1
    return moments


def _load(_: OnlineClosedForm, moment: Moment, value: float) -> dict[str, float]:
    factor = value / moment.observed["load"]
    return {**moment.observed, "load": value, **{name: factor * moment.observed[name] for name in RATES}}


def _mix(closed_form: OnlineClosedForm, moment: Moment, value: float) -> dict[str, float]:
    window = moment.window.copy()
    counts = window[: len(LENGTH_BIN_CENTRES_TOKENS)]  # a view
    long = LENGTH_BIN_CENTRES_TOKENS >= LONG_TOKENS
    total, share = counts.sum(), counts[long].sum() / counts.sum()
    counts[long] *= value / share
    counts[~long] *= (1.0 - value) / (1.0 - share)
    counts *= total / counts.sum()
    histogram = dict(zip(HISTOGRAM_FACTS, coarse_shares(counts).tolist(), strict=True))
    capacity_gbps = moment.observed["link_capacity_gbps"]
    return {**moment.observed, **histogram, **_advised(closed_form, moment, window, capacity_gbps)}


def _capacity(closed_form: OnlineClosedForm, moment: Moment, value: float) -> dict[str, float]:
    observed = moment.observed
    utilisation = min(observed["link_utilisation"] * observed["link_capacity_gbps"] / value, 1.0)
    advised = _advised(closed_form, moment, moment.window, value)
    return {**observed, "link_capacity_gbps": value, "link_utilisation": utilisation, **advised}


def _backlog(_: OnlineClosedForm, moment: Moment, value: float) -> dict[str, float]:
    full = {"link_utilisation": 1.0, "link_congested_share": 1.0} if value else {}
    return {**moment.observed, "link_backlog": value, **full}


def _advised(
    closed_form: OnlineClosedForm, moment: Moment, window: np.ndarray, capacity_gbps: float
) -> dict[str, float]:
    """What the online closed form advises on a window, and the rates at the load that there was."""
    observed = moment.observed
    closed_form.total = window
    advice = closed_form.advise(capacity_gbps, round(observed["prefill_nodes"]))
    factor = advice.lambda_max_rps / observed["lambda_max"]
    return {
        "advised_threshold": advice.threshold_tokens,
        "advised_prefill": float(advice.n_prefill),
        "target_over_advised": observed["target_prefill_nodes"] - advice.n_prefill,
        "advised_share": advice.n_prefill / observed["local_instances"],
        "advised_threshold_present_split": advice.threshold_at_present_split_tokens,
        "lambda_max": advice.lambda_max_rps,
        "prefill_present_split_rps": advice.prefill_at_present_split_rps,
        "decode_present_split_rps": advice.decode_at_present_split_rps,
        **{name: factor * observed[name] for name in RATES},
    }


class Sweep(NamedTuple):
    """``title``: what is moved, as an axis says it; ``words``: the same in a sentence."""

    title: str
    words: str
    values: tuple[float, ...]
    change: Change
    log: bool = False


SWEEPS: Mapping[str, Sweep] = {
    "load": Sweep("load, arrivals / Λ_max", "load", (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3), _load),
    "mix": Sweep(
        f"share of prompts ≥ {LONG_TOKENS / 1024:.0f}k", "share of long prompts", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), _mix
    ),
    "capacity": Sweep("link, Gbps", "link's capacity in Gbps", (5, 8, 12, 16, 25, 50, 100), _capacity, log=True),
    "backlog": Sweep("KV backlog, GB", "KV backlog in GB", (0, 2, 5, 10, 20, 40), _backlog),
}


def responses(model: Shipped) -> dict[str, Any]:
    """For every sweep the mean answers of the policy, its base and the zero action of its form, which is the online
    closed form or routes at no price; and in which share of the observations its guard steps in."""
    scenario = load_scenario(ORDINARY)
    moments = record(scenario, model.name)
    closed_form = OnlineClosedForm(scenario.deployment, scenario.nominal, 1.0, 1.0)
    found = {key: _swept(sweep, model, scenario, moments, closed_form) for key, sweep in SWEEPS.items()}
    return {"scenario": ORDINARY, "seeds": list(SEEDS), "moments": len(moments), "sweeps": found}


def _swept(
    sweep: Sweep, model: Shipped, scenario: Scenario, moments: list[Moment], closed_form: OnlineClosedForm
) -> dict[str, Any]:
    asked = {who: load_policy(who, scenario) for who in dict.fromkeys((model.name, model.base, model.zero))}
    route: dict[str, list[float]] = {who: [] for who in asked}
    n_prefill: dict[str, list[float]] = {who: [] for who in route}
    held_back = []
    for value in sweep.values:
        moved = [sweep.change(closed_form, moment, value) for moment in moments]
        knobs = {who: [_answer(policy, scenario, observed) for observed in moved] for who, policy in asked.items()}
        for who, answers in knobs.items():
            routes, splits, _ = np.array(answers, float).T
            # A threshold acts by its logarithm; at the edges of its range it stands for all remote and all local.
            mean = routes.mean() if model.by_price else np.exp(np.log(np.clip(routes, *EDGES_TOKENS)).mean())
            route[who].append(float(mean))
            n_prefill[who].append(float(splits.mean()))
        held_back.append(float(np.mean([held for *_, held in knobs[model.name]])))
    return {"values": list(sweep.values), "route": route, "n_prefill": n_prefill, "held_back": held_back}


def _answer(policy: Any, scenario: Scenario, observed: Mapping[str, float]) -> tuple[float, int, int]:
    """t in tokens or the price in seconds, N_p, and whether the policy was held back."""
    observation = encode(np.array([observed[component.name] for component in COMPONENTS]))
    action, state = policy.predict(observation, None, np.array([True]))
    form = action_form(policy.action_mode, scenario.deployment)
    wait_s = observed_remote_wait_s(observed)
    control = form.decode(action, observed["advised_threshold"], round(observed["advised_prefill"]), wait_s)
    held_back = policy.held_back_steps(state) if hasattr(policy, "held_back_steps") else 0
    return control.price_s if control.law == "price" else control.threshold_tokens, control.n_prefill, held_back


def picture(model: Shipped, found: Mapping[str, Any]) -> str:
    """Two rows, routing and split, and a column a sweep."""
    title = "price β, s" if model.by_price else "t, tokens"
    rows: list[list[Panel]] = [[], []]
    for key, of in found["sweeps"].items():
        sweep = SWEEPS[key]
        for row, (what, knob) in zip(rows, ((title, "route"), ("N_p", "n_prefill")), strict=True):
            curves = {who: (of["values"], answers) for who, answers in of[knob].items()}
            log_y = knob == "route" and not model.by_price
            row.append(Panel(what, curves, sweep.title, sweep.log, log_y))
    return panels(rows)


def section(model: Shipped, found: Mapping[str, Any]) -> list[str]:
    """The picture, a sentence a sweep, and how it was made."""
    seeds = " and ".join(map(str, found["seeds"]))
    return [
        "### What it learned",
        "",
        f"![Answers of {model.name} and its base to load, mix and link](images/{model.name}-responses.svg)",
        "",
        *(_sentence(model, SWEEPS[key], of) for key, of in found["sweeps"].items()),
        "",
        f"The curves are means over {found['moments']} observations, recorded every {EVERY} steps of ordinary "
        f"episodes (`{found['scenario']}`, seeds {seeds}) under `{model.name}`. In each of them one thing is moved, "
        "with what follows: from the load, the rates of arrivals; from the mix, the histogram of lengths (those "
        "above and below the bound keep their proportions) and all that the closed form advises; from the link's "
        "capacity, that advice and the link's utilisation. Where Λ_max changes, arrivals change with it, so that the "
        "load stays; under a backlog the link counts as full. Queues, waits and the knobs in force stay as recorded. "
        f"Every policy is asked without memory, the guard of `{model.name}` in place; t is averaged in logarithms.",
        "",
    ]


def _sentence(model: Shipped, sweep: Sweep, of: Mapping[str, Any]) -> str:
    values = of["values"]

    def ends(answers: list[float], digits: int) -> str:
        return f"{answers[0]:,.{digits}f} → {answers[-1]:,.{digits}f}".replace("-", "−")

    name, digits, unit = ("β", 1, " s") if model.by_price else ("t", 0, " tokens")
    routes = ", ".join(f"{ends(answers, digits)} (`{one}`)" for one, answers in of["route"].items())
    splits = ", ".join(f"{ends(answers, 1)} (`{one}`)" for one, answers in of["n_prefill"].items())
    outside = [value for value, share in zip(values, of["held_back"], strict=True) if share > 0.5]
    held = f" It is mostly held back at {', '.join(f'{value:g}' for value in outside)}." if outside else ""
    return f"- {sweep.words}, {values[0]:g} → {values[-1]:g}: {name} goes {routes}{unit}; N_p {splits}.{held}"
