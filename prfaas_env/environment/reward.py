"""The reward: named terms, and for each kind of reward the weights whose sum over the terms it is, exactly.

By Little's law the time-integral of the number of requests that wait for their first token is the sum of their TTFTs
(less the deployment's constant overhead), so −∫ N_wait dt is a dense TTFT reward without delayed credit. Every term is
divided by the *nominal arrivals* of a control step, Λ_max of the scenario's nominal workload × step: figures are then
per request, and of one size whatever the deployment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.deployment import Deployment
from prfaas_env.simulator.signals import SIGNAL

__all__ = [
    "PATIENCE_S",
    "REWARDS",
    "TERMS",
    "Term",
    "patience_s",
    "reward_table",
    "reward_terms",
    "reward_weights",
    "term_factors",
    "weigh",
]

PATIENCE_S = 30.0
"""A request counts in the waiting term for its first 30 s only, or overloaded episodes would drown all others.

Whoever learns under it learns to give up on those that have waited longer, which is no way to a low mean TTFT."""


class Term(NamedTuple):
    name: str
    unit: str
    signal: str
    meaning: str


TERMS: tuple[Term, ...] = (
    Term(
        "waiting",
        "s",
        "waiting_young_integral_s",
        f"time waited for first tokens, at most {PATIENCE_S:g} s a request (`mean-ttft`: all of it)",
    ),
    Term("throughput", "1", "first_tokens", "first tokens given"),
    Term("goodput", "1", "completed_good", "requests finished within their TTFT and TPOT objectives"),
    Term("egress_usd", "USD", "link_sent_bytes", "price of the bytes sent over the link"),
    Term("instances_usd", "USD", "interval_s", "price of the instance-hours, both clusters"),
)

# A request past its patience costs no more by waiting on; a second's worth of throughput keeps a reason to serve it.
_TTFT = {"waiting": -1.0, "throughput": 1.0}
REWARDS: Mapping[str, Mapping[str, float]] = {
    "ttft": _TTFT,
    "mean-ttft": {"waiting": -1.0},
    "goodput": {"goodput": 1.0},
    # A cent a request weighs as much as a second of TTFT.
    "cost": {**_TTFT, "egress_usd": -100.0, "instances_usd": -100.0},
}
"""Weights of the terms for each kind of reward; a term that is not named weighs 0."""
PATIENT = ("mean-ttft",)
"""Rewards under which a request counts for as long as it waits: their sum is that of all TTFTs, exactly."""

_SIGNALS = np.array([SIGNAL[term.signal] for term in TERMS])


def reward_weights(name: str) -> np.ndarray:
    """Weights in the order of ``TERMS``, float64 (terms,). Raises :class:`ConfigError` on an unknown name."""
    if name not in REWARDS:
        raise ConfigError(f"unknown reward {name!r}{nearest(name, REWARDS)}")
    return np.array([REWARDS[name].get(term.name, 0.0) for term in TERMS])


def patience_s(name: str) -> float:
    """For how long a request counts in the waiting term under a kind of reward."""
    return math.inf if name in PATIENT else PATIENCE_S


def term_factors(deployment: Deployment, nominal_arrivals: float) -> np.ndarray:
    """What turns each term's signal into the term: its price, per nominal arrival of a control step. Shape (terms,)."""
    egress = deployment.link.price_usd_per_gb / 1e9 if deployment.link else 0.0
    prices = {"egress_usd": egress, "instances_usd": deployment.instances_usd_per_hour / 3600.0}
    return np.array([prices.get(term.name, 1.0) for term in TERMS]) / nominal_arrivals


def reward_terms(signals: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The terms of one interval, float64 (terms,), from its signals (order of ``SIGNALS``)."""
    terms = np.empty(factors.shape[0])
    for k in range(factors.shape[0]):
        terms[k] = signals[_SIGNALS[k]] * factors[k]
    return terms


def weigh(terms: np.ndarray, weights: np.ndarray) -> float:
    """Sum of weight × term, added in the order of the terms."""
    total = 0.0
    for i in range(len(terms)):
        total += weights[i] * terms[i]
    return total


def reward_table() -> str:
    """Terms and weights in Markdown, as the environment's page shows them."""
    head = ["term", "unit", "meaning", *REWARDS]
    rows = [
        [f"`{t.name}`", t.unit, t.meaning, *(f"{weights.get(t.name, 0.0):g}" for weights in REWARDS.values())]
        for t in TERMS
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
