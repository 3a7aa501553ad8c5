"""One request on its way through the system: what the log will say of it, and where it stands now."""

from __future__ import annotations

from dataclasses import dataclass

from prfaas_env.simulator.log import IN_SYSTEM

__all__ = ["Request"]

NAN = float("nan")


@dataclass(slots=True, eq=False)
class Request:
    """Fields named as in ``REQUEST_DTYPE`` go into the log; the others are the request's present state."""

    number: int
    arrival_s: float
    input_tokens: int
    output_tokens: int
    service_class: int
    session_id: int
    cached_tokens: int = 0
    remote: bool = False
    prefill_instance: int = -1
    decode_instance: int = -1
    prefill_start_s: float = NAN
    prefill_end_s: float = NAN
    kv_ready_s: float = NAN
    decode_start_s: float = NAN
    first_token_s: float = NAN
    finish_s: float = NAN
    ttft_s: float = NAN
    tpot_s: float = NAN
    bytes_sent: float = 0.0
    bytes_returned: float = 0.0
    status: int = IN_SYSTEM
    reject_reason: int = 0

    attempt: int = 0  # grows with every fault that throws it back: events of earlier attempts are void
    kv_here: bool = False  # its KV has reached the decode side
    service_s: float = 0.0  # prefill time on the pool it was sent to
    kv_bytes: float = 0.0  # what its transfer carries
    reserved_bytes: float = 0.0  # KV memory it takes while it decodes
    queued_s: float = 0.0  # when it joined the queue it stands in
    decode_from: float = 0.0  # its instance's token clock at admission
