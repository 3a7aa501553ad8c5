"""Which learned policies are shipped, what they correct, and whom they are compared with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from prfaas_env.evaluation.standings import BASELINE, Standings
from prfaas_env.policies import agents_module, policy_class, pretrained

__all__ = ["BEST_PRICED", "SCRIPTED", "Shipped", "best", "rivals", "shipped"]

SCRIPTED = (
    "windowed-closed-form",
    BASELINE,
    "load-aware",
    "least-completion",
    "priced-completion",
)
"""The scripted policies that adapt both knobs: among them are the bases, and the best of each routing law."""
BEST_PRICED = "priced-completion"
_ZERO = {"residual": "windowed-closed-form", "absolute": "windowed-closed-form", "price": "least-completion"}


@dataclass(frozen=True)
class Shipped:
    """A model: the name of its policy, the form of its actions, what its network's zero is, and where it comes from;
    ``hash`` is of its file."""

    name: str
    form: str
    base: str
    timesteps: int
    algorithm: str
    hash: str = ""

    @property
    def zero(self) -> str:
        """The scheduler that the zero action of the form is; of ``absolute``, which has none, the closed form."""
        return _ZERO[self.form]

    @property
    def by_price(self) -> bool:
        return self.form == "price"


def shipped() -> list[Shipped]:
    """Every shipped model, from the card in its file."""
    found = []
    for name, path in pretrained().items():
        _, card = agents_module("portable").Network.load(path)
        base = _ZERO[card.action]
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        found.append(
            Shipped(
                name,
                card.action,
                base,
                card.training.get("timesteps", 0),
                card.training.get("algo", card.algorithm).upper(),
                digest,
            )
        )
    return found


def best(board: Standings, by_price: bool | None = None) -> str:
    """The scripted policy of the least mean TTFT over all scenarios, of one routing law or of any."""
    return next(
        one.policy
        for one in board.ranked
        if one.policy in SCRIPTED
        and (by_price is None or (policy_class(one.policy).action_mode == "price") == by_price)
    )


def rivals(board: Standings, model: Shipped) -> dict[str, str]:
    """Whom a model is compared with, and as what; one that is several things is named once."""
    found: dict[str, str] = {}
    for policy, role in (
        (BASELINE, "the paper's scheduler, tuned"),
        (model.base, "its base: what it does where the network says nothing"),
        (best(board, model.by_price), "the best scripted policy of its routing law here"),
        (best(board), "the best scripted policy of any law here"),
        (BEST_PRICED, "decides on each request by a price"),
    ):
        found[policy] = f"{found[policy]}; {role}" if policy in found else role
    return found
