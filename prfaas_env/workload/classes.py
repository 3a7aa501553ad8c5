"""Service classes: groups of requests with objectives of their own, and with laws of their own where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import Clock
from prfaas_env.profiles import Positive
from prfaas_env.simulator.conditions import Objectives
from prfaas_env.workload.lengths import LengthLaw
from prfaas_env.workload.prefixes import ragged_index
from prfaas_env.workload.sessions import Sessions
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.workload import GENERATORS, SyntheticWorkload

__all__ = ["ServiceClass", "check_classes", "draw_classes", "objectives_of"]


@dataclass(frozen=True)
class ServiceClass(Record):
    """A tenant, or a product: its share of the requests, its objectives, and the laws in which it differs.

    ``lengths``, ``output_tokens`` and ``sessions`` of ``None`` are those of the workload. ``lengths`` of its own do not
    drift.
    """

    name: str
    share: Annotated[float, Range(gt=0, le=1)]
    ttft_s: Positive
    tpot_s: Positive
    lengths: LengthLaw | None = None
    output_tokens: LengthLaw | None = None
    sessions: Sessions | None = None

    def workload(self, common: SyntheticWorkload) -> SyntheticWorkload:
        """The workload of this class alone."""
        return replace(
            common,
            lengths=self.lengths or common.lengths,
            output_tokens=self.output_tokens or common.output_tokens,
            sessions=self.sessions or common.sessions,
            drift=None if self.lengths else common.drift,
        )


def check_classes(classes: Sequence[ServiceClass]) -> None:
    """:class:`ConfigError` unless the names differ and the shares sum to 1."""
    names = [one.name for one in classes]
    if len(set(names)) < len(names):
        raise ConfigError(f"classes: expected different names, got {', '.join(names)}")
    if classes and abs(sum(one.share for one in classes) - 1.0) > 1e-6:
        raise ConfigError(f"classes: expected shares that sum to 1, got {sum(one.share for one in classes):g}")


def objectives_of(classes: Sequence[ServiceClass]) -> Objectives:
    """The objectives of all classes, in their order."""
    return Objectives(tuple(one.ttft_s for one in classes), tuple(one.tpot_s for one in classes))


def draw_classes(
    classes: Sequence[ServiceClass],
    common: SyntheticWorkload,
    rng: np.random.Generator,
    horizon_s: float,
    rate_rps: float | None,
    clock: Clock,
) -> RequestStream:
    """The requests of ``[0, horizon_s)`` of all classes; ``service_class`` is the index into ``classes``.

    They share one path of the rate (a rush is a rush for all); all else is drawn class by class from generators of
    their own, so that one class's laws leave the others' requests as they were. Classes share no prefixes.
    """
    rate_rng, classes_rng, restart_rng = rng.spawn(3)
    path = common.arrivals.rate_path(rate_rng, horizon_s, clock)
    streams = [
        one.workload(common).requests(own.spawn(GENERATORS), one.share * (rate_rps or 0.0), path, horizon_s, clock)
        for one, own in zip(classes, classes_rng.spawn(len(classes)), strict=True)
    ]
    return common.restarted(restart_rng, _joined(streams))


def _joined(streams: Sequence[RequestStream]) -> RequestStream:
    """Streams as one, in order of arrival; stream k becomes service class k, with sessions and blocks of its own."""
    sessions, blocks, next_session, next_block = [], [], 0, 0
    for stream in streams:
        sessions.append(np.where(stream.session_id >= 0, stream.session_id + next_session, -1))
        blocks.append(stream.block_hashes + next_block)
        next_session += int(stream.session_id.max(initial=-1)) + 1
        next_block += int(stream.block_hashes.max(initial=-1)) + 1
    order = np.argsort(np.concatenate([stream.arrival_s for stream in streams]), kind="stable")
    counts = np.concatenate([np.diff(stream.hash_offsets) for stream in streams])
    starts = np.cumsum(counts) - counts
    return RequestStream(
        np.concatenate([stream.arrival_s for stream in streams])[order],
        np.concatenate([stream.input_tokens for stream in streams])[order],
        np.concatenate([stream.output_tokens for stream in streams])[order],
        turn=np.concatenate([stream.turn for stream in streams])[order],
        session_id=np.concatenate(sessions)[order],
        service_class=np.repeat(np.arange(len(streams)), [len(stream) for stream in streams])[order],
        hash_offsets=np.concatenate([[0], np.cumsum(counts[order])]),
        block_hashes=np.concatenate(blocks)[ragged_index(starts[order], counts[order])],
    )
