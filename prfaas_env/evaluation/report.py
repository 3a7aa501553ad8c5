"""``report.html``: the leaderboard with charts, and the drawn episodes to browse."""

from __future__ import annotations

from prfaas_env.evaluation.browsing import explorer
from prfaas_env.evaluation.families import ratio_table, score_table
from prfaas_env.evaluation.leaderboard import TRACE_NOTE, method, tables
from prfaas_env.evaluation.pareto import pareto_chart
from prfaas_env.evaluation.ranking import colours, ranking_chart
from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.standings import Standings
from prfaas_env.evaluation.tails import ttft_chart
from prfaas_env.evaluation.verdict import verdict
from prfaas_env.pages.page import Page

__all__ = ["to_html"]

SCORES = (
    "The leaderboard's score: 0 is dual-timescale, 100 the best that hindsight found; the interquartile mean over "
    "families, and each family by itself. Look for the family in which a policy loses what it wins elsewhere."
)
RATIOS = (
    "Mean TTFT ÷ that of {}, the geometric mean over the scenarios of each family (their number in brackets): green is "
    "faster, orange slower; ▼ surely faster and ▲ surely slower, the 95 % interval excludes 1."
)
BROWSE = (
    "Choose an episode and two policies: what was asked of both, which knobs each turned, and what became of the "
    "queues. All policies met the same requests."
)


def to_html(evaluation: Evaluation, board: Standings) -> str:
    """The page. Needs plotly (extra ``report``)."""
    colour = colours(evaluation.policies, evaluation.baseline)
    page = Page("PrfaaS scheduling policies compared", verdict(board), "Method", method(evaluation), colour, "policy")
    ranking, *by_scenario = tables(board)
    page.heading("Ranking")
    page.charts([ranking_chart(board, None, colour), pareto_chart(board, None, colour)])
    page.table(ranking.header, ranking.body, ranking.policies)
    if len(board.scenarios) > 1:
        page.heading("By family of scenarios")
        if (scores := score_table(board, evaluation.scenarios)) is not None:
            page.text(SCORES, quiet=True)
            page.table(scores.header, scores.body, scores.policies, scores.shades)
        page.text(RATIOS.format(board.baseline), quiet=True)
        ratios = ratio_table(board, evaluation.scenarios)
        page.table(ratios.header, ratios.body, ratios.policies, ratios.shades)
    if (drawn := explorer(evaluation, board)) is not None:
        page.heading("Time lines and the slowest requests")
        page.text(BROWSE, quiet=True)
        page.explore(drawn)
    scenarios = {scenario.name: scenario for scenario in evaluation.scenarios}
    for name, table in zip(board.scenarios, by_scenario, strict=True):
        scenario, cells = scenarios[name], [cell for cell in evaluation.cells if cell.row["scenario"] == name]
        page.heading(name, family=scenario.family, scenario=name)
        page.text(scenario.notes)
        if scenario.workload.kind == "trace":
            page.text(f"Mind: {TRACE_NOTE}.", quiet=True)
        tails = ttft_chart(cells, scenario.objectives.ttft_s, colour, board.in_sight(name))
        page.charts([ranking_chart(board, name, colour), tails, pareto_chart(board, name, colour)])
        page.table(table.header, table.body, table.policies)
    return page.html()
