"""``prfaas_env.plan``: the closed form (:mod:`prfaas_env.theory.plan`) for names, files and records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeAlias

from prfaas_env.config import ConfigError, from_mapping, read_yaml
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.resources import locate, names
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.theory import plan as closed_form
from prfaas_env.theory.plan import Form, HasLengths, HasNominal, Plan
from prfaas_env.workload.lengths import NominalWorkload

__all__ = ["DEFAULT_DEPLOYMENT", "DEFAULT_WORKLOAD", "Place", "Traffic", "plan", "planned"]

DEFAULT_DEPLOYMENT = "prfaas-pd"
DEFAULT_WORKLOAD = "paper-stationary"

Place: TypeAlias = "Deployment | Scenario | str | Path"
Traffic: TypeAlias = "HasLengths | HasNominal | str | Path"

_ONLY_IN_SCENARIOS = {f.name for f in fields(Scenario)} - {f.name for f in fields(Deployment)}


def plan(
    deployment: Place | None = None,
    workload: Traffic | None = None,
    *,
    form: Form = "distribution",
    n_prefill: int | None = None,
    threshold_tokens: float | None = None,
) -> Plan:
    """The optimum over threshold and split (Eqs. 6–8), or over what is left open when one or both are given.

    - ``deployment``: a shipped name, a file or a record; a scenario stands for the deployment in it. Default: that of
      the scenario given as ``workload``, else the paper's, ``prfaas-pd``.
    - ``workload``: a shipped scenario, a scenario file or record (its nominal workload), a file with the laws
      ``lengths`` and ``output_tokens``, or anything with laws of these names. Default: the paper's,
      ``paper-stationary``.
    - ``form``, ``n_prefill``, ``threshold_tokens``: see :func:`prfaas_env.theory.plan.plan`.

    Raises :class:`ConfigError` on a name that nothing bears, a bad file, and a setting that the deployment cannot have.
    """
    place, traffic = planned(deployment, workload)
    return closed_form.plan(place, traffic, form=form, n_prefill=n_prefill, threshold_tokens=threshold_tokens)


def planned(
    deployment: Place | None = None, workload: Traffic | None = None
) -> tuple[Deployment, HasLengths | HasNominal]:
    """The records behind the arguments of :func:`plan`. Raises :class:`ConfigError`."""
    traffic = _traffic(DEFAULT_WORKLOAD if workload is None else workload)
    if deployment is None:
        deployment = traffic if isinstance(traffic, Scenario) else DEFAULT_DEPLOYMENT
    return _place(deployment), traffic


def _place(deployment: Place) -> Deployment:
    if isinstance(deployment, (str, Path)):
        deployment = load_scenario(deployment) if _names_a_scenario(deployment) else load_deployment(deployment)
    if isinstance(deployment, Scenario):
        return deployment.deployment
    if not isinstance(deployment, Deployment):
        raise ConfigError(
            f"deployment: expected a name, a path, a Deployment or a Scenario, got {type(deployment).__name__}"
        )
    return deployment


def _names_a_scenario(name_or_path: str | Path) -> bool:
    if str(name_or_path) in names("scenarios"):
        return str(name_or_path) not in names("deployments")
    plain = read_yaml(locate("deployments", name_or_path))
    if not isinstance(plain, Mapping):
        return False
    return not _ONLY_IN_SCENARIOS.isdisjoint(plain) or plain.get("extends") in names("scenarios")


def _traffic(workload: Traffic) -> HasLengths | HasNominal:
    if not isinstance(workload, (str, Path)):
        return workload
    path = locate("scenarios", workload)
    plain = read_yaml(path)
    if isinstance(plain, Mapping) and "lengths" in plain:
        return from_mapping(NominalWorkload, plain, f"{path}: ")
    return load_scenario(workload)
