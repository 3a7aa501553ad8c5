"""``report.html``: the leaderboard with charts, in one file that needs no network, light or dark as the system is."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from prfaas_env.evaluation.charts import Chart, colours, ranking_chart, ttft_chart
from prfaas_env.evaluation.leaderboard import TRACE_NOTE, Table, method, tables, verdict
from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.standings import Standings
from prfaas_env.evaluation.timelines import timeline_charts

__all__ = ["to_html"]


def to_html(evaluation: Evaluation, board: Standings) -> str:
    """The page. Needs plotly (extra ``report``)."""
    charts: list[Chart] = []
    sections = "\n".join(_sections(evaluation, board, charts))
    colour = colours(evaluation.policies, evaluation.baseline)
    page = Template(files("prfaas_env.evaluation").joinpath("assets/report.html").read_text(encoding="utf-8"))
    return page.substitute(
        title="PrfaaS scheduling policies compared",
        verdict="\n".join(f"<p>{_code(line)}</p>" for line in verdict(board)),
        sections=sections,
        method="\n".join(f"<dt>{escape(what)}</dt><dd>{escape(value)}</dd>" for what, value in method(evaluation)),
        charts=_json([chart.figure for chart in charts]),
        policies=_json([{"name": name, "colour": value} for name, value in colour.items()]),
        plotly=_packed_plotly(),
    )


def _sections(evaluation: Evaluation, board: Standings, charts: list[Chart]) -> Iterator[str]:
    """HTML of the ranking and of each scenario; the charts that it has places for are added to ``charts``."""
    colour = colours(evaluation.policies, evaluation.baseline)
    ranking, *by_scenario = tables(board)
    yield "<h2>Ranking</h2>"
    yield _table(ranking)
    yield _grid([ranking_chart(board, s, colour) for s in [None, *board.scenarios]], charts)
    scenarios = {scenario.name: scenario for scenario in evaluation.scenarios}
    for name, table in zip(board.scenarios, by_scenario, strict=True):
        cells = [cell for cell in evaluation.cells if cell.row["scenario"] == name]
        drawn = [cell for cell in cells if len(cell.timeline)]
        yield f"<h2>{escape(name)}</h2>"
        yield f"<p>{escape(scenarios[name].notes)}</p>" if scenarios[name].notes else ""
        yield _table(table)
        if scenarios[name].workload.kind == "trace":
            yield f'<p class="quiet">Mind: {escape(TRACE_NOTE)}.</p>'
        shown = [ttft_chart(cells, scenarios[name].objectives.ttft_s, colour)]
        if drawn:
            shown += timeline_charts(drawn, colour)
            yield f'<p class="quiet">TTFT: all seeds. Over time: seed {drawn[0].row["seed"]}.</p>'
        yield _grid(shown, charts)


def _grid(shown: list[Chart], charts: list[Chart]) -> str:
    """Places for charts, which the page draws when they come into view."""
    first = len(charts)
    charts.extend(shown)
    figures = (
        f"<figure><figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.caption)}</p></figcaption>"
        f'<div class="chart" data-chart="{first + i}" role="img" aria-label="{escape(chart.title)}"></div></figure>'
        for i, chart in enumerate(shown)
    )
    return f'<div class="charts">{"".join(figures)}</div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in table.body)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _code(line: str) -> str:
    """Escaped text in which `…` is code."""
    parts = escape(line).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _json(content: Any) -> str:
    """JSON, arrays packed as Plotly reads them. Its encoder escapes ``<``, so that no text ends a script element."""
    from plotly.io.json import to_json_plotly

    text: str = to_json_plotly(content)
    return text


def _packed_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode("ascii")
