"""What a shipped policy answers to load, mix and link: its knobs, with one thing of recorded observations moved.

Observations of ordinary episodes are recorded under the policy itself, together with the window of lengths behind them.
Then one thing is set to each of some values in all of them, with what the environment would derive from it, and the
policy is asked anew, for ``ASKED_S`` on end: the guard moves N_p only when that has been asked for for some time. Rates
of arrivals follow Λ_max where that changes, so that the load stays.
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
)
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS
from prfaas_env.theory.online import OnlineClosedForm

__all__ = ["SWEEPS", "Moment", "picture", "record", "responses", "section"]

ORDINARY = "paper-stationary-80"
SEEDS = (0, 1)
EVERY, FIRST = 12, 30  # steps: two minutes apart, and none before the window is full
LONG_TOKENS = 32_768.0
EDGES_TOKENS = (256.0, 262_144.0)
ASKED_S = 60.0
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


def _load(closed_form: OnlineClosedForm, moment: Moment, value: float) -> dict[str, float]:
    factor = value / moment.observed["load"]
    closed_form.total = moment.window
    return {**moment.observed, "load": value, **_rates(closed_form, moment, factor)}


def _rates(closed_form: OnlineClosedForm, moment: Moment, factor: float) -> dict[str, float]:
    """All rates changed by a factor, and the threshold that fills the local pool at such arrivals."""
    rates = {name: factor * moment.observed[name] for name in RATES}
    filling_tokens = closed_form.filling(
        moment.observed["prefill_nodes"], rates["arrivals"], moment.observed["local_expected_wait_s"]
    )
    return {**rates, "filling_threshold": filling_tokens}


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
        **_rates(closed_form, moment, factor),
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


class Knob(NamedTuple):
    """What of the answers is drawn: its axis, its name in a sentence, digits and unit there, and its mean over some
    (controls); ``None`` where none of them sets it."""

    title: str
    name: str
    digits: int
    unit: str
    mean: Callable[[list[Control]], float | None]
    log: bool = False


def _price_s(controls: list[Control]) -> float | None:
    prices = [control.price_s for control in controls if control.law == "price"]
    return float(np.mean(prices)) if prices else None


def _threshold_tokens(controls: list[Control]) -> float | None:
    """A threshold acts by its logarithm; at the edges of its range it stands for all remote and all local."""
    thresholds = [control.threshold_tokens for control in controls if control.law == "threshold"]
    return float(np.exp(np.log(np.clip(thresholds, *EDGES_TOKENS)).mean())) if thresholds else None


PRICE = Knob("price β, s", "β", 1, " s", _price_s)
THRESHOLD = Knob("t, tokens", "t", 0, " tokens", _threshold_tokens, log=True)
SHARE = Knob(
    "share routed by t",
    "the share of moments with a threshold in place of a price",
    2,
    "",
    lambda controls: float(np.mean([control.law == "threshold" for control in controls])),
)
SPLIT = Knob("N_p", "N_p", 1, "", lambda controls: float(np.mean([control.n_prefill for control in controls])))


def _knobs(model: Shipped) -> dict[str, Knob]:
    if model.by_price:
        return {"price_s": PRICE, "by_threshold": SHARE, "n_prefill": SPLIT}
    return {"threshold_tokens": THRESHOLD, "n_prefill": SPLIT}


def _swept(
    sweep: Sweep, model: Shipped, scenario: Scenario, moments: list[Moment], closed_form: OnlineClosedForm
) -> dict[str, Any]:
    asked = {who: load_policy(who, scenario) for who in dict.fromkeys((model.name, model.base, model.zero))}
    knobs = _knobs(model)
    found: dict[str, dict[str, list[float | None]]] = {key: {who: [] for who in asked} for key in knobs}
    held_back = []
    for value in sweep.values:
        moved = [sweep.change(closed_form, moment, value) for moment in moments]
        for who, policy in asked.items():
            answers = [_answer(policy, scenario, observed) for observed in moved]
            for key, knob in knobs.items():
                found[key][who].append(knob.mean([control for control, _ in answers]))
            if who == model.name:
                held_back.append(float(np.mean([held for _, held in answers])))
    return {"values": list(sweep.values), **found, "held_back": held_back}


def _answer(policy: Any, scenario: Scenario, observed: Mapping[str, float]) -> tuple[Control, float]:
    """What a policy sets that sees the same for a while, and in which share of these steps it was held back."""
    observation, state = encode(np.array([observed[component.name] for component in COMPONENTS])), None
    steps = max(round(ASKED_S / observed["control_step_s"]), 1)
    for step in range(steps):
        action, state = policy.predict(observation, state, np.array([step == 0]))
    form = action_form(policy.action_mode, scenario.deployment)
    control = form.decode(
        action, observed["advised_threshold"], round(observed["advised_prefill"]), observed["filling_threshold"]
    )
    return control, policy.held_back_steps(state) / steps if hasattr(policy, "held_back_steps") else 0


def picture(model: Shipped, found: Mapping[str, Any]) -> str:
    """A row a knob and a column a sweep."""
    rows = []
    for key, knob in _knobs(model).items():
        row = []
        for name, of in found["sweeps"].items():
            curves = {who: (of["values"], answers) for who, answers in of[key].items()}
            row.append(Panel(knob.title, curves, SWEEPS[name].title, SWEEPS[name].log, knob.log))
        rows.append(row)
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
        f"Every policy sees the same for {ASKED_S:g} s and then says this, the guard of `{model.name}` in place; t is "
        "averaged in logarithms.",
        "",
    ]


def _sentence(model: Shipped, sweep: Sweep, of: Mapping[str, Any]) -> str:
    values = of["values"]

    def end(answer: float | None, digits: int) -> str:
        return "none" if answer is None else f"{answer:,.{digits}f}".replace("-", "−")

    told = []
    for key, knob in _knobs(model).items():
        answers = ", ".join(
            f"{end(own[0], knob.digits)} → {end(own[-1], knob.digits)} (`{who}`)" for who, own in of[key].items()
        )
        told.append(f"{knob.name} {'goes ' if not told else ''}{answers}{knob.unit}")
    outside = [value for value, share in zip(values, of["held_back"], strict=True) if share > 0.5]
    held = f" It is mostly held back at {', '.join(f'{value:g}' for value in outside)}." if outside else ""
    return f"- {sweep.words}, {values[0]:g} → {values[-1]:g}: {'; '.join(told)}.{held}"
