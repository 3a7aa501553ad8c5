"""The shared laws (``simulator/laws.py``), compiled: the same functions, not copies of them."""

from __future__ import annotations

from prfaas_env.simulator import laws
from prfaas_env.simulator.compiled.jit import bind, kernel

__all__ = [
    "catch_up_s",
    "expected_exposed_transfer_s",
    "fabric_ready_s",
    "fair_level",
    "kv_bytes",
    "prefers_remote_by_price",
    "service_s",
]

prefill_s = kernel(laws.prefill_s)
service_s = kernel(bind(laws.service_s, prefill_s=prefill_s))
kv_bytes = kernel(laws.kv_bytes)
fabric_ready_s = kernel(laws.fabric_ready_s)
fair_level = kernel(laws.fair_level)
catch_up_s = kernel(laws.catch_up_s)
expected_exposed_transfer_s = kernel(laws.expected_exposed_transfer_s)
prefers_remote_by_price = kernel(laws.prefers_remote_by_price)
