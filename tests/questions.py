"""What the tests of the planner ask it about: the paper's workload, and traces of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prfaas_env.workload.lengths import Constant, NominalWorkload, TruncatedLogNormal

__all__ = ["LENGTHS", "OWN", "PAPER", "trace_file"]

LENGTHS = TruncatedLogNormal(9.90, 1.00, 128, 131072)
PAPER = NominalWorkload(LENGTHS, Constant(1024))

OWN = "arrival=at,input=asked,output=answered"


def trace_file(folder: Path, lengths: np.ndarray, gap_s: float = 1.0, output: int = 200) -> str:
    path = folder / "own.csv"
    rows = [f"{i * gap_s:.3f},{int(length)},{output}" for i, length in enumerate(lengths)]
    path.write_text("\n".join(["at,asked,answered", *rows]) + "\n", encoding="utf-8")
    return str(path)
