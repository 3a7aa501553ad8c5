"""The reference engine: the definition of the system, written to be read (model.md sections 1–6 and 8).

:class:`ReferenceEngine` follows a request from arrival to its last token; each method below the heading *life of a
request* is one step of it. The parts have their own files: prefill pools, the link, decode, role conversion, prefix
caches. Time runs on SimPy's calendar, in the order that ``calendar.py`` gives to events of one instant.

Choices where model.md is silent:

- Without layer-wise pipelining an instance sends its KV before it takes its next request ("the two times add up",
  paper Eq. 3).
- The first token of a sequence comes when its instance has made one step since admission, at the speed of the batch.
- A draining decode node can be called back until it is empty; its requests stay where they are.
- ``ttft_overhead_s`` (scheduling, round trips) is added to a request's TTFT in the log; it delays nothing.
- After a transfer ends, nothing but the one-way delay stands between the last byte and the decode queue.
- With the ``abundant`` cache rule a missing prefix is copied before the request joins its prefill queue.
- A failed remote instance loses its running request and those whose KV it still sends; KV that has left is safe. A
  failed decode instance loses tokens, not KV: its sequences decode anew, and a first token already shown stays shown.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import simpy

from prfaas_env.deployment import Deployment, LocalCluster, RemoteCluster
from prfaas_env.profiles import GIB
from prfaas_env.simulator import laws
from prfaas_env.simulator.checks import check_run
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.log import COMPLETED, REJECTED, REQUEST_DTYPE, empty_log
from prfaas_env.simulator.reference.accounts import Accounts
from prfaas_env.simulator.reference.cache import BlockCache
from prfaas_env.simulator.reference.calendar import Calendar, Stage, When, order
from prfaas_env.simulator.reference.decode import DecodePool
from prfaas_env.simulator.reference.link import Link
from prfaas_env.simulator.reference.prefill import PrefillPool
from prfaas_env.simulator.reference.request import Request
from prfaas_env.simulator.reference.roles import Roles
from prfaas_env.workload.stream import RequestStream

__all__ = ["ReferenceEngine"]

TOO_LONG, TOO_LARGE, QUEUE_FULL = 1, 2, 3  # indices into REJECT_REASONS


class ReferenceEngine:
    """Implements :class:`prfaas_env.simulator.engine.Engine`; arguments as in ``make_engine``."""

    def __init__(
        self,
        deployment: Deployment,
        stream: RequestStream,
        capacity: CapacityTimeline | None = None,
        faults: FaultTimeline | None = None,
        objectives: Objectives | None = None,
        control: Control | None = None,
        patience_s: float = 30.0,
    ) -> None:
        faults, objectives = faults or FaultTimeline.none(), objectives or Objectives()
        check_run(deployment, stream, faults, objectives, patience_s)
        self.deployment = deployment
        self.stream = stream
        self.now_s = 0.0
        self.calendar = Calendar()
        self.requests: list[Request] = []
        local, remote, link = deployment.local, deployment.remote, deployment.link
        self.local_profile = local.profile
        self.remote_profile = remote.profile if remote else local.profile
        self.kv = local.profile.kv  # that of both clusters: they serve one model
        self.pipelined = deployment.layerwise_pipelining

        hold = not self.pipelined
        self.local_pool = PrefillPool(
            self.calendar, range(local.prefill), hold, self._local_prefill_started, self._local_prefill_ended
        )
        self.remote_pool = PrefillPool(
            self.calendar,
            range(remote.instances if remote else 0),
            hold,
            self._remote_prefill_started,
            self._remote_prefill_ended,
        )
        rates = (link.capacity_gbps, link.flow_cap_gbps) if link else (0.0, 0.0)
        self.link = Link(self.calendar, *rates)  # remote → local: KV
        self.reverse_link = Link(self.calendar, *rates)  # local → remote: prefix copies
        self.delay_s = link.one_way_delay_s if link else 0.0
        self.decode = DecodePool(
            self.calendar,
            local.profile,
            local.instances,
            local.prefill,
            self._first_token,
            self._finished,
            self._transfer_may_begin,
        )
        self.accounts = Accounts(self.calendar, objectives, deployment.ttft_overhead_s, patience_s)
        self.roles = Roles(
            self.calendar,
            self.local_pool,
            self.decode,
            deployment.conversion_s,
            deployment.prefill_bounds,
            self.accounts.converted,
        )
        self.local_cache = self._cache(local)
        self.remote_cache = self._cache(remote or local)
        self.failed_remote: set[int] = set()
        self.control = control or Control(local.prefill, deployment.threshold_tokens)
        self.apply(self.control)
        self.calendar.process(self._arrivals())
        if capacity is not None and remote:
            self._set_capacity(float(capacity.gbps[0]))
            self.calendar.process(self._capacity_changes(capacity))
        self.calendar.process(self._faults(faults))

    def _cache(self, cluster: LocalCluster | RemoteCluster) -> BlockCache:
        profile, block_tokens = cluster.profile, self.stream.block_tokens
        return BlockCache(
            cluster.cache.capacity_gib * GIB,
            block_tokens,
            profile.kv.bytes_per_token * block_tokens,
            profile.kv.fixed_bytes if profile.attention == "hybrid" else 0.0,
        )

    # --- the engine's interface -----------------------------------------------------------------------------------

    def apply(self, control: Control) -> None:
        """Put a control in force, now."""
        self.control = control
        self.roles.aim(control.n_prefill)

    def advance(self, until_s: float) -> None:
        """Run to ``until_s``: its completions and capacity changes included, its arrivals not yet."""
        if not until_s >= self.now_s:
            raise ValueError(f"cannot advance to {until_s} s: it is {self.now_s} s")
        self.calendar.run(until=self.calendar.at(until_s, order(When.CONTROL)))
        self.now_s = until_s

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Signals and length-bin counts since the last call."""
        return self.accounts.take(self)

    def drain(self) -> None:
        """Run until every request of the stream has left (or nothing can move any more: the link is down for good)."""
        while self.accounts.in_system > 0 or len(self.requests) < len(self.stream):
            if self.calendar.peek() == float("inf"):
                break
            self.calendar.step()
        self.now_s = self.calendar.now

    def log(self) -> np.ndarray:
        """The request log: one row a request that has arrived by now."""
        log = empty_log(len(self.requests))
        for name in REQUEST_DTYPE.names or ():
            log[name] = [getattr(r, name) for r in self.requests]
        return log

    # --- what happens by itself -----------------------------------------------------------------------------------

    def _arrivals(self) -> Generator[simpy.Event, None, None]:
        stream = self.stream
        for number in range(len(stream)):
            yield self.calendar.at(float(stream.arrival_s[number]), order(When.ARRIVAL, number))
            request = Request(
                number,
                self.calendar.now,
                int(stream.input_tokens[number]),
                int(stream.output_tokens[number]),
                int(stream.service_class[number]),
                int(stream.session_id[number]),
            )
            self.requests.append(request)
            self._arrive(request)

    def _capacity_changes(self, capacity: CapacityTimeline) -> Generator[simpy.Event, None, None]:
        for k in range(1, len(capacity.times_s)):
            yield self.calendar.at(float(capacity.times_s[k]), order(When.CONDITION, k))
            self._set_capacity(float(capacity.gbps[k]))

    def _set_capacity(self, gbps: float) -> None:
        self.link.set_capacity(gbps)
        self.reverse_link.set_capacity(gbps)

    def _faults(self, faults: FaultTimeline) -> Generator[simpy.Event, None, None]:
        after_capacity = 1 << 40
        for k in range(len(faults.times_s)):
            yield self.calendar.at(float(faults.times_s[k]), order(When.CONDITION, after_capacity + k))
            instance, up = int(faults.instance[k]), bool(faults.up[k])
            if faults.remote[k]:
                self._repair_remote(instance) if up else self._fail_remote(instance)
            elif up:
                self.roles.repair(instance)
            else:
                lost = self.roles.fail(instance)
                self._throw_back([lost] if lost else [], self.local_pool)

    def _fail_remote(self, instance: int) -> None:
        if instance in self.failed_remote:
            return
        self.failed_remote.add(instance)
        lost = {r.number: r for r in self.link.open_from(instance)}
        running = self.remote_pool.fail(instance)
        if running:
            lost[running.number] = running
        self._throw_back(list(lost.values()), self.remote_pool)

    def _repair_remote(self, instance: int) -> None:
        if instance in self.failed_remote:
            self.failed_remote.discard(instance)
            self.remote_pool.join(instance)

    def _throw_back(self, lost: list[Request], pool: PrefillPool) -> None:
        """Work on a failed prefill instance is lost: its requests go back to the head of their pool's queue."""
        for request in lost:
            request.attempt += 1
            request.bytes_sent += self.link.cancel(request)
            if self.decode.limited:
                self.decode.unreserve(request)
        pool.put_back(lost)

    @property
    def failed_remote_count(self) -> int:
        return len(self.failed_remote)

    # --- life of a request ----------------------------------------------------------------------------------------

    def _arrive(self, request: Request) -> None:
        """1. Arrival: one that can never fit is refused, with its reason."""
        whole = request.input_tokens + request.output_tokens
        request.reserved_bytes = self.kv.fixed_bytes + self.kv.bytes_per_token * whole
        limit = min(self.local_profile.context_limit_tokens, self.remote_profile.context_limit_tokens)
        if whole > limit or request.reserved_bytes > self.decode.memory_bytes:
            self._reject(request, TOO_LONG if whole > limit else TOO_LARGE)
        else:
            self._route(request)

    def _reject(self, request: Request, reason: int) -> None:
        request.status = REJECTED
        request.reject_reason = reason
        self.accounts.rejected()

    def _route(self, request: Request) -> None:
        """1. Prefix match, and 2. routing by the law in force; then the request joins its pool's queue."""
        tokens, prompt = request.input_tokens, self._prompt_blocks(request)
        held, local_prefix = self.local_cache.match(prompt, tokens)
        _, remote_prefix = self.remote_cache.match(prompt, tokens)
        own_prefix = {True: remote_prefix, False: local_prefix}
        if self.control.cache_rule == "abundant" and self.deployment.route_pinned is None:
            local_prefix = remote_prefix = max(local_prefix, remote_prefix)
        local_s = laws.service_s(self.local_profile.prefill.cubic, tokens, local_prefix)
        remote_s = laws.service_s(self.remote_profile.prefill.cubic, tokens, remote_prefix)
        kv = self.kv
        size = laws.kv_bytes(kv.fixed_bytes, kv.bytes_per_token, tokens, held)

        uncached = tokens - local_prefix
        request.remote = self._goes_remote(uncached, local_s, remote_s, size)
        request.cached_tokens = remote_prefix if request.remote else local_prefix
        request.service_s = remote_s if request.remote else local_s
        request.kv_bytes = size if request.remote else laws.kv_bytes(kv.fixed_bytes, kv.bytes_per_token, tokens, 0)
        pool = self.remote_pool if request.remote else self.local_pool
        limit = self.deployment.queue_limit_requests
        if limit is not None and len(pool.queue) >= limit:
            self._reject(request, QUEUE_FULL)
            return
        self.accounts.arrived(request, uncached)
        cache = self.remote_cache if request.remote else self.local_cache
        cache.touch(prompt[: -(-request.cached_tokens // self.stream.block_tokens)])
        if request.cached_tokens > own_prefix[request.remote]:
            self._copy_prefix(request, request.cached_tokens - own_prefix[request.remote], pool)
        else:
            pool.submit(request)

    def _prompt_blocks(self, request: Request) -> list[int]:
        """Block ids of the prompt (the stream may know more: those of the output)."""
        blocks = self.stream.hashes(request.number)
        return blocks[: -(-request.input_tokens // self.stream.block_tokens)].tolist()

    def _copy_prefix(self, request: Request, missing_tokens: int, pool: PrefillPool) -> None:
        """Bring the missing part of a prefix, and its state, to the cluster that prefills (section 5, abundant)."""
        kv = self.kv
        size = laws.kv_bytes(kv.fixed_bytes, kv.bytes_per_token, missing_tokens, 0)

        def sent(_: Request) -> None:
            if request.remote:
                request.bytes_returned += size
            else:
                request.bytes_sent += size
            here = order(When.COMPLETION, request.number, Stage.COPIED)
            self.calendar.at(self.calendar.now + self.delay_s, here, lambda: pool.submit(request))

        now = self.calendar.now
        (self.reverse_link if request.remote else self.link).begin(request, size, now, now, sent)

    def _goes_remote(self, uncached: float, local_s: float, remote_s: float, size_bytes: float) -> bool:
        pinned = self.deployment.route_pinned
        if pinned is not None:
            return pinned == "remote"
        if self.control.law == "threshold":
            return uncached > self.control.threshold_tokens
        remote_wait_s = self.remote_pool.expected_wait_s()
        exposed_s = laws.expected_exposed_transfer_s(
            remote_wait_s,
            remote_s,
            size_bytes,
            self.link.backlog_bytes(),
            self.link.capacity_bps,
            self.link.flow_cap_bps,
            self.delay_s,
            self.pipelined,
        )
        return laws.prefers_remote_by_price(
            self.local_pool.expected_wait_s(), local_s, remote_wait_s, remote_s, exposed_s, self.control.price_s
        )

    # 3. and 4. Prefill and KV transfer: with layer-wise pipelining the transfer begins with the prefill.

    def _local_prefill_started(self, request: Request) -> None:
        if self.pipelined:
            self.decode.reserve(request)

    def _remote_prefill_started(self, request: Request) -> None:
        if self.pipelined:
            self.decode.reserve(request)

    def _local_prefill_ended(self, request: Request) -> None:
        if not self.pipelined:
            self.decode.reserve(request)

    def _remote_prefill_ended(self, request: Request) -> None:
        if self.pipelined:
            self.link.produced(request)
        else:
            self.decode.reserve(request)

    def _transfer_may_begin(self, request: Request) -> None:
        if request.remote:
            start_s = request.prefill_start_s if self.pipelined else request.prefill_end_s
            self.link.begin(request, request.kv_bytes, start_s, request.prefill_end_s, self._sent)
            return
        ready_s = laws.fabric_ready_s(
            self.calendar.now,
            request.prefill_end_s,
            request.kv_bytes,
            self.deployment.fabric_gbps * 1e9,
            self.pipelined,
        )
        self._kv_ready_at(ready_s, request)

    def _kv_ready_at(self, time_s: float, request: Request) -> None:
        attempt = request.attempt
        self.calendar.at(
            time_s,
            order(When.COMPLETION, request.number, Stage.KV_READY),
            lambda: self._kv_ready(request) if request.attempt == attempt else None,
        )

    def _sent(self, request: Request) -> None:
        """The last byte has left the remote cluster; it is here one one-way delay later."""
        request.bytes_sent += request.kv_bytes
        if not self.pipelined:
            self.remote_pool.release(request)
        self._kv_ready_at(self.calendar.now + self.delay_s, request)

    def _kv_ready(self, request: Request) -> None:
        """5. Decode: a slot is taken, FCFS; tokens follow."""
        if not request.remote and not self.pipelined:
            self.local_pool.release(request)
        self.decode.ready(request)

    def _first_token(self, request: Request) -> None:
        request.ttft_s = request.first_token_s - request.arrival_s + self.deployment.ttft_overhead_s
        self.accounts.first_token(request)

    def _finished(self, request: Request) -> None:
        """6. Completion: the local cluster keeps the whole context, the remote one the input that it prefilled."""
        request.status = COMPLETED
        block, tokens = self.stream.block_tokens, request.input_tokens
        context, prompt = self.stream.hashes(request.number).tolist(), self._prompt_blocks(request)
        whole = tokens + request.output_tokens if len(context) > len(prompt) else tokens
        self.local_cache.insert(context[: whole // block])
        if request.remote:
            self.remote_cache.insert(prompt[: tokens // block])
        steps = request.output_tokens - 1
        request.tpot_s = (request.finish_s - request.first_token_s) / steps if steps else 0.0
        self.accounts.finished(request)
