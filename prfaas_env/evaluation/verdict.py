"""The verdict in words: who leads, where a learned policy wins or loses and to whom, and what adapting is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prfaas_env.evaluation.standings import BASELINE, Standing, Standings
from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.evaluation.words import FEW_SEEDS, ratio_text, share
from prfaas_env.pages.figures import number
from prfaas_env.policies import pretrained

__all__ = ["verdict"]

STATIC = "static"


def verdict(board: Standings) -> list[str]:
    """Sentences, the most important first; one that would say nothing is left out.

    Each learned policy is compared in each scenario, in pairs, with the best of the other contenders by mean TTFT;
    without one, the leader is named. Where ``static`` took part, its ratios say whether adapting pays.
    """
    contenders = [s for s in board.contenders() if math.isfinite(s.overall.ratio)]
    if not contenders:
        return ["No policy can be ranked: no episode had requests under both a policy and the baseline."]
    if len(contenders) == 1:
        return [f"`{contenders[0].policy}` alone was run: there is no contender to compare it with."]
    learned = [s.policy for s in contenders if is_learned(s.policy)]
    lines = (
        [line for policy in learned for line in _learned(board, policy)] if learned else [_leader(board, contenders)]
    )
    return [*lines, *_static(board)]


def is_learned(policy: str) -> bool:
    """A shipped model, or one of the user's own by its path."""
    return policy == "learned" or policy in pretrained() or policy.endswith((".zip", ".npz", ".onnx"))


def _leader(board: Standings, contenders: Sequence[Standing]) -> str:
    lead = contenders[0]
    if lead.overall.ratio >= 1.0:
        return (
            f"Nothing beats the baseline `{board.baseline}` in mean TTFT over {_all(board)}{_few(lead.overall, board)}."
        )
    ratio = f"{ratio_text(lead.overall)} times that of `{board.baseline}`"
    return f"`{lead.policy}` leads{_few(lead.overall, board)}: mean TTFT {ratio} over {_all(board)}."


def _all(board: Standings) -> str:
    return "all scenarios" if len(board.scenarios) > 1 else board.scenarios[0]


def _few(found: Comparison, board: Standings) -> str:
    """A caveat beside a claim that rests on few seeds."""
    seeds = math.ceil(found.pairs / len(board.scenarios))
    return f" (few seeds: {seeds})" if seeds < FEW_SEEDS else ""


def _learned(board: Standings, policy: str) -> list[str]:
    found = [_against_best(board, policy, scenario) for scenario in board.scenarios]
    outcomes = [outcome for outcome, _ in found]
    won, lost, n = outcomes.count("wins"), outcomes.count("loses"), len(found)
    few = _few(board.of(policy).overall, board)
    against = "against the best of the other policies"
    if n == 1:
        return [f"`{policy}` on {found[0][1]}"]
    if won == n:
        summary = f"`{policy}` wins in every scenario {against}{few}."
    elif won or lost:
        summary = (
            f"`{policy}` wins in {won} of {n} scenarios {against}, loses in {lost}, is level in {n - won - lost}{few}."
        )
    else:
        summary = f"`{policy}` neither wins nor loses clearly in any scenario {against}{few}."
    return [summary, *(line for _, line in found)]


def _against_best(board: Standings, policy: str, scenario: str) -> tuple[str, str]:
    """``wins``, ``loses`` or ``is level`` against the best of the others in a scenario, and a sentence on it."""
    ours = board.of(policy)
    best = min((s for s in board.contenders() if s.policy != policy), key=lambda s: s.order(scenario))
    found = board.against(policy, best.policy, [scenario])
    outcome = "wins" if found.better else "loses" if found.worse else "is level"
    few = f" (few seeds: {found.pairs})" if found.pairs < FEW_SEEDS else ""
    claim = {"wins": f"wins{few} against", "loses": f"loses{few} to"}.get(outcome, f"no clear difference{few} from")
    goodput, tail = "goodput", "ttft_p99_s"
    line = (
        f"{scenario}: {claim} `{best.policy}`, the best of the others by mean TTFT: {ratio_text(found)} times "
        f"its mean; goodput {share(ours.mean(scenario, goodput))} against {share(best.mean(scenario, goodput))}"
    )
    if ours.mean(scenario, tail) > best.mean(scenario, tail):
        line += f"; P99 is worse: {number(ours.mean(scenario, tail))} s against {number(best.mean(scenario, tail))} s"
    return outcome, line + "."


def _static(board: Standings) -> list[str]:
    """Static or adaptive t? Its ratios to the scheduler that adapts, where both took part."""
    if board.baseline != BASELINE or not any(s.policy == STATIC for s in board.ranked):
        return []
    found = {name: board.comparison(STATIC, name) for name in board.scenarios}
    ratios = [f"{ratio_text(c)} on {name}" for name, c in found.items() if math.isfinite(c.ratio)]
    if not ratios:
        return []
    return [
        f"Static or adaptive: a fixed t and N_p (`{STATIC}`) takes {', '.join(ratios)} times the mean TTFT of "
        f"`{BASELINE}`, which adapts both{_few(board.of(STATIC).overall, board)}."
    ]
