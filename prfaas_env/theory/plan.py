"""The closed-form plan of a deployment: threshold, split and the rate it sustains (PrfaaS, Eqs. 3–8; paper Table 6).

``distribution`` form: a stage's time is the mean over the requests that go there, E[T(L) | L > t]; it gives Table 6.
``representative`` form: the time at the mean length, T(E[L | L > t]), as the paper's equations are written; it differs
by 1–3 %. Prefix caches are not part of it: lengths are uncached lengths.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment
from prfaas_env.profiles import Profile
from prfaas_env.theory import closed_form as eq
from prfaas_env.workload.lengths import LengthLaw, LengthPoints

__all__ = ["Form", "HasLengths", "HasNominal", "Plan", "StageModel", "plan", "sweep_splits", "sweep_thresholds"]

Form = Literal["distribution", "representative"]

POINTS = 4096  # of a law: Λ_max then is within 1e-5 of its limit
GIGA = 1e9


class HasLengths(Protocol):
    """A workload as the closed form sees it."""

    @property
    def lengths(self) -> LengthLaw: ...

    @property
    def output_tokens(self) -> LengthLaw: ...


class HasNominal(Protocol):
    """A scenario: it states the workload that its operator reckons with."""

    @property
    def nominal(self) -> HasLengths: ...


@dataclass(frozen=True)
class Plan:
    """The closed-form optimum of a deployment, or what a given setting of it sustains. ``None``: no such stage.

    Rates in requests per second, Θ as in the paper's Table 6 (each stage in its own requests), lengths in tokens,
    TTFT in seconds of an empty system (no queueing), egress in Gbps at Λ_max.
    """

    threshold_tokens: float | None
    n_prfaas: int | None
    n_prefill: int | None
    n_decode: int
    lambda_max_rps: float
    theta_prfaas_rps: float | None
    theta_pd_p_rps: float | None
    theta_pd_d_rps: float
    offload_fraction: float
    l_long_tokens: float | None
    l_short_tokens: float | None
    egress_gbps: float
    ttft_mean_s: float
    ttft_p90_s: float

    @property
    def prefill_bound_rps(self) -> float:
        """The rate of the whole traffic that prefill (both pools and the link) sustains."""
        p = self.offload_fraction
        shares = ((self.theta_prfaas_rps, p), (self.theta_pd_p_rps, 1.0 - p))
        return min((theta / share for theta, share in shares if theta is not None and share > 0), default=np.inf)

    @property
    def binding_stage(self) -> Literal["prefill", "decode"]:
        """The stage that sets Λ_max."""
        return "prefill" if self.prefill_bound_rps <= self.theta_pd_d_rps else "decode"

    def as_mapping(self) -> dict[str, Any]:
        """Fields by name, as ``plan --json`` prints them."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class StageModel:
    """One deployment on one workload, ready for the equations; splits and thresholds are still open."""

    deployment: Deployment
    points: LengthPoints
    output_tokens: float
    form: Form = "distribution"

    @classmethod
    def of(cls, deployment: Deployment, workload: HasLengths | HasNominal, form: Form = "distribution") -> StageModel:
        """From a workload (or a scenario, by its nominal workload). Raises :class:`ConfigError` on an unknown form."""
        if form not in ("distribution", "representative"):
            raise ConfigError(f"form: expected 'distribution' or 'representative', got {form!r}")
        nominal: Any = getattr(workload, "nominal", workload)
        if not (hasattr(nominal, "lengths") and hasattr(nominal, "output_tokens")):
            raise ConfigError(
                "workload: states no laws of lengths and output_tokens; plan with the scenario, which does"
            )
        return cls(deployment, nominal.lengths.points(POINTS), nominal.output_tokens.mean(), form)

    @cached_property
    def log_lengths(self) -> np.ndarray:
        return np.log(self.points.lengths_tokens)

    @cached_property
    def local_s(self) -> np.ndarray:
        """Prefill time of each point on a local instance, in seconds."""
        return self.deployment.local.profile.prefill.time_s(self.points.lengths_tokens)

    @cached_property
    def remote_s(self) -> np.ndarray:
        """Prefill time of each point on a remote instance, in seconds; local ones where there is none."""
        return self._remote_profile.prefill.time_s(self.points.lengths_tokens)

    @cached_property
    def kv_bits(self) -> np.ndarray:
        """KV size of each point in bits."""
        return 8.0 * self._remote_profile.kv.size_bytes(self.points.lengths_tokens)

    @property
    def _remote_profile(self) -> Profile:
        remote = self.deployment.remote
        return remote.profile if remote else self.deployment.local.profile

    @property
    def n_remote(self) -> int:
        return self.deployment.remote.instances if self.deployment.remote else 0

    @property
    def link_bps(self) -> float:
        return self.deployment.link.capacity_gbps * GIGA if self.deployment.link else 0.0

    @cached_property
    def loads(self) -> np.ndarray:
        """Loads at every whole cut in the chosen form (see :func:`closed_form.stage_loads`). Shape (4, n + 1)."""
        loads = eq.stage_loads(self.points.weights, self.local_s, self.remote_s, self.kv_bits)
        if self.form == "representative":
            short, long = self.mean_lengths(np.arange(loads.shape[1]) * 1.0)
            kept = loads[eq.KEPT]
            loads[eq.LOCAL] = kept * self.deployment.local.profile.prefill.time_s(np.nan_to_num(short))
            loads[eq.REMOTE] = (1.0 - kept) * self._remote_profile.prefill.time_s(np.nan_to_num(long))
            loads[eq.REMOTE, -1] = 0.0
        return loads

    def mean_lengths(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """l_short and l_long in tokens at each cut; NaN where no request falls on that side. Each of shape (m,)."""
        lengths, weights, _ = self.points
        sums = eq.stage_loads(weights, lengths, lengths, np.ones_like(lengths))
        kept, short, long, left = eq.loads_at(sums, cuts)
        nothing = np.full(len(cuts), np.nan)
        return (
            np.divide(short, kept, out=nothing.copy(), where=kept > 0),
            np.divide(long, left, out=nothing.copy(), where=left > 0),
        )

    def cut_of(self, thresholds_tokens: np.ndarray) -> np.ndarray:
        """The cut that each threshold makes. An atom goes to one side whole."""
        cuts = eq.cut_at(self.log_lengths, np.asarray(thresholds_tokens, dtype=np.float64))
        whole = np.searchsorted(self.points.lengths_tokens, thresholds_tokens, side="right") * 1.0
        touched = np.minimum(np.floor(cuts), len(self.log_lengths) - 1.0).astype(np.int64)
        return np.where(self.points.atom[touched], whole, cuts)

    def best_cuts(self, n_prefill: np.ndarray) -> np.ndarray:
        """Eq. 7 for each N_p. Where the crossing divides an atom, the better of its two sides. Shape (m,)."""
        cuts = eq.balanced_cuts(self.loads, n_prefill, self.n_remote, self.link_bps, self._pipelined)
        touched = np.minimum(np.floor(cuts), len(self.log_lengths) - 1.0).astype(np.int64)
        before, after = np.floor(cuts), np.ceil(cuts)
        better = np.where(self.prefill_rps(after, n_prefill) > self.prefill_rps(before, n_prefill), after, before)
        return np.where(self.points.atom[touched], better, cuts)

    @property
    def _pipelined(self) -> bool:
        return self.deployment.layerwise_pipelining

    def prefill_rps(self, cuts: np.ndarray, n_prefill: np.ndarray) -> np.ndarray:
        """The rate that prefill sustains at each pair of cut and N_p, in requests per second. Shape (m,)."""
        at = eq.loads_at(self.loads, cuts)
        return eq.prefill_rps(at, n_prefill, self.n_remote, self.link_bps, self._pipelined)

    def decode_rps(self, n_prefill: np.ndarray) -> np.ndarray:
        """Θ_pd-d at each N_p, in requests per second (Eq. 5)."""
        decode = self.deployment.local.profile.decode
        n_decode = self.deployment.local.instances - n_prefill
        return eq.decode_rps(n_decode, decode.slots, decode.step_s[decode.slots], self.output_tokens)

    def splits(self) -> np.ndarray:
        """Every N_p that the deployment allows, float64."""
        low, high = self.deployment.prefill_bounds
        return np.arange(low, high + 1) * 1.0

    def lambda_max_rps(self, cuts: np.ndarray, n_prefill: np.ndarray) -> np.ndarray:
        """Λ_max at each pair of cut and N_p (Eq. 6). Shape (m,)."""
        return np.minimum(self.prefill_rps(cuts, n_prefill), self.decode_rps(n_prefill))

    def ttft_s(self, cut: float) -> tuple[float, float]:
        """Mean and P90 of TTFT in seconds in an empty system, at one cut.

        Service time, the part of the transfer that prefill does not hide, the constant overhead, one decode step, and
        for the remote side the one-way delay of the link.
        """
        deployment, weights = self.deployment, self.points.weights
        kept = np.clip(cut - np.arange(len(weights)), 0.0, 1.0) * weights
        constant = deployment.ttft_overhead_s + float(deployment.local.profile.decode.step_s[1])
        own_kv_bits = 8.0 * deployment.local.profile.kv.size_bytes(self.points.lengths_tokens)
        local = constant + self._with_transfer(self.local_s, own_kv_bits, deployment.fabric_gbps * GIGA)
        remote: np.ndarray = local
        if deployment.link:
            flow_bps = min(deployment.link.capacity_gbps, deployment.link.flow_cap_gbps) * GIGA
            remote = self._with_transfer(self.remote_s, self.kv_bits, flow_bps)
            remote = remote + constant + deployment.link.one_way_delay_s
        times, shares = np.concatenate([local, remote]), np.concatenate([kept, weights - kept])
        order = np.argsort(times, kind="stable")
        p90 = times[order][np.searchsorted(np.cumsum(shares[order]), 0.9)]
        return float(times @ shares), float(p90)

    def _with_transfer(self, prefill_s: np.ndarray, kv_bits: np.ndarray, bps: float) -> np.ndarray:
        return np.maximum(prefill_s, kv_bits / bps) if self._pipelined else prefill_s + kv_bits / bps

    def plan_at(self, cut: float, n_prefill: float) -> Plan:
        """Every figure of one setting."""
        cuts, split = np.array([cut]), np.array([n_prefill])
        at = eq.loads_at(self.loads, cuts)
        kept, sent_bits = float(at[eq.KEPT, 0]), float(at[eq.SENT, 0])
        rate = float(self.lambda_max_rps(cuts, split)[0])
        remote_s = float(eq.remote_load_s(at, self.n_remote, self.link_bps, self._pipelined)[0])
        local_s = float(eq.local_load_s(at, split)[0])
        short, long = (float(x[0]) for x in self.mean_lengths(cuts))
        ttft_mean, ttft_p90 = self.ttft_s(cut)
        # Beyond the longest length every threshold is the same: name the first of them, a finite number.
        threshold = min(float(eq.threshold_at(self.log_lengths, cuts)[0]), float(self.points.lengths_tokens[-1]))
        return Plan(
            threshold_tokens=threshold if self.deployment.route_pinned is None else None,
            n_prfaas=self.n_remote or None,
            n_prefill=int(n_prefill) or None,
            n_decode=self.deployment.local.instances - int(n_prefill),
            lambda_max_rps=rate,
            theta_prfaas_rps=(1.0 - kept) / remote_s if remote_s > 0 else None,
            theta_pd_p_rps=kept / local_s if local_s > 0 else None,
            theta_pd_d_rps=float(self.decode_rps(split)[0]),
            offload_fraction=1.0 - kept,
            l_long_tokens=None if np.isnan(long) else long,
            l_short_tokens=None if np.isnan(short) else short,
            egress_gbps=rate * sent_bits / GIGA,
            ttft_mean_s=ttft_mean,
            ttft_p90_s=ttft_p90,
        )


def plan(
    deployment: Deployment,
    workload: HasLengths | HasNominal,
    *,
    form: Form = "distribution",
    n_prefill: int | None = None,
    threshold_tokens: float | None = None,
) -> Plan:
    """The optimum over threshold and split (Eqs. 6–8), or over what is left open when one or both are given.

    ``workload``: anything with laws ``lengths`` and ``output_tokens``, or a scenario (its nominal workload).
    A split alone gives the re-search of t of the short timescale. Raises :class:`ConfigError` on an N_p that the
    deployment cannot have, or on a threshold that is not a number ≥ 0.
    """
    model = StageModel.of(deployment, workload, form)
    splits = model.splits()
    if n_prefill is not None:
        low, high = deployment.prefill_bounds
        if not low <= n_prefill <= high:
            raise ConfigError(
                f"n_prefill: expected {low} to {high} for deployment {deployment.name!r}, got {n_prefill}"
            )
        splits = np.array([float(n_prefill)])
    if threshold_tokens is None:
        cuts = model.best_cuts(splits)
    elif not threshold_tokens >= 0:
        raise ConfigError(f"threshold_tokens: expected a number ≥ 0, got {threshold_tokens}")
    elif deployment.route_pinned is not None:
        where = f"deployment {deployment.name!r} prefills everything at the {deployment.route_pinned} cluster"
        raise ConfigError(f"threshold_tokens: expected none, {where}")
    else:
        cuts = np.repeat(model.cut_of(np.array([threshold_tokens])), len(splits))
    best = int(np.argmax(model.lambda_max_rps(cuts, splits)))
    return model.plan_at(float(cuts[best]), float(splits[best]))


def sweep_thresholds(
    deployment: Deployment,
    workload: HasLengths | HasNominal,
    n_prefill: int,
    thresholds_tokens: np.ndarray,
    form: Form = "distribution",
) -> np.ndarray:
    """Λ_max in requests per second at each threshold, at a fixed split (paper Fig. 5). Shape of the thresholds."""
    model = StageModel.of(deployment, workload, form)
    return model.lambda_max_rps(model.cut_of(thresholds_tokens), np.full(len(thresholds_tokens), float(n_prefill)))


def sweep_splits(deployment: Deployment, workload: HasLengths | HasNominal, form: Form = "distribution") -> list[Plan]:
    """The plan at the best threshold of every N_p that the deployment allows (paper Fig. 5)."""
    model = StageModel.of(deployment, workload, form)
    splits = model.splits()
    return [model.plan_at(float(cut), float(n)) for cut, n in zip(model.best_cuts(splits), splits, strict=True)]
