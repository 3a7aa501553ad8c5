"""The paper's case study (arXiv:2604.15039v2, section 4 and Table 6), for tests that compare with it."""

from __future__ import annotations

from prfaas_env.workload.lengths import Constant, NominalWorkload, TruncatedLogNormal

__all__ = ["INPUTS", "OUTPUT_TOKENS", "TABLE_6", "THRESHOLD_TOKENS", "WORKLOAD"]

INPUTS = TruncatedLogNormal(9.90, 1.00, 128, 131_072)
OUTPUT_TOKENS = 1024
THRESHOLD_TOKENS = 19_400.0
WORKLOAD = NominalWorkload(INPUTS, Constant(OUTPUT_TOKENS))

# deployment: (mean TTFT in s, P90 TTFT in s, Λ_max in req/s)
TABLE_6 = {
    "prfaas-pd": (2.22, 3.51, 3.24),
    "homogeneous-pd": (4.44, 9.73, 2.11),
    "naive-heterogeneous-pd": (1.74, 3.51, 2.45),
}
