"""Each shipped policy against its rivals on the same requests: by scenario, by family, and what was aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docs.findings.markdown import percent, table
from docs.interval_chart import interval_chart
from docs.learned.shipped import Shipped, best, rivals
from prfaas_env.evaluation.standings import BASELINE, Standings
from prfaas_env.scenario import Scenario

__all__ = ["aimed_at", "aimed_scenarios", "compared", "number", "picture", "ratio", "sections"]

TAIL = "ttft_p99_s"
MEANS = ("ttft_mean_s", TAIL, "goodput", "throughput_rps")
AIMED_FAMILIES = ("drift", "rate", "link")
"""Families, besides every real trace, over which a policy that moves the threshold is to gain."""
MOST_IQM, MOST_HIGH, LEAST_WINS, WORST = 0.85, 0.92, 0.90, 1.03
TICKS = (0.1, 0.2, 0.5, 1.0, 2.0)

Found = Mapping[str, Any]


def compared(board: Standings, scenarios: Sequence[Scenario], model: Shipped) -> dict[str, Any]:
    """Ratios of mean TTFT to every rival, of P99 to the baseline, and means over seeds."""
    roles = rivals(board, model)
    present = [one for one in scenarios if one.name in board.scenarios]
    families: dict[str, list[str]] = {}
    for one in present:
        families.setdefault(one.family, []).append(one.name)
    everywhere = [one.name for one in present]

    def against(names: Sequence[str]) -> dict[str, Any]:
        return {rival: _ratio(board, model.name, rival, names) for rival in roles}

    return {
        "rivals": roles,
        "all": against(everywhere),
        "families": {family: {"scenarios": names, **against(names)} for family, names in families.items()},
        "scenarios": {name: against([name]) for name in everywhere},
        "tails": {
            "all": _ratio(board, model.name, BASELINE, everywhere, TAIL),
            **{family: _ratio(board, model.name, BASELINE, names, TAIL) for family, names in families.items()},
        },
        "means": {
            name: {p: {key: board.of(p).mean(name, key) for key in MEANS} for p in (model.name, BASELINE)}
            for name in everywhere
        },
        "aimed_at": aimed_at(board, present, model),
    }


def _ratio(board: Standings, policy: str, other: str, scenarios: Sequence[str], metric: str = MEANS[0]) -> Found:
    found = board.against(policy, other, scenarios, metric)
    return {
        "value": found.ratio,
        "low": found.low,
        "high": found.high,
        "interquartile": found.interquartile_ratio,
        "wins": found.win_share,
        "pairs": found.pairs,
    }


def aimed_at(board: Standings, scenarios: Sequence[Scenario], model: Shipped) -> list[dict[str, Any]]:
    """The targets of a form in words, each with the figure found and whether it is hit (``None``: nothing to judge)."""
    if model.by_price:
        targets = []
        for rival, who in ((model.zero, "where its zero lies"), (best(board), "the best scripted policy of any law")):
            found = board.against(model.name, rival, [one.name for one in scenarios])
            words = f"ratio of mean TTFT to `{rival}`, {who}, over all scenarios"
            targets += [
                _target(words, found.ratio, "<", 1.0),
                _target("upper end of its 95 % interval", found.high, "<", 1.0),
            ]
        return targets
    aimed = [one.name for one in aimed_scenarios(scenarios)]
    found = board.against(model.name, BASELINE, aimed)
    worst = max((board.against(model.name, BASELINE, [one.name]).ratio, one.name) for one in scenarios)
    over = f"over the families {', '.join(AIMED_FAMILIES)} and the real traces ({len(aimed)} scenarios)"
    return [
        _target(
            f"interquartile mean of the paired ratios to `{BASELINE}` {over}", found.interquartile_ratio, "≤", MOST_IQM
        ),
        _target("upper end of the 95 % interval of the ratio over the same", found.high, "<", MOST_HIGH),
        _target("share of the same pairs won", found.win_share, "≥", LEAST_WINS),
        _target(f"ratio of the worst scenario of all (here {worst[1]})", worst[0], "≤", WORST),
    ]


def aimed_scenarios(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Those over which a policy that moves the threshold is to gain."""
    return [one for one in scenarios if one.family in AIMED_FAMILIES or one.workload.kind == "trace"]


def _target(words: str, value: float, sign: str, bound: float) -> dict[str, Any]:
    hit = {"≤": value <= bound, "<": value < bound, "≥": value >= bound}[sign]
    return {"words": words, "value": value, "sign": sign, "bound": bound, "hit": hit if value == value else None}


def sections(name: str, found: Found) -> list[str]:
    """Targets, families and scenarios in Markdown."""
    rivals_ = list(found["rivals"])
    overall = found["all"][BASELINE]
    hits = [target["hit"] for target in found["aimed_at"]]
    verdict = {None: "cannot be judged", True: "hit", False: "**missed**"}
    return [
        f"Mean TTFT over that of `{BASELINE}` is {ratio(overall)} over all scenarios (geometric mean; interquartile "
        f"mean of the paired ratios {number(overall['interquartile'])}), and lower in {percent(overall['wins'])} of "
        f"{overall['pairs']} pairs; P99 over its P99 is {ratio(found['tails']['all'])}. Compared with: "
        + "; ".join(f"`{rival}` ({role})" for rival, role in found["rivals"].items())
        + ".",
        "",
        f"What was aimed at: {hits.count(True)} of {len(hits)} targets hit.",
        "",
        table(
            ("target", "found", "aimed at", ""),
            [
                (one["words"], number(one["value"]), f"{one['sign']} {one['bound']:.2f}", verdict[one["hit"]])
                for one in found["aimed_at"]
            ],
        ),
        f"![Mean TTFT of {name} over that of {BASELINE}, by scenario](images/{name}-ratios.svg)",
        "",
        "Ratio of mean TTFT with its 95 % interval, and the share of episodes won, by family, and of P99:",
        "",
        table(
            ("family", *(f"`{rival}`" for rival in rivals_), f"P99, `{BASELINE}`"),
            [
                (f"{family} ({len(of['scenarios'])})", *(_cell(of[rival]) for rival in rivals_), _cell(tail))
                for family, of, tail in [
                    *((family, of, found["tails"][family]) for family, of in found["families"].items()),
                    ("all", {"scenarios": found["scenarios"], **found["all"]}, found["tails"]["all"]),
                ]
            ],
        ),
        "By scenario:",
        "",
        table(
            ("scenario", *(f"`{rival}`" for rival in rivals_)),
            [(name_, *(_cell(of[rival]) for rival in rivals_)) for name_, of in found["scenarios"].items()],
        ),
        f"Means over seeds, `{name}` / `{BASELINE}`:",
        "",
        table(
            ("scenario", "mean TTFT, s", "P99, s", "goodput", "throughput, req/s"),
            [(scenario, *(_both(name, of, key) for key in MEANS)) for scenario, of in found["means"].items()],
        ),
    ]


def _both(name: str, of: Found, key: str) -> str:
    return " / ".join(
        number(of[p][key]) if key != "goodput" or of[p][key] is None else percent(of[p][key], 1)
        for p in (name, BASELINE)
    )


def _cell(found: Found) -> str:
    sign = "" if found["high"] is None else " ▼" if found["high"] < 1.0 else " ▲" if found["low"] > 1.0 else ""
    wins = "–" if found["wins"] is None else percent(found["wins"])
    return f"{ratio(found)}{sign}, {wins}"


def ratio(found: Found) -> str:
    """A ratio with its interval, where there is one."""
    if found["low"] is None:
        return number(found["value"])
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def number(value: float | None) -> str:
    """Three figures that count."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def picture(found: Found) -> str:
    """The ratio to the baseline of every scenario, in its family."""
    groups = {
        family: {scenario: _interval(found["scenarios"][scenario][BASELINE]) for scenario in of["scenarios"]}
        for family, of in found["families"].items()
    }
    groups["all"] = {"all scenarios": _interval(found["all"][BASELINE])}
    return interval_chart(groups, f"mean TTFT relative to {BASELINE}", TICKS, log=True)


def _interval(found: Found) -> dict[str, float]:
    value = found["value"] or 1.0
    return {"value": value, "low": found["low"] or value, "high": found["high"] or value}
