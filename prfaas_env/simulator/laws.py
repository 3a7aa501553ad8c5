"""The laws that both engines share, as scalar functions over plain numbers and arrays (model.md sections 2 and 3).

The reference engine calls them as they stand; the compiled engine compiles these very functions. So they use only what
numba compiles, and every sum is taken in an order that does not depend on how an engine stores its state: the two
engines then agree to the last bit.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "catch_up_s",
    "expected_exposed_transfer_s",
    "fabric_ready_s",
    "fair_level",
    "kv_bytes",
    "prefers_remote_by_price",
    "prefill_s",
    "service_s",
]


def prefill_s(cubic: np.ndarray, length_tokens: float) -> float:
    """T_prefill of one uncached prompt; ``cubic`` as in :attr:`PrefillTable.cubic` (shape (k, 5))."""
    row = 0
    while row + 1 < cubic.shape[0] and length_tokens >= cubic[row + 1, 0]:
        row += 1
    d = length_tokens - cubic[row, 0]
    return cubic[row, 1] + d * (cubic[row, 2] + d * (cubic[row, 3] + d * cubic[row, 4]))


def service_s(cubic: np.ndarray, input_tokens: float, cached_tokens: float) -> float:
    """Prefill time behind a cached prefix (section 2.3).

    T(L) − T(prefix) + T(0): the attention of the new tokens over the prefix is paid, the fixed cost once.
    """
    if cached_tokens <= 0:
        return prefill_s(cubic, input_tokens)
    return prefill_s(cubic, input_tokens) - prefill_s(cubic, cached_tokens) + prefill_s(cubic, 0.0)


def kv_bytes(fixed_bytes: float, bytes_per_token: float, input_tokens: float, held_tokens: float) -> float:
    """Bytes that the decode side lacks: S_kv(L) less the per-token part of what it holds (section 2)."""
    return fixed_bytes + bytes_per_token * (input_tokens - held_tokens)


def fabric_ready_s(
    begin_s: float, prefill_end_s: float, size_bytes: float, fabric_bps: float, pipelined: bool
) -> float:
    """When KV prefilled locally is at the decode instance; the fabric of an instance is its own (section 2.4).

    ``begin_s`` is when the transfer may begin: with layer-wise pipelining at the start of prefill, without at its end.
    """
    sent_s = begin_s + size_bytes * 8.0 / fabric_bps
    return max(prefill_end_s, sent_s) if pipelined else sent_s


def fair_level(sorted_caps_bps: np.ndarray, n: int, capacity_bps: float) -> float:
    """Max-min fair share: each flow gets min(cap, level) (water-filling, section 3).

    ``sorted_caps_bps[:n]`` ascends. Infinite if the link can give every flow its cap.
    """
    left = capacity_bps
    for i in range(n):
        share = left / (n - i)
        if sorted_caps_bps[i] > share:
            return share
        left -= sorted_caps_bps[i]
    return np.inf


def catch_up_s(
    now_s: float, sent_bytes: float, rate_bps: float, start_s: float, production_bps: float, end_s: float
) -> float:
    """When a flow that is behind its producer has sent all that there is; infinite if not before ``end_s``."""
    if rate_bps <= production_bps:
        return np.inf
    behind_bits = max(0.0, production_bps * (now_s - start_s) - sent_bytes * 8.0)
    at_s = now_s + behind_bits / (rate_bps - production_bps)
    return at_s if at_s < end_s else np.inf


def expected_exposed_transfer_s(
    wait_s: float,
    service: float,
    size_bytes: float,
    backlog_bytes: float,
    capacity_bps: float,
    flow_cap_bps: float,
    delay_s: float,
    pipelined: bool,
) -> float:
    """What a router expects a remote transfer to add to TTFT: the part that prefill does not hide.

    The backlog drains while the request waits and computes; its own bytes take at least their time at the flow cap.
    Infinite while the link is down.
    """
    if capacity_bps <= 0.0:
        return np.inf
    own_s = size_bytes * 8.0 / min(capacity_bps, flow_cap_bps)
    if not pipelined:
        return max(0.0, backlog_bytes * 8.0 / capacity_bps - wait_s - service) + own_s + delay_s
    total_s = max(own_s, (backlog_bytes + size_bytes) * 8.0 / capacity_bps - wait_s)
    return max(0.0, total_s - service) + delay_s


def prefers_remote_by_price(
    local_wait_s: float,
    local_service_s: float,
    remote_wait_s: float,
    remote_service_s: float,
    exposed_s: float,
    price_s: float,
) -> bool:
    """Law ``price``: remote iff what it saves in expected completion is worth more than the price β (section 2.2)."""
    remote = remote_wait_s + remote_service_s + exposed_s
    if remote == np.inf:
        return False
    return (local_wait_s + local_service_s) - remote > price_s
