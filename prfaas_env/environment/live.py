"""The state of a run in the terminal while it goes on: a dashboard that is drawn over itself, or lines."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_env.environment.view import Course, View, view

if TYPE_CHECKING:
    from rich.console import Console, Group

    from prfaas_env.environment.core import ControlLoop

__all__ = ["LiveDashboard"]

_BARS = " ▁▂▃▄▅▆▇█"
_BAR, _COURSE = 24, 60


class LiveDashboard:
    """Shows one environment: at a terminal a dashboard, at most ``fps`` pictures a second; elsewhere one plain line a
    step, without waiting.

    ``console`` is rich's, by default that of standard output. What a script prints meanwhile appears above the
    dashboard.
    """

    def __init__(self, fps: float, console: Console | None = None) -> None:
        self.fps = fps
        self._console = console
        self._live: Any = None
        self._due_s = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """A terminal does not travel: a copy opens its own."""
        return LiveDashboard, (self.fps,)

    def show(self, loop: ControlLoop) -> None:
        """Show the run as it stands."""
        from rich.console import Console

        self._console = self._console or Console()
        shown = view(loop)
        if not self._console.is_terminal:
            self._console.print(_line(shown), markup=False, highlight=False, soft_wrap=True)
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
            weakref.finalize(self, self._live.stop)  # gives the cursor back, also where nobody calls close
        time.sleep(max(self._due_s - time.monotonic(), 0.0))
        self._due_s = time.monotonic() + 1.0 / self.fps
        self._live.update(_dashboard(shown), refresh=True)

    def close(self) -> None:
        """Leave the last picture where it is, and give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _line(shown: View) -> str:
    figures = "  ".join(f"{course.name} {course.last}" for course in shown.courses)
    return f"{shown.heading}  {shown.clock}  {figures}".rstrip()


def _dashboard(shown: View) -> Group:
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    figures = Table.grid(padding=(0, 2))
    for name, words in shown.figures:
        figures.add_row(Text(name, "dim"), Text("   ".join(words)))
    gauges = Table.grid(padding=(0, 2))
    for gauge in shown.gauges:
        colour = "red" if gauge.share > 0.95 else "yellow" if gauge.share > 0.8 else "green"
        share = min(gauge.share, 1.0)
        bar = ProgressBar(total=1.0, completed=share, width=_BAR, complete_style=colour, finished_style=colour)
        gauges.add_row(Text(gauge.name, "dim"), bar, Text(f"{100 * gauge.share:3.0f} %   {'   '.join(gauge.words)}"))
    courses = Table.grid(padding=(0, 2))
    for course in shown.courses:
        courses.add_row(Text(course.name, "dim"), Text(_spark(course, shown.horizon_s), "cyan"), Text(course.last))
    heading = Text.assemble((shown.heading, "bold"), f"   {shown.clock}")
    return Group(Panel(Group(heading, "", figures, "", gauges, "", courses), expand=False))


def _spark(course: Course, horizon_s: float) -> str:
    """The course over the whole horizon as one row of blocks; each is the mean of the intervals that end in it."""
    width = max(min(_COURSE, round(horizon_s / course.times_s[0])), 1)
    known = np.isfinite(course.values)
    values = course.values[known]
    columns = np.minimum((width * course.times_s[known] / horizon_s - 1e-9).astype(int), width - 1)
    mean = np.bincount(columns, values, width) / np.maximum(np.bincount(columns, minlength=width), 1)
    steps = np.ceil((len(_BARS) - 1) * mean / max(float(mean.max()), 1e-9)).astype(int)
    return "".join(_BARS[step] for step in steps)
