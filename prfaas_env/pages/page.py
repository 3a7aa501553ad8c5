"""One HTML file that needs no network and is light or dark as the system is: tables, charts, and a legend of series."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from prfaas_env.pages.figures import Chart

__all__ = ["Page"]


class Page:
    """A page in the making: sections are added from the top down, ``html`` gives the file (extra ``report``: plotly).

    ``intro`` are its first paragraphs; ``facts`` stand at its foot, under ``facts_title``. ``series`` maps what charts
    tell apart (the ``meta`` of their traces) to colours: the legend, by which a reader hides and shows them.
    """

    def __init__(
        self,
        title: str,
        intro: Sequence[str],
        facts_title: str,
        facts: Sequence[tuple[str, str]],
        series: Mapping[str, str],
        series_name: str,
    ) -> None:
        self._title, self._intro = title, intro
        self._facts_title, self._facts = facts_title, facts
        self._series, self._series_name = series, series_name
        self._sections: list[str] = []
        self._charts: list[Mapping[str, Any]] = []

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._sections.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, *, quiet: bool = False) -> None:
        """A paragraph; `…` in it is code. Nothing for an empty text."""
        if text:
            self._sections.append(f'<p class="quiet">{_code(text)}</p>' if quiet else f"<p>{_code(text)}</p>")

    def table(self, header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
        """A table of text; the first column is left-aligned, the others are numbers."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in body)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        self._sections.append(f'<div class="scroll">{table}</div>')

    def charts(self, shown: Sequence[Chart]) -> None:
        """Places for charts, which the page draws when they come into view."""
        first = len(self._charts)
        self._charts.extend(chart.figure for chart in shown)
        figures = (
            f"<figure><figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.caption)}</p></figcaption>"
            f'<div class="chart" {_height(chart)}data-chart="{first + i}" role="img" '
            f'aria-label="{escape(chart.title)}"></div></figure>'
            for i, chart in enumerate(shown)
        )
        self._sections.append(f'<div class="charts">{"".join(figures)}</div>')

    def html(self) -> str:
        """The whole file."""
        template = Template(files("prfaas_env.pages").joinpath("assets/page.html").read_text(encoding="utf-8"))
        return template.substitute(
            title=escape(self._title),
            intro="\n".join(f"<p>{_code(line)}</p>" for line in self._intro),
            series_name=escape(self._series_name),
            sections="\n".join(self._sections),
            facts_title=escape(self._facts_title),
            facts="\n".join(f"<dt>{escape(what)}</dt><dd>{escape(value)}</dd>" for what, value in self._facts),
            charts=_json(self._charts),
            series=_json([{"name": name, "colour": value} for name, value in self._series.items()]),
            plotly=_packed_plotly(),
        )


def _height(chart: Chart) -> str:
    """The height of a figure that needs its own, such as one with a row for each of many names."""
    height = chart.figure["layout"].get("height")
    return f'style="height: {height}px" ' if height else ""


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
