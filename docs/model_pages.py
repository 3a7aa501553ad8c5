"""``python -m docs.model_pages``: the page of public models and its two pictures, from the shipped profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from docs.line_chart import line_chart
from prfaas_env.attention import ARCHITECTURES, Architecture, GroupedQuery, Latent, Window
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.profile_files import quadratic_s, with_ratio
from prfaas_env.profiles import Profile, load_profile
from prfaas_env.resources import names
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.theory.closed_form import kv_throughput_bps
from prfaas_env.theory.plan import Plan, plan

__all__ = ["FOLDER", "PAGES", "link_picture", "models_page", "ratio_picture"]

FOLDER = Path(__file__).resolve().parent
COMMAND = "python -m docs.model_pages"

LENGTHS = np.array([1, 8, 32, 128]) * 1024.0
CASE_STUDY = "hybrid-1t"
RATIOS = (1, 3, 7)
NO_LIMIT_GBPS = 1e9
ENOUGH = 0.95  # of the rate without a limit

# How sure we are that KV is counted as in the paper's Table 3, so that the implied times are its times: a judgement,
# from where the geometry was found and how plausible the implied times are.
CONFIDENCE = {
    "kimi-linear-48b": 0.9,
    "mimo-v2-flash": 0.75,
    "qwen3.5-397b": 0.9,
    "ring-2.5-1t": 0.85,
    "minimax-m2.5": 0.95,
    "qwen3-235b": 0.9,
}

HEAD = f"""\
# Public models

<!-- Written by `{COMMAND}` from hardware_profiles/ and prfaas_env/attention.py. -->

What six public models and the case study's 1T model ask of a link. Lengths are in K = 1024 tokens, MB are decimal.
Figures carry their source: **M** measured, **D** derived from something measured or published, **C** calibrated,
**A** assumed; the file of each profile in [`hardware_profiles/`](../hardware_profiles) says in words from what.

## On one instance of 8×H200

S_kv follows from the published configuration, one formula a kind of attention
([`attention.py`](../prfaas_env/attention.py)): KV and convolution windows in bf16, recurrent states in fp32; the
geometry of the 1T model is inferred from its sizes. T_prefill is S_kv / Φ_kv with Φ_kv as the paper measured it
(arXiv:2604.15039v2, Table 3), and measured for the 1T model (Table 5). Φ_kv here is what the profiles give back
(**D**). *Confidence* is our own judgement, from 0 to 1, that the paper counts KV as we do.
"""

CAUTION = """\
**Caution.** All times contain a constant of 0.3 to 0.4 s of unknown origin. It belongs to the paper's measurement:
prefills measured by others are shorter. The profiles keep it, so that the paper's figures come out; each public model
has a `-8xh200-physical` variant without it (0.28 s less), which does not give back Table 3. Kimi Linear is the one
model that can be checked: others measured it on 8×H100, whose dense FLOPS are those of the H200.
"""

OTHERS = """\
## On other accelerators

No prefill of these models on H20 is public. The `-8xh20` profiles take for granted that each slows down from H200 to
H20 as the case study's model does, at each length (2.0 times at 1K to 3.2 at 128K; itself a calibration to the
paper's Table 6). The ratio of dense FLOPS, 6.7, is no guide: it contradicts the calibration at every length. For the
same reason there are no profiles of B200, of which only peak rates are public, nor of H100 beside the one
measurement. Decode figures of all public models are the case study's (**A**), so that only prefill and KV differ.
Φ_kv is **D** throughout.
"""

LINK = """\
## Which model a link limits

The paper's deployment (4 × 8×H200 remote, 8 × 8×H20 local) and traffic, with each model in turn, threshold and split
re-solved at every capacity by the [closed form](closed-form.md). *Needs* is the least capacity that sustains 95 % of
what a link without limit would. All of it is **D**, and no surer than the H20 times it rests on (**A**; of the 1T
model **C**). The curves have flat parts where decode limits at one N_p and the next one does not pay yet.

![Sustained rate relative to an unlimited link, over link capacity, a curve a model](images/models-link.svg)
"""

RATIO = """\
## The ratio of linear to full attention

The 1T model with its 57 layers divided anew: full attention in every second, fourth or eighth layer, and in the last.
S_kv follows from the geometry (**D**). Prefill time is an assumption (**A**): of T = a + b L + c L², fitted to the
profile with relative weights, a and b stay and c goes with the number of full layers; on H20 likewise. Projections
and experts, which a layer has whatever its attention, are in b; that a linear layer costs as much per token as a full
one without its quadratic part is what is taken for granted. The same in a profile of one's own: `linear_per_full`
([files](files.md)).

![KV throughput over prompt length for three ratios of linear to full layers](images/models-ratio.svg)
"""


def models_page() -> str:
    """The page in Markdown."""
    link_head = (
        "| model | Λ_max without limit, req/s | limited by | egress then, Gbps | needs, Gbps | Λ_max at 100 Gbps |"
    )
    ratio_head = (
        "| linear : full | layers | S_kv(32K), MB | T_prefill(32K), s | Φ_kv(32K), Gbps | t, tokens | Λ_max, req/s |"
    )
    return "\n".join(
        [
            HEAD,
            "| model | layers | S_kv at 1K / 8K / 32K / 128K, MB | T_prefill, s | Φ_kv, Gbps | confidence |",
            "|---|---|---|---|---|---|",
            *map(_model_row, ARCHITECTURES),
            "",
            CAUTION,
            "| Kimi Linear | 1K | 8K | 32K | 128K |",
            "|---|---|---|---|---|",
            *_kimi_rows(),
            "",
            OTHERS,
            "| profile | T_prefill at 1K / 8K / 32K / 128K, s | Φ_kv, Gbps |",
            "|---|---|---|",
            *_other_rows(),
            "",
            LINK,
            link_head,
            "|---|---|---|---|---|---|",
            *map(_link_row, ARCHITECTURES),
            "",
            RATIO,
            f"{ratio_head} egress, Gbps |",
            "|---|---|---|---|---|---|---|---|",
            *map(_ratio_row, RATIOS),
            "",
            f"Rates are those of the paper's deployment with its link of 100 Gbps. {_quadratic_share()}",
            "",
        ]
    )


def link_picture() -> str:
    """Λ_max relative to an unlimited link, over capacity."""
    capacities = np.geomspace(1.0, 1000.0, 41)
    curves = {model: (capacities, [_served(model, float(gbps)) for gbps in capacities]) for model in ARCHITECTURES}
    ticks = {1.0: "1", 3.0: "3", 10.0: "10", 30.0: "30", 100.0: "100", 300.0: "300", 1000.0: "1000"}
    shares = {share / 10: f"{share * 10} %" for share in range(3, 11)}
    return line_chart(curves, "link capacity, Gbps", "Λ_max relative to an unlimited link", ticks, shares)


def ratio_picture() -> str:
    """Φ_kv over length at each ratio."""
    lengths = np.geomspace(LENGTHS[0], LENGTHS[-1], 61)
    curves = {f"{n}:1": (lengths, (_phi_bps(_divided(n)[0], lengths) / 1e9).tolist()) for n in RATIOS}
    ticks = {1024.0 * 2**power: f"{2**power}K" for power in range(8)}
    return line_chart(curves, "prompt length, tokens", "Φ_kv of 8×H200, Gbps", ticks, {y: f"{y}" for y in range(7)})


def _model_row(model: str) -> str:
    profile, geometry = _profile(f"{model}-8xh200"), ARCHITECTURES[model]
    size = _list(profile.kv.size_bytes(LENGTHS) / 1e6)
    times = _list(profile.prefill.time_s(LENGTHS))
    sure = f"{CONFIDENCE[model]:g}" if model in CONFIDENCE else "–"
    phi = _list(_phi_bps(profile, LENGTHS) / 1e9)
    size, times = f"{size} {_tag(profile, 'kv')}", f"{times} {_tag(profile, 'prefill')}"
    return f"| {model} | {_layers(geometry)} | {size} | {times} | {phi} | {sure} |"


def _kimi_rows() -> Iterator[str]:
    for name in ("8xh200", "8xh100", "8xh200-physical"):
        profile = _profile(f"kimi-linear-48b-{name}")
        times = " | ".join(f"{time:.3f}" for time in profile.prefill.time_s(LENGTHS))
        yield f"| T_prefill of `{name}`, s {_tag(profile, 'prefill')} | {times} |"


def _other_rows() -> Iterator[str]:
    for name in names("hardware_profiles"):
        profile = _profile(name)
        if not name.endswith("8xh200"):
            times = _list(profile.prefill.time_s(LENGTHS))
            yield f"| `{name}` | {times} {_tag(profile, 'prefill')} | {_list(_phi_bps(profile, LENGTHS) / 1e9)} |"


def _link_row(model: str) -> str:
    free, paper = _planned(model, NO_LIMIT_GBPS), _planned(model, 100.0)
    low, high = 1.0, 1000.0
    while high / low > 1.01:  # the rate rises with capacity
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _served(model, middle) >= ENOUGH else (middle, high)
    rates = f"{free.lambda_max_rps:.2f} | {free.binding_stage} | {free.egress_gbps:.1f}"
    return f"| {model} | {rates} | {high:.{0 if high > 20 else 1}f} | {paper.lambda_max_rps:.2f} |"


def _ratio_row(linear_per_full: int) -> str:
    remote, local = _divided(linear_per_full)
    geometry = ARCHITECTURES[CASE_STUDY].with_ratio(linear_per_full)
    found = plan(_deployment(remote, local, 100.0), _traffic())
    length = 32 * 1024
    figures = [
        f"{linear_per_full}:1",
        _layers(geometry),
        f"{float(remote.kv.size_bytes(length)) / 1e6:.0f} {_tag(remote, 'kv')}",
        f"{float(remote.prefill.time_s(length)):.2f} {_tag(remote, 'prefill')}",
        f"{float(_phi_bps(remote, np.array(length))) / 1e9:.2f}",
        f"{found.threshold_tokens:.0f}",
        f"{found.lambda_max_rps:.2f}",
        f"{found.egress_gbps:.1f}",
    ]
    return f"| {' | '.join(figures)} |"


def _quadratic_share() -> str:
    shares = []
    for instance in ("8xh200", "8xh20"):
        table, longest = _profile(f"{CASE_STUDY}-{instance}").prefill, float(LENGTHS[-1])
        shares.append(f"{quadratic_s(table) * longest**2 / float(table.time_s(longest)):.0%} on `{instance}`")
    return f"At 3:1 and 128K, c L² is {' and '.join(shares)} of T: all that the ratio changes of it."


def _divided(linear_per_full: int) -> tuple[Profile, Profile]:
    """The case study's remote and local profile at a ratio; its own at that of its geometry."""
    pair = (_profile(f"{CASE_STUDY}-8xh200"), _profile(f"{CASE_STUDY}-8xh20"))
    remote, local = (with_ratio(profile, ARCHITECTURES[CASE_STUDY], linear_per_full) for profile in pair)
    return remote, local


def _deployment(remote: Profile, local: Profile, capacity_gbps: float) -> Deployment:
    paper = load_deployment("prfaas-pd")
    assert paper.remote is not None
    assert paper.link is not None
    return replace(
        paper,
        remote=replace(paper.remote, profile=remote),
        local=replace(paper.local, profile=local),
        link=replace(paper.link, capacity_gbps=capacity_gbps),
    )


_profile = cache(load_profile)


@cache
def _traffic() -> Scenario:
    return load_scenario("paper-stationary")


@cache
def _planned(model: str, capacity_gbps: float) -> Plan:
    pair = (_profile(f"{model}-8xh200"), _profile(f"{model}-8xh20"))
    return plan(_deployment(*pair, capacity_gbps), _traffic())


def _served(model: str, capacity_gbps: float) -> float:
    return _planned(model, capacity_gbps).lambda_max_rps / _planned(model, NO_LIMIT_GBPS).lambda_max_rps


def _phi_bps(profile: Profile, lengths: np.ndarray) -> np.ndarray:
    return kv_throughput_bps(8.0 * profile.kv.size_bytes(lengths), profile.prefill.time_s(lengths))


def _layers(geometry: Architecture) -> str:
    words = {GroupedQuery: "GQA", Latent: "MLA", Window: "window"}
    return " : ".join(f"{g.layers} {words.get(type(g.attention), 'linear')}" for g in geometry.groups)


def _tag(profile: Profile, group: str) -> str:
    return f"**{profile.provenance[group].how[0].upper()}**"


def _list(values: Sequence[float] | np.ndarray) -> str:
    return " / ".join(f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in values)


PAGES = {"models.md": models_page, "images/models-link.svg": link_picture, "images/models-ratio.svg": ratio_picture}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
