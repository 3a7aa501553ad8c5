"""Equal cost: what crossing gains over the same money in local instances, by the prices of H200 and of egress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from docs.findings.laboratory import Laboratory, case
from docs.findings.markdown import gain, table
from docs.findings.results import Found
from docs.line_chart import line_chart
from prfaas_env.planner.cost import equal_cost, homogeneous_rps
from prfaas_env.planner.inputs import Question
from prfaas_env.planner.paper import TABLE_6
from prfaas_env.theory import closed_form as eq

__all__ = ["NAME", "closed_form", "picture", "section", "simulate"]

NAME = "equal-cost"
EGRESS_USD_PER_GB = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
PRICE_RATIOS = np.geomspace(1.0, 4.0, 13)
THRESHOLDS_TOKENS = np.geomspace(2_000.0, 131_072.0, 1000)
SHOWN = (0.0, 0.002, 0.005, 0.01, 0.02, 0.1)  # curves of the picture


@dataclass(frozen=True, eq=False)
class Settings:
    """Every t and N_p of the paper's deployment: what each sustains and sends at that rate; arrays of one shape (m,).

    ``alone_rps``: what one local instance sustains by itself.
    """

    threshold_tokens: np.ndarray
    rate_rps: np.ndarray
    sent_gb_per_hour: np.ndarray
    alone_rps: float
    local_usd: float
    local: int
    remote: int

    @classmethod
    def of(cls, asked: Question) -> Settings:
        model, deployment = asked.model, asked.deployment
        thresholds, splits = (x.ravel() for x in np.meshgrid(THRESHOLDS_TOKENS, model.splits()))
        cuts = model.cut_of(thresholds)
        rate_rps = model.lambda_max_rps(cuts, splits)
        sent = 3600.0 * rate_rps * eq.loads_at(model.loads, cuts)[eq.SENT] / 8e9
        local_usd = deployment.local.profile.price_usd_per_hour
        alone_rps = homogeneous_rps(asked)
        return cls(thresholds, rate_rps, sent, alone_rps, local_usd, deployment.local.instances, model.n_remote)

    def best(self, price_ratio: float, egress_usd_per_gb: float) -> dict[str, float]:
        """The setting with the most requests per USD, and its gain over local instances alone for the same money.

        The plan's own t is that of the highest rate, whatever egress costs.
        """
        usd = self.local_usd * (self.local + price_ratio * self.remote) + egress_usd_per_gb * self.sent_gb_per_hour
        gains = self.rate_rps / usd * self.local_usd / self.alone_rps
        k = int(np.argmax(gains))
        return {
            "threshold_tokens": float(self.threshold_tokens[k]),
            "lambda_max_rps": float(self.rate_rps[k]),
            "gain": float(gains[k]),
        }


def closed_form() -> dict[str, Any]:
    """Gains by egress price: over the price ratio, and at the price ratio of the profiles; and where they cross 1."""
    asked = case()
    settings, local_usd = Settings.of(asked), asked.deployment.local.profile.price_usd_per_hour
    assert asked.deployment.remote is not None
    ratio = asked.deployment.remote.profile.price_usd_per_hour / local_usd
    worth_usd = asked.plan.lambda_max_rps / settings.alone_rps * local_usd  # of local instances with the same rate
    spare_usd = worth_usd - asked.deployment.instances_usd_per_hour
    return {
        "local_usd_per_hour": local_usd,
        "price_ratio": ratio,
        "egress_gbps": asked.plan.egress_gbps,
        "break_even_egress_usd_per_gb": spare_usd / (3600.0 * asked.plan.egress_gbps / 8.0),
        "price_ratios": PRICE_RATIOS.tolist(),
        "by_egress": {f"{egress:g}": _at(ratio, egress, settings) for egress in EGRESS_USD_PER_GB},
    }


def _at(ratio: float, egress: float, settings: Settings) -> dict[str, Any]:
    asked = case(prices=[f"egress={egress}"])
    costs = equal_cost(asked)
    assert costs is not None
    return {
        "egress_usd_per_hour": costs.usd_per_hour - asked.deployment.instances_usd_per_hour,
        "gain": costs.ratio_homogeneous,
        "gain_over_whole": costs.ratio_homogeneous_whole,
        "break_even_price_ratio": costs.break_even_remote_usd_per_hour / settings.local_usd,
        "best_per_usd": settings.best(ratio, egress),
        "gains": [settings.best(r, egress)["gain"] for r in PRICE_RATIOS],
    }


def simulate(_: Laboratory) -> dict[str, Any]:
    """Nothing: costs follow from the rates, which other questions simulate."""
    return {}


def section(found: Found) -> str:
    closed = found.closed_form
    by_egress = closed["by_egress"]
    free = by_egress["0"]
    rows = [
        (
            egress,
            f"{one['egress_usd_per_hour']:.0f}",
            gain(one["gain"]),
            f"{one['break_even_price_ratio']:.2f}" if one["break_even_price_ratio"] > 0 else "not even for nothing",
            f"{one['best_per_usd']['threshold_tokens']:,.0f}",
            f"{one['best_per_usd']['lambda_max_rps']:.2f}",
            gain(one["best_per_usd"]["gain"]),
        )
        for egress, one in by_egress.items()
    ]
    paper, ratio = TABLE_6["prfaas-pd"]["equal_cost_ratio"], closed["price_ratio"]
    break_even_usd = closed["break_even_egress_usd_per_gb"]
    return "\n".join(
        [
            f"**Answer.** The paper's {gain(paper)} at equal cost is confirmed ({gain(free['gain'])} with an H200 "
            f"instance at {ratio:g} times the price of an H20 one, {gain(free['gain_over_whole'])} over whole "
            f"instances) as long as egress costs nothing; the gain is gone at a price ratio of "
            f"{free['break_even_price_ratio']:.2f}, or at {ratio:g} with egress at {break_even_usd:.4f} USD/GB.",
            "",
            f"**Qualified:** that the figure is a matter of GPUs alone. {closed['egress_gbps']:.1f} Gbps all day are "
            f"{closed['egress_gbps'] / 8 * 3.6:.1f} TB an hour: at 0.02 USD/GB egress costs as much as "
            f"{by_egress['0.02']['egress_usd_per_hour'] / closed['local_usd_per_hour']:.1f} H20 instances. The gain "
            "needs a line of one's own at a flat price, which then belongs into the bill. A higher t, solved for "
            "requests per USD, sends less and loses rate instead: it does not win back what egress has eaten.",
            "",
            table(
                (
                    "egress, USD/GB",
                    "egress, USD/h",
                    "gain",
                    "price ratio at which it is 1",
                    "t for requests per USD",
                    "Λ_max then, req/s",
                    "gain then",
                ),
                rows,
            ),
            f"*Gain*: Λ_max over what the same money, egress included, sustains in H20 instances alone at "
            f"{closed['local_usd_per_hour']:g} USD/h each (a fraction of one counts). N_prfaas stays 4. The picture "
            "has the t for requests per USD throughout. Closed form only: prices change nothing in a simulation.",
        ]
    )


def picture(found: Found) -> str:
    """Gain at equal cost over the price ratio, a curve an egress price."""
    closed = found.closed_form
    shown = {f"{egress:g} USD/GB": closed["by_egress"][f"{egress:g}"]["gains"] for egress in SHOWN}
    curves = {name: (closed["price_ratios"], gains) for name, gains in shown.items()}
    ticks = {1.0: "1", 1.5: "1.5", 2.0: "2", 2.5: "2.5", 3.0: "3", 4.0: "4"}
    heights = {y / 10: f"{y / 10:.1f}" for y in range(2, 17, 2)}
    return line_chart(curves, "price of an 8×H200 over an 8×H20 instance", "gain at equal cost", ticks, heights)
