"""Traces: files in which somebody wrote down what arrived, read row by row and replayed."""

from prfaas_env.workload.traces.find import TRACES_VARIABLE, cache_folder, find_trace
from prfaas_env.workload.traces.formats import Columns
from prfaas_env.workload.traces.reading import read_trace
from prfaas_env.workload.traces.replay import TraceWorkload
from prfaas_env.workload.traces.trace import Trace, TraceWarning, UnusableRow

__all__ = [
    "TRACES_VARIABLE",
    "Columns",
    "Trace",
    "TraceWarning",
    "TraceWorkload",
    "UnusableRow",
    "cache_folder",
    "find_trace",
    "read_trace",
]
