"""``report.html``: the leaderboard with charts."""

from __future__ import annotations

from prfaas_env.evaluation.charts import colours, ranking_chart, ttft_chart
from prfaas_env.evaluation.leaderboard import TRACE_NOTE, method, tables
from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.standings import Standings
from prfaas_env.evaluation.timelines import timeline_charts
from prfaas_env.evaluation.verdict import verdict
from prfaas_env.pages.page import Page

__all__ = ["to_html"]


def to_html(evaluation: Evaluation, board: Standings) -> str:
    """The page. Needs plotly (extra ``report``)."""
    colour = colours(evaluation.policies, evaluation.baseline)
    page = Page("PrfaaS scheduling policies compared", verdict(board), "Method", method(evaluation), colour, "policy")
    ranking, *by_scenario = tables(board)
    page.heading("Ranking")
    page.charts([ranking_chart(board, None, colour)])
    page.table(ranking.header, ranking.body)
    page.charts([ranking_chart(board, name, colour) for name in board.scenarios])
    scenarios = {scenario.name: scenario for scenario in evaluation.scenarios}
    for name, table in zip(board.scenarios, by_scenario, strict=True):
        cells = [cell for cell in evaluation.cells if cell.row["scenario"] == name]
        drawn = [cell for cell in cells if len(cell.timeline)]
        page.heading(name)
        page.text(scenarios[name].notes)
        page.table(table.header, table.body)
        if scenarios[name].workload.kind == "trace":
            page.text(f"Mind: {TRACE_NOTE}.", quiet=True)
        shown = [ttft_chart(cells, scenarios[name].objectives.ttft_s, colour)]
        if drawn:
            shown += timeline_charts(drawn, colour, board.in_sight(name))
            page.text(f"TTFT: all seeds. Over time: seed {drawn[0].row['seed']}.", quiet=True)
        page.charts(shown)
    return page.html()
