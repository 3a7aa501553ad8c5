"""One HTML file that needs no network: sections with tables and charts, a legend of series, filters, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from prfaas_env.pages.explorer import Explorer
from prfaas_env.pages.figures import Chart
from prfaas_env.pages.packing import packed, packed_json, plain_json

__all__ = ["Page"]

FOLDING_LINES, OPEN_LINES = 4, 6


class Page:
    """A page in the making: sections are added from the top down, ``html`` gives the file (extra ``report``: plotly).

    ``intro`` are its first paragraphs; ``facts`` stand at its foot, under ``facts_title``. ``series`` maps what charts
    tell apart (the ``meta`` of their traces) to colours: the legend, by which a reader hides and shows them. Sections
    with tags can be filtered by them.
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
        self._tags: dict[str, dict[str, None]] = {}
        self._charts: list[Mapping[str, Any]] = []
        self._explorer: Explorer | None = None
        self._heading = title

    def heading(self, text: str, **tags: str) -> None:
        """Begin a section, with the tags by which the page's filters find it; one without them is always shown."""
        for key, value in tags.items():
            self._tags.setdefault(key, {})[value] = None
        self._heading = text
        said = "".join(f' data-{key}="{escape(value)}"' for key, value in tags.items())
        self._sections.append(f"{'</section>' if self._sections else ''}<section{said}><h2>{escape(text)}</h2>")

    def text(self, text: str, *, quiet: bool = False) -> None:
        """A paragraph; `…` in it is code. Nothing for an empty text."""
        if text:
            self._sections.append(f'<p class="quiet">{_code(text)}</p>' if quiet else f"<p>{_code(text)}</p>")

    def table(
        self,
        header: Sequence[str],
        body: Sequence[Sequence[str]],
        series: Sequence[str] = (),
        shades: Sequence[Sequence[float]] = (),
    ) -> None:
        """A table of text; the first column is left-aligned, the others are numbers.

        ``series`` names the series of each row, with which it is hidden; ``shades`` colours the cells behind the first
        of each row: from −1, good, to 1, bad; 0 not at all.
        """
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
        rows = []
        for i, (first, *rest) in enumerate(body):
            colours = [_shade(value) for value in shades[i]] if shades else [""] * len(rest)
            cells = "".join(f"<td{colour}>{escape(cell)}</td>" for cell, colour in zip(rest, colours, strict=True))
            of = f' data-series="{escape(series[i])}"' if series else ""
            rows.append(f'<tr{of}><th scope="row" title="{escape(first)}">{escape(first)}</th>{cells}</tr>')
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        place = f'class="scroll" tabindex="0" role="region" aria-label="Table by {escape(header[0])}"'
        self._sections.append(f"<div {place}>{table}</div>")

    def charts(self, shown: Sequence[Chart]) -> None:
        """Places for charts, which the page draws when they come into view."""
        first = len(self._charts)
        self._charts.extend(chart.figure for chart in shown)
        figures = (
            f"<figure><figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.caption)}</p></figcaption>"
            f'<div class="chart" {_height(chart)}data-chart="{first + i}" role="img" '
            f'aria-label="{escape(f"{self._heading}: {chart.title}")}"></div></figure>'
            for i, chart in enumerate(shown)
        )
        self._sections.append(f'<div class="charts">{"".join(figures)}</div>')

    def explore(self, explorer: Explorer) -> None:
        """Episodes to browse; a page has one such place at most."""
        self._explorer = explorer
        self._sections.append(explorer.html(self._series_name))

    def html(self) -> str:
        """The whole file."""
        assets = files("prfaas_env.pages").joinpath("assets")
        template, style, script = (
            assets.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
        )
        return Template(template).substitute(
            style=style,
            script=script,
            title=escape(self._title),
            intro=_intro(self._intro),
            series_name=escape(self._series_name),
            series_count=escape(_plural(self._series_name, len(self._series))),
            filters=self._filters(),
            sections="\n".join(self._sections) + ("</section>" if self._sections else ""),
            facts_title=escape(self._facts_title),
            facts="\n".join(f"<dt>{escape(what)}</dt><dd>{escape(value)}</dd>" for what, value in self._facts),
            charts=packed_json(self._charts),
            explorer=packed_json(self._explorer.content()) if self._explorer else "",
            series=plain_json([{"name": name, "colour": value} for name, value in self._series.items()]),
            plotly=_packed_plotly(),
        )

    def _filters(self) -> str:
        """A drop-down for each tag that tells sections apart."""
        labels = (
            f'<label>{escape(key.capitalize())} <select data-filter="{key}"><option value="">all</option>'
            f"{''.join(f'<option>{escape(value)}</option>' for value in values)}</select></label>"
            for key, values in self._tags.items()
            if len(values) > 1
        )
        found = "".join(labels)
        return f'<div class="filters" role="group" aria-label="Filters">{found}</div>' if found else ""


def _intro(lines: Sequence[str]) -> str:
    """Paragraphs; many can be folded up, but for the first, and so many that nobody sees the page are."""
    paragraphs = [f"<p>{_code(line)}</p>" for line in lines]
    if len(lines) < FOLDING_LINES:
        return "\n".join(paragraphs)
    first, *rest = paragraphs
    state = " open" if len(lines) <= OPEN_LINES else ""
    return f"{first}<details{state}><summary>In detail</summary>{''.join(rest)}</details>"


def _height(chart: Chart) -> str:
    """The height of a figure that needs its own, such as one with a row for each of many names."""
    height = chart.figure["layout"].get("height")
    return f'style="height: {height}px" ' if height else ""


def _plural(name: str, count: int) -> str:
    if count == 1 or name.endswith("s"):
        return name
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _shade(value: float) -> str:
    colour = "44 157 92" if value < 0 else "224 115 29"
    return f' style="background: rgb({colour} / {min(abs(value), 1.0) / 2:.2f})"' if value else ""


def _code(line: str) -> str:
    """Escaped text in which `…` is code."""
    parts = escape(line).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _packed_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return packed(get_plotlyjs())
