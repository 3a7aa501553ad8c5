"""What must fit together before a run begins; both engines ask here, for the compiled one trusts its arrays."""

from __future__ import annotations

import math

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment
from prfaas_env.simulator.conditions import FaultTimeline, Objectives
from prfaas_env.workload.stream import RequestStream

__all__ = ["check_run"]


def check_run(
    deployment: Deployment, stream: RequestStream, faults: FaultTimeline, objectives: Objectives, patience_s: float
) -> None:
    """:class:`ConfigError` if a fault names a missing instance, a request a missing class, or patience is no time."""
    faults.check_instances(deployment.remote.instances if deployment.remote else 0, deployment.local.instances)
    classes = len(objectives.ttft_s)
    if len(stream) and stream.service_class.max() >= classes:
        first = int(np.argmax(stream.service_class >= classes))
        raise ConfigError(
            f"request stream: service_class of request {first}: expected 0 to {classes - 1} (one objective a class), "
            f"got {stream.service_class[first]}"
        )
    if math.isnan(patience_s) or patience_s < 0:
        raise ConfigError(f"patience_s: expected a number of seconds ≥ 0, got {patience_s}")
