"""What is asked: a deployment and the laws of its traffic, after every option has been put in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.deployment import Deployment
from prfaas_env.describe.subject import load_subject, trace_columns
from prfaas_env.planner.paper import paper_case
from prfaas_env.planner.prices import priced, prices_from, unpriced
from prfaas_env.planning import DEFAULT_DEPLOYMENT, DEFAULT_WORKLOAD, planned
from prfaas_env.profiles import load_profile
from prfaas_env.scenario import Scenario
from prfaas_env.theory.plan import Form, HasLengths, Plan, StageModel, plan

__all__ = ["EDGE_SHARE", "Question", "question"]

ROLES = ("remote", "local")
# Under one request in a quarter of an hour nothing that one would call a service is left; a wrong unit does that.
LEAST_RPS = 1e-3
FEWEST_REQUESTS = 400  # of a trace: a share of its requests then has an interval of ± .05 at most
UNMEASURED_SHARE = 0.05  # of the requests, whose prefill times move the plan by about as much
EDGE_SHARE = 1e-3  # a side that gets fewer of the requests than this gets none worth an instance


@dataclass(frozen=True)
class Question:
    """A deployment on a workload, what of its knobs is held, and where the workload came from.

    ``paper``: the column of the paper's Table 6 that this is (prices apart), if any. ``trace``: the trace as a
    scenario on this deployment. ``of_scenario``: the workload is that of a scenario, not of a trace. ``changes``: what
    was put in place of the deployment's own. ``remarks``: what was noticed on the way.
    """

    deployment: Deployment
    workload: HasLengths
    workload_name: str = "own"
    form: Form = "distribution"
    n_prefill: int | None = None
    threshold_tokens: float | None = None
    paper: str | None = None
    trace: Scenario | None = None
    of_scenario: bool = False
    changes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @cached_property
    def model(self) -> StageModel:
        return StageModel.of(self.deployment, self.workload, self.form)

    @cached_property
    def plan(self) -> Plan:
        """The optimum over what is not held."""
        return self.plan_of(self.deployment, self.workload)

    def plan_of(self, deployment: Deployment, workload: HasLengths) -> Plan:
        """The optimum of another deployment or workload, held as this one is. Raises :class:`ConfigError`."""
        return plan(
            deployment, workload, form=self.form, n_prefill=self.n_prefill, threshold_tokens=self.threshold_tokens
        )

    @property
    def cut(self) -> float:
        """The cut of the plan (see :mod:`prfaas_env.theory.closed_form`), by what it keeps local: its threshold is a
        finite number, and so says nothing of the last sliver of the law."""
        weights = self.model.points.weights
        kept = np.concatenate([[0.0], np.cumsum(weights)])  # by whole cuts; linear between them
        return float(np.interp(1.0 - self.plan.offload_fraction, kept, np.arange(len(kept))))

    @property
    def output_tokens_mean(self) -> float:
        return self.workload.output_tokens.mean()

    def notes(self) -> tuple[str, ...]:
        """What the plan means in words where it is an extreme, and what was noticed about the input."""
        return (*self.remarks, *_extremes(self))


def question(
    deployment: str | None = None,
    workload: str | None = None,
    *,
    profiles: Sequence[str] = (),
    trace: str | None = None,
    columns: str | None = None,
    link_gbps: float | None = None,
    prices: Sequence[str] = (),
    form: Form = "distribution",
    n_prefill: int | None = None,
    threshold_tokens: float | None = None,
) -> Question:
    """The question that the options of ``plan`` ask. Raises :class:`ConfigError`, naming the option or file."""
    if trace is not None and workload is not None:
        raise ConfigError("--trace: expected without --workload: the trace is the workload")
    if columns is not None and trace is None:
        raise ConfigError("--columns: expected with --trace")
    replayed, remarks = _replayed(trace, columns) if trace is not None else (None, ())
    place, traffic = planned(deployment or (DEFAULT_DEPLOYMENT if replayed else None), replayed or workload)
    laws: Any = getattr(traffic, "nominal", traffic)
    place = _linked(_profiled(place, profiles), link_gbps)
    held = n_prefill is not None or threshold_tokens is not None or form != "distribution"
    asked = Question(
        deployment=priced(place, prices_from(prices)),
        workload=laws,
        workload_name=trace or workload or DEFAULT_WORKLOAD,
        form=form,
        n_prefill=n_prefill,
        threshold_tokens=threshold_tokens,
        paper=None if held else paper_case(place, laws),
        changes=(*profiles, *([f"link={link_gbps:g} Gbps"] if link_gbps is not None else []), *prices),
        of_scenario=replayed is None and isinstance(traffic, Scenario),
        remarks=remarks,
    )
    if replayed is not None:
        asked = replace(asked, trace=replace(replayed, deployment=asked.deployment))
    if not asked.plan.lambda_max_rps >= LEAST_RPS:
        raise ConfigError(_nothing_sustained(asked))
    shortest, limit = asked.model.points.lengths_tokens[0], _context_limit(asked.deployment)
    if shortest >= limit:
        raise ConfigError(
            f"{asked.workload_name}: every input has {shortest:,.0f} tokens or more, context_limit_tokens of the "
            f"profiles is {limit:,}: no request can be served; choose profiles with a longer context (--profile)"
        )
    return asked


def _context_limit(deployment: Deployment) -> int:
    return min(c.profile.context_limit_tokens for c in (deployment.local, deployment.remote) if c)


def _replayed(trace: str, columns: str | None) -> tuple[Scenario, tuple[str, ...]]:
    path = Path(trace)
    if path.suffix in (".yaml", ".yml") or not (path.suffix or "/" in trace):
        raise ConfigError(
            f"--trace: expected a trace file (.jsonl, .csv, …), got {trace!r}; scenarios go to --workload"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        scenario = load_subject(trace, None, trace_columns(columns) if columns else None)
        count = len(scenario.draw(0).stream)
    remarks = list(dict.fromkeys(str(warning.message) for warning in caught))
    if count < FEWEST_REQUESTS:
        unsure = min(0.98 / count**0.5, 1.0)
        remarks.append(
            f"{trace}: {count:,} requests only: any share of them, and so the plan, is ± {unsure:.0%} at best"
        )
    return scenario, tuple(remarks)


def _profiled(deployment: Deployment, profiles: Sequence[str]) -> Deployment:
    """Profiles replaced, all at once: both clusters must serve one model."""
    changes = {}
    for text in profiles:
        role, equals, name = text.partition("=")
        if role not in ROLES or not equals or not name:
            hint = nearest(role, ROLES) if equals and role not in ROLES else ""
            raise ConfigError(f"--profile: expected remote=NAME_OR_FILE or local=NAME_OR_FILE, got {text!r}{hint}")
        if role in changes:
            raise ConfigError(f"--profile {text}: {role} is given already, expected it once")
        cluster = getattr(deployment, role)
        if cluster is None:
            raise ConfigError(f"--profile {text}: deployment {deployment.name!r} has no remote cluster")
        changes[role] = replace(cluster, profile=load_profile(name))
    try:
        return replace(deployment, **changes) if changes else deployment
    except ConfigError as error:
        other = "; give both --profile remote=… and --profile local=…" if len(changes) == 1 else ""
        raise ConfigError(f"--profile: {error}{other}") from None


def _linked(deployment: Deployment, gbps: float | None) -> Deployment:
    if gbps is None:
        return deployment
    if deployment.link is None:
        raise ConfigError(f"--link-gbps: deployment {deployment.name!r} has no link")
    try:
        return replace(deployment, link=replace(deployment.link, capacity_gbps=gbps))
    except ConfigError as error:
        raise ConfigError(f"--link-gbps: {error}") from None


def _nothing_sustained(asked: Question) -> str:
    d, found = asked.deployment, asked.plan
    if found.binding_stage == "decode":
        key, unit = f"decode of profile {d.local.profile.name!r} (step_times_ms)", "the output lengths"
    else:
        named = " and ".join(repr(c.profile.name) for c in (d.remote, d.local) if c)
        key, unit = f"prefill.times_s of profile {named}", "link.capacity_gbps" if d.link else "the input lengths"
    return (
        f"deployment {d.name!r}: Λ_max is {found.lambda_max_rps:.2g} req/s, practically none: {found.binding_stage} "
        f"cannot keep up; check the units of {key} and {unit}"
    )


def _extremes(asked: Question) -> list[str]:
    found, points, said = asked.plan, asked.model.points, []
    if len(points.lengths_tokens) == 1:
        said.append(
            f"every request has {points.lengths_tokens[0]:,.0f} uncached tokens: no threshold can divide them, all go "
            "to one side; give the measured lengths if they differ"
        )
    if asked.deployment.route_pinned is None and asked.threshold_tokens is None:
        if found.offload_fraction <= EDGE_SHARE:
            said.append(
                f"t* = {found.threshold_tokens:,.0f} tokens, next to no request is longer: keep everything local, the "
                "remote cluster adds nothing"
            )
        elif found.offload_fraction >= 1.0 - EDGE_SHARE:
            said.append(
                f"t* = {found.threshold_tokens:,.0f} tokens, next to no request is shorter: send every prefill remote, "
                "the local prefill instances add nothing"
            )
    limit = _context_limit(asked.deployment)
    beyond = float(points.weights[points.lengths_tokens > limit].sum())
    if beyond > 0:
        said.append(
            f"{beyond:.1%} of the requests exceed the profiles' context limit of {limit:,} tokens: the closed "
            "form counts them, the simulator refuses them"
        )
    said += _unmeasured(asked)
    said += [
        f"no price of the {role} instances ({instance}): no cost is given; state it by --prices {instance}=USD_PER_HOUR"
        for role, instance in unpriced(asked.deployment)
    ]
    return said


def _unmeasured(asked: Question) -> Iterator[str]:
    """Where many requests are of lengths between which no profile has a measured prefill time."""
    lengths, weights, _ = asked.model.points
    tables = {c.profile.prefill.lengths_tokens for c in (asked.deployment.local, asked.deployment.remote) if c}
    low, high = max(table[0] for table in tables), min(table[-1] for table in tables)
    shorter, longer = float(weights[lengths < low].sum()), float(weights[lengths > high].sum())
    if shorter >= UNMEASURED_SHARE:
        yield (
            f"{shorter:.0%} of the requests are shorter than {low:,.0f} tokens, the shortest that the profiles have a "
            "prefill time for: theirs is extrapolated, and one prompt at a time, where a server would batch them"
        )
    if longer >= UNMEASURED_SHARE:
        yield (
            f"{longer:.0%} of the requests are longer than {high:,.0f} tokens, the longest that the profiles have a "
            "prefill time for: theirs is extrapolated"
        )
