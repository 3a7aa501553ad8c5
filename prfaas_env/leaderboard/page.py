"""``leaderboard/README.md``: the ranking, scores by family, profiles, and who submitted what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from prfaas_env.evaluation.words import FEW_SEEDS, share
from prfaas_env.leaderboard.board import PROFILE, Board, Placed
from prfaas_env.leaderboard.score import CAP
from prfaas_env.pages.figures import number

__all__ = ["to_markdown"]


def to_markdown(boards: Sequence[Board]) -> str:
    """The page of the boards of all suites that have entries."""
    return "\n".join(_lines(boards)) + "\n"


def _lines(boards: Sequence[Board]) -> Iterator[str]:
    yield "# Leaderboard"
    yield ""
    yield "<!-- Written by `python -m prfaas_env leaderboard build`. -->"
    yield ""
    yield "Rules, score, statistics and how to submit: [docs/leaderboard.md](../docs/leaderboard.md). Every row can be"
    yield "played again from its file: `python -m prfaas_env verify leaderboard/entries/NAME.json`."
    for board in boards:
        yield from _board(board)


def _board(board: Board) -> Iterator[str]:
    suite = board.suite
    scenarios = ", ".join(f"{one.name} ({one.family})" for one in suite.scenarios)
    families = list(dict.fromkeys(suite.families))
    yield ""
    yield f"## Suite {suite.name}, version {suite.version}"
    yield ""
    yield f"`{suite.hash}`: {scenarios}; seeds 0 to {suite.seeds - 1}."
    yield f"Score 0 is `{suite.floor}`, 100 is `{suite.bound}`: logarithm of the ratio of mean TTFT, capped at {CAP:g}"
    yield "times, by family, interquartile mean over families. References see more than an operator, and have no rank."
    yield from _table("Ranking", RANKING, [[rank, *_ranking(one)] for rank, one in _ranks(board)])
    rows = [[_named(one), *(number(one.families[family]) for family in families)] for one in board.placed]
    yield from _table("Score by family", ("entry", *families), rows)
    title = "Profiles: share of episodes whose score reaches …"
    rows = [[_named(one), *map(share, one.profile)] for one in board.placed]
    yield from _table(title, ("entry", *(f"{threshold:g}" for threshold in PROFILE)), rows)
    yield from _table("Entries", ENTRIES, [_about(one, suite.seeds) for one in board.placed])


RANKING = (
    *("rank", "entry", "score", "95 % interval", "gap to 100", "beats floor", "beats next"),
    *("P99 TTFT s", "goodput", "USD/M", "conversions", "decision ms"),
)
ENTRIES = ("entry", "approach", "tuned or trained on", "author", "date", "interval over", "hardware", "version")


def _ranking(one: Placed) -> list[str]:
    interval = f"{number(one.low)} to {number(one.high)}" if math.isfinite(one.low) else "–"
    figures = (one.usd_per_million_output_tokens, one.conversions, one.entry.decision_ms)
    left = [_named(one), number(one.score), interval, number(one.gap), share(one.wins), share(one.wins_next)]
    return [*left, number(one.p99_ttft_s), share(one.goodput), *map(number, figures)]


def _about(one: Placed, seeds: int) -> list[str]:
    entry, models = one.entry, len(one.entry.runs)
    few = ", few: a hint" if models < FEW_SEEDS else ""
    units = f"{models} models{few}" if models > 1 else f"{seeds} seeds a scenario"
    said = [_plain(text or "–") for text in (entry.approach, entry.tuned_on, entry.author)]
    return [_linked(one), *said, entry.date, units, _plain(entry.hardware), _plain(entry.version)]


def _ranks(board: Board) -> Iterator[tuple[str, Placed]]:
    rank = 0
    for one in board.placed:
        rank += not one.entry.plans
        yield "–" if one.entry.plans else str(rank), one


def _named(one: Placed) -> str:
    return f"{_plain(one.entry.name)}{' (reference)' if one.entry.plans else ''}"


def _linked(one: Placed) -> str:
    link = one.entry.link
    return f"[{_named(one)}]({link})" if link and not set("()<> |") & set(link) else _named(one)


def _plain(text: str) -> str:
    """What a submitter wrote, so that it stays text and in its cell."""
    return "".join(f"\\{letter}" if letter in "\\|`*_[]<>&#!" else letter for letter in text)


def _table(title: str, header: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"### {title}"
    yield ""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in body)
