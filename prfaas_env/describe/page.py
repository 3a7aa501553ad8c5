"""The page of a description: its pictures, then every statistic."""

from __future__ import annotations

from prfaas_env.describe.charts import SERIES, charts
from prfaas_env.describe.description import Description
from prfaas_env.describe.statistics import STATISTICS
from prfaas_env.describe.words import written
from prfaas_env.pages.page import Page

__all__ = ["to_html"]


def to_html(description: Description) -> str:
    """The page. Needs plotly (extra ``report``)."""
    shown = charts(description.episode)
    used = {trace.get("meta") for chart in shown for trace in chart.figure["data"]}
    page = Page(
        f"What arrives in {description.scenario.name}",
        [line for line in (description.scenario.notes, *description.remarks) if line],
        "What is described",
        description.facts,
        {name: colour for name, colour in SERIES.items() if name in used},
        "series",
    )
    page.heading("Pictures")
    page.charts(shown)
    page.heading("Statistics")
    for section in dict.fromkeys(one.section for one in STATISTICS):
        found = [(one, description.statistics[one.key]) for one in STATISTICS if one.section == section]
        rows = [(one.words, *written(one.key, value), one.key) for one, value in found if value is not None]
        if rows:
            page.table((section, "value", "unit", "key in --json"), rows)
    return page.html()
