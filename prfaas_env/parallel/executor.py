"""What an executor is, what its workers and its callers may rely on, and the plainest one."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from typing import Any, Protocol, TypeVar

from prfaas_env.config import ConfigError

__all__ = ["RETRIES", "Executor", "Losses", "Outcome", "Said", "Serial", "WorkersLost", "attempt", "result_of"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Said = Callable[[str], None]
"""Takes a line for the terminal."""

Outcome = tuple[bool, Any]
"""What comes back from a worker: whether the function returned, and its result or its exception."""

RETRIES = 2
"""How often an item is tried again whose worker has died."""


class WorkersLost(BrokenExecutor):
    """The workers of one item died again and again."""


class Executor(Protocol):
    """Runs a function on many items. A context manager: on leaving it, no worker is left."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *_: object) -> None: ...

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """Results as they come, each with the number of its item.

        - ``function`` and ``items`` can be pickled, and a result depends on its item alone.
        - Items are taken when there is room for them, in their order: the iterable may decide late what comes next.
        - What ``function`` raises is raised here, never tried again. An item whose worker dies is given to another
          one, :data:`RETRIES` times, and said; then :class:`WorkersLost` is raised.
        - Closing the iterator, an error and Ctrl-C end what is under way, however long it would take.
        """


class Serial:
    """One after the other, in this process."""

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """See :class:`Executor`; nothing can be lost but this process itself."""
        for i, item in enumerate(items):
            yield i, function(item)


class Losses:
    """Counts the workers that each item has cost, and says so."""

    def __init__(self, said: Said) -> None:
        self._said = said
        self._lost: Counter[int] = Counter()

    def add(self, number: int, item: object, how: str) -> None:
        """The worker of an item has died. Raises :class:`WorkersLost` when that was the last try."""
        self._lost[number] += 1
        times = self._lost[number]
        if times > RETRIES:
            raise WorkersLost(f"{item}: {times} workers in turn died of it ({how}); what was finished is kept")
        self._said(f"a worker died ({how}): {item} is tried again ({times} of {RETRIES})")


def attempt(function: Callable[[Item], Result], item: Item) -> Outcome:
    """Run in a worker; its traceback travels as a note of the exception."""
    try:
        return True, function(item)
    except ConfigError as error:
        return False, error
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)).rstrip())
        return False, error


def result_of(outcome: Outcome) -> Any:
    """The result, or its exception raised."""
    returned, value = outcome
    if not returned:
        raise value
    return value
