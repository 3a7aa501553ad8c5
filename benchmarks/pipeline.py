"""A plain SimPy pipeline of three stages, as most people would first write it: the yardstick for engine speed.

Prefill (remote or local, by length) → transfer → decode slot. It leaves out what makes the system hard: flows do not
share the link (each takes its size over the whole capacity), decode does not slow down with its batch, nothing fails,
converts or is cached, and nothing is measured but TTFT.
"""

from __future__ import annotations

from collections.abc import Generator

import simpy

from prfaas_env.deployment import Deployment
from prfaas_env.workload.stream import RequestStream

__all__ = ["run_pipeline"]


def run_pipeline(deployment: Deployment, stream: RequestStream) -> list[float]:
    """TTFT of every request in seconds, in order of first tokens."""
    local, remote, link = deployment.local, deployment.remote, deployment.link
    assert remote is not None
    assert link is not None
    calendar = simpy.Environment()
    slots, step_s = local.profile.decode.slots, float(local.profile.decode.step_s[-1])
    local_pool = simpy.Resource(calendar, local.prefill)
    remote_pool = simpy.Resource(calendar, remote.instances)
    decode = simpy.Resource(calendar, local.decode * slots)
    local_s = local.profile.prefill.time_s(stream.input_tokens).tolist()
    remote_s = remote.profile.prefill.time_s(stream.input_tokens).tolist()
    transfer_s = (remote.profile.kv.size_bytes(stream.input_tokens) * 8 / (link.capacity_gbps * 1e9)).tolist()
    ttft_s: list[float] = []

    def request(number: int, tokens: int, output_tokens: int) -> Generator[simpy.Event, None, None]:
        arrival_s = calendar.now
        far = tokens > deployment.threshold_tokens
        with (remote_pool if far else local_pool).request() as instance:
            yield instance
            yield calendar.timeout((remote_s if far else local_s)[number])
        if far:
            yield calendar.timeout(transfer_s[number])
        with decode.request() as slot:
            yield slot
            yield calendar.timeout(step_s)
            ttft_s.append(calendar.now - arrival_s)
            yield calendar.timeout((output_tokens - 1) * step_s)

    def arrivals() -> Generator[simpy.Event, None, None]:
        columns = (stream.arrival_s.tolist(), stream.input_tokens.tolist(), stream.output_tokens.tolist())
        for number, (time_s, tokens, output_tokens) in enumerate(zip(*columns, strict=True)):
            yield calendar.timeout(max(0.0, time_s - calendar.now))
            calendar.process(request(number, tokens, output_tokens))

    calendar.process(arrivals())
    calendar.run()
    return ttft_s
