"""The trials of a study, and the table that they are kept in and taken up from."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.study import Span

__all__ = ["Trial", "best", "objective", "rounded", "to_csv", "trials_from_csv"]

DIGITS = 6  # of what is kept, and therefore of what the search is told


def rounded(value: float, digits: int = DIGITS) -> float:
    """To significant digits."""
    return float(f"{value:.{digits}g}")


@dataclass(frozen=True)
class Trial:
    """Parameters, and for each scenario the geometric mean over seeds of an episode's mean TTFT in seconds.

    Without figures it is one whose parameters the policy refuses.
    """

    parameters: Mapping[str, float]
    ttft_s: tuple[float, ...] = ()


def objective(trial: Trial, reference: Trial) -> float:
    """The geometric mean over scenarios and seeds of the ratio of mean TTFT, trial ÷ reference; less is better.

    Both met the same requests. Infinite for parameters that the policy refuses.
    """
    if not trial.ttft_s:
        return math.inf
    return rounded(float(np.exp(np.mean(np.log(trial.ttft_s) - np.log(reference.ttft_s)))))


def best(trials: Sequence[Trial]) -> int:
    """The number of the trial with the least objective, the first of equals."""
    return min(range(len(trials)), key=lambda i: objective(trials[i], trials[0]))


def to_csv(trials: Sequence[Trial], parameters: Sequence[str], scenarios: Sequence[str]) -> str:
    """A line a trial: its number, parameters, objective, and TTFT in each scenario."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_header(parameters, scenarios))
    for number, trial in enumerate(trials):
        own = [trial.parameters[name] for name in parameters]
        ttft_s = trial.ttft_s or [""] * len(scenarios)
        writer.writerow([number, *own, objective(trial, trials[0]), *ttft_s])
    return text.getvalue()


def trials_from_csv(path: Path, spans: Mapping[str, Span], scenarios: Sequence[str]) -> list[Trial]:
    """The trials that :func:`to_csv` wrote. Raises :class:`ConfigError` unless the file is exactly such a table."""
    parameters = list(spans)
    try:
        text = path.read_text(encoding="utf-8")
        header, *rows = csv.reader(text.splitlines())
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({' '.join(str(error).split())[:120]})") from None
    if header != _header(parameters, scenarios):
        raise ConfigError(f"{path}: line 1: expected the columns {', '.join(_header(parameters, scenarios))}")
    trials: list[Trial] = []
    for number, row in enumerate(rows):
        try:
            trials.append(_trial(row, spans))
            line = to_csv(trials, parameters, scenarios).splitlines()[-1]
        except (ValueError, IndexError):
            line = ""
        if line != ",".join(row):
            raise ConfigError(f"{path}: line {number + 2}: damaged; delete it and those after it, and tune again")
    return trials


def _header(parameters: Sequence[str], scenarios: Sequence[str]) -> list[str]:
    return ["trial", *parameters, "objective", *(f"{name} ttft_s" for name in scenarios)]


def _trial(row: Sequence[str], spans: Mapping[str, Span]) -> Trial:
    """Raises :class:`ValueError` on what is no trial."""
    own = row[1 : 1 + len(spans)]
    ttft_s = tuple(map(float, row[2 + len(spans) :])) if any(row[2 + len(spans) :]) else ()
    values = {
        name: int(text) if text.lstrip("-").isdecimal() else float(text) for name, text in zip(spans, own, strict=True)
    }
    if not all(spans[name].low <= value <= spans[name].high for name, value in values.items()):
        raise ValueError("outside its span")
    if not all(0.0 < one < math.inf for one in ttft_s):
        raise ValueError("no time")
    return Trial(values, ttft_s)
