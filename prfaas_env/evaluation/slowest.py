"""The slowest requests of an episode, and where their time went."""

from __future__ import annotations

from typing import Any

import numpy as np

from prfaas_env.pages.explorer import Bars
from prfaas_env.pages.figures import Chart, aligned, figure
from prfaas_env.pages.packing import rounded
from prfaas_env.simulator.stages import STAGES, ttft_parts_s

__all__ = ["slowest_bars", "slowest_items"]

COLOURS = ("#d6455a", "#2f7fd1", "#2c9d5c", "#b8860b", "#8f63c9", "#868d98")
FACTS = ("arrived, min", "prompt, tokens", "of it cached", "prefilled at", "decoded at", "TTFT, s")


def slowest_bars() -> Bars:
    """The chart of two policies' slowest requests, without bars."""
    made = figure(
        [],
        {"title": {"text": "time to first token, s"}, "rangemode": "tozero"},
        {"title": {"text": "rank, 1 the slowest"}, "autorange": "reversed", "dtick": 1, "tickfont": {"size": 11}},
    )
    aligned(made)["layout"] |= {"height": 420, "barmode": "stack", "bargap": 0.25}
    caption = (
        "Each bar is one request, from arrival to first token, in the stages it went through: red is waiting for a "
        "prefill instance, yellow for a decode slot, green is what the link added."
    )
    return Bars(
        Chart("The slowest requests, and where their time went", caption, made),
        dict(zip(STAGES, COLOURS, strict=True)),
        FACTS,
    )


def slowest_items(requests: np.ndarray) -> list[list[Any]]:
    """For each request (``REQUEST_DTYPE``), in the order given: ``FACTS``, then seconds in each of ``STAGES``."""
    return [_item(one, parts_s) for one, parts_s in zip(requests, ttft_parts_s(requests), strict=True)]


def _item(one: np.void, parts_s: np.ndarray) -> list[Any]:
    arrived, ttft_s = rounded(np.array([one["arrival_s"] / 60.0, one["ttft_s"]]))
    prefilled = f"{'remote' if one['remote'] else 'local'} {one['prefill_instance']}"
    tokens = int(one["input_tokens"]), int(one["cached_tokens"])
    return [arrived, *tokens, prefilled, f"local {one['decode_instance']}", ttft_s, *rounded(np.abs(parts_s))]
