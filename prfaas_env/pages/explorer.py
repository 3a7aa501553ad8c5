"""Episodes to browse: panels over time, of which the reader chooses the episode and two series, and stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from prfaas_env.pages.figures import Chart

__all__ = ["Bars", "Episode", "Explorer", "Panel"]

Values = Sequence[float | int | None]


@dataclass(frozen=True)
class Panel:
    """A quantity over x: ``chart`` has its axes and no lines. ``hover`` is Plotly's template of what a point says, and
    ``x`` the number of those of an episode that it is drawn over."""

    chart: Chart
    hover: str
    shape: Literal["linear", "hv"] = "linear"
    x: int = 0


@dataclass(frozen=True)
class Bars:
    """Stacked bars, one an item: ``parts`` with their colours, and the names of the ``facts`` said of an item."""

    chart: Chart
    parts: Mapping[str, str]
    facts: Sequence[str]


@dataclass(frozen=True)
class Episode:
    """What can be drawn of one episode.

    - ``tags``: by which a page's filters find it, as of its sections.
    - ``xs``: what lines are drawn over; a panel says which of them.
    - ``lines``: for each series a line a panel; ``None`` where a series has none there.
    - ``limits``: dotted reference lines, by the number of their panel.
    - ``bars``: for each series its items, each the facts and then the parts.
    """

    name: str
    tags: Mapping[str, str]
    xs: Sequence[Values]
    lines: Mapping[str, Sequence[Values | None]]
    limits: Mapping[int, Values] = field(default_factory=dict)
    bars: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Explorer:
    """Everything to browse; ``first`` and ``second`` are the series that are chosen to begin with."""

    panels: Sequence[Panel]
    bars: Bars
    episodes: Sequence[Episode]
    first: str
    second: str

    def content(self) -> dict[str, Any]:
        """As plain data for the page's script."""
        panels = [{"figure": p.chart.figure, "hover": p.hover, "shape": p.shape, "x": p.x} for p in self.panels]
        bars = {"figure": self.bars.chart.figure, "parts": self.bars.parts, "facts": self.bars.facts}
        episodes = [vars(one) for one in self.episodes]
        return {"panels": panels, "bars": bars, "episodes": episodes, "first": self.first, "second": self.second}

    def html(self, series_name: str) -> str:
        """The controls, the places of the panels and of the bars."""
        controls = "".join(
            f'<label>{escape(label)} <select id="{key}"></select></label>'
            for key, label in (
                ("episode", "Episode"),
                ("first", f"{series_name.capitalize()} A"),
                ("second", f"{series_name.capitalize()} B (dashed)"),
                ("layout", "Layout"),
            )
        )
        key = "".join(
            f'<span style="--series: {colour}">{escape(name)}</span>' for name, colour in self.bars.parts.items()
        )
        panels = "".join(_place(panel.chart, f'data-panel="{i}"') for i, panel in enumerate(self.panels))
        table = '<details><summary>The same as a table</summary><div id="items"></div></details>'
        bars = _place(self.bars.chart, 'data-bars=""', f'<div class="key">{key}</div>', table)
        group = '<div class="controls" role="group" aria-label="What the time lines show">'
        return f'{group}{controls}</div><div class="charts">{panels}</div><div class="charts wide">{bars}</div>'


def _place(chart: Chart, data: str, above: str = "", below: str = "") -> str:
    caption = f"<figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.caption)}</p>{above}</figcaption>"
    place = f'<div class="chart" {data} role="img" aria-label="{escape(chart.title)}"></div>'
    return f"<figure>{caption}{place}{below}</figure>"
