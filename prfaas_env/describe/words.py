"""How a statistic is written for people: the unit that its key names, and the digits that it deserves."""

from __future__ import annotations

from typing import NamedTuple

from prfaas_env.pages.figures import number

__all__ = ["Written", "written"]


class Written(NamedTuple):
    text: str
    unit: str


# Ending of a key → the unit as people write it.
UNITS = {
    "_tokens": "tokens",
    "_s": "s",
    "_rps": "requests/s",
    "_gbps": "Gbps",
    "_share": "%",
    "_instances": "instances",
}


def written(key: str, value: float | int | None) -> Written:
    """The value of a statistic and its unit: ``("19,606", "tokens")``; a dash for what there is none of."""
    unit = next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
    if value is None:
        return Written("–", unit)
    if isinstance(value, int) or unit == "tokens":
        return Written(f"{value:,.0f}", unit)
    return Written(number(100.0 * value if unit == "%" else value), unit)
