"""Public models: KV sizes from their geometry, prefill times from the paper's Table 3, and what profiles derive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.model_pages import COMMAND, FOLDER, PAGES
from prfaas_env.attention import ARCHITECTURES, Architecture, GroupedQuery, Layers, Window, architecture
from prfaas_env.config import ConfigError
from prfaas_env.profile_files import quadratic_s, with_ratio
from prfaas_env.profiles import MIB, PrefillTable, load_profile
from prfaas_env.resources import names
from prfaas_env.theory.closed_form import kv_throughput_bps

K = 1024
LENGTHS = np.array([1, 8, 32, 128]) * K

# Φ_kv in Gbps at 1K, 8K, 32K and 128K on one 8×H200 instance: PrfaaS (arXiv:2604.15039v2), Table 3.
TABLE_3 = {
    "kimi-linear-48b": (1.19, 2.29, 3.87, 4.88),
    "mimo-v2-flash": (0.82, 2.85, 4.66, 4.71),
    "qwen3.5-397b": (4.13, 6.28, 8.25, 7.47),
    "ring-2.5-1t": (7.27, 4.47, 2.59, 1.46),
    "minimax-m2.5": (4.94, 32.87, 59.93, 47.82),
    "qwen3-235b": (4.12, 22.42, 33.35, 21.50),
}

# Bytes at 1K, 8K, 32K and 128K, reckoned by hand from the published configurations.
KV_BYTES = {
    "kimi-linear-48b": (51_675_136, 109_477_888, 307_658_752, 1_100_382_208),
    "mimo-v2-flash": (49_152_000, 214_302_720, 780_533_760, 3_045_457_920),
    "qwen3.5-397b": (223_518_720, 443_719_680, 1_198_694_400, 4_218_593_280),
    "ring-2.5-1t": (305_397_760, 387_973_120, 671_088_640, 1_803_550_720),
    "minimax-m2.5": (260_046_848, 2_080_374_784, 8_321_499_136, 33_285_996_544),
    "qwen3-235b": (197_132_288, 1_577_058_304, 6_308_233_216, 25_232_932_864),
}

DERIVED = sorted(name for name in names("hardware_profiles") if not name.startswith("hybrid-1t"))


@pytest.mark.parametrize("name", PAGES)
def test_page_and_pictures_are_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), f"run `{COMMAND}`"


@pytest.mark.parametrize("model", KV_BYTES)
def test_kv_size_to_the_byte(model: str) -> None:
    assert architecture(model).size_bytes(LENGTHS).tolist() == list(KV_BYTES[model])


@pytest.mark.parametrize("name", DERIVED)
def test_profiles_have_the_kv_size_of_their_geometry(name: str) -> None:
    profile = load_profile(name)
    assert profile.kv == architecture(profile.model).kv_size
    assert profile.attention == ("hybrid" if architecture(profile.model).other_layers else "full")


def test_geometry_of_the_case_study_is_table_5() -> None:
    geometry = ARCHITECTURES["hybrid-1t"]
    assert [f"{size / MIB:.1f}" for size in geometry.size_bytes(LENGTHS[:2])] == ["190.8", "308.9"]
    # The longer rows mean slightly shorter prompts: these give the printed sizes.
    assert [f"{size / MIB:.1f}" for size in geometry.size_bytes(np.array([32_003, 130_003]))] == ["701.3", "2316.3"]
    stated = load_profile("hybrid-1t-8xh200").kv
    assert stated.size_bytes(LENGTHS) == pytest.approx(geometry.size_bytes(LENGTHS), rel=2e-6)


def test_a_window_counts_only_as_far_as_the_prompt_goes() -> None:
    geometry = Architecture((Layers(3, GroupedQuery(1, 4, 4)), Layers(2, Window(1, 4, 4, window_tokens=10))), "made up")
    assert geometry.size_bytes(np.array([0, 4, 10, 11])).tolist() == [0, 16 * 5 * 4, 16 * 5 * 10, 16 * (5 * 10 + 3)]
    assert (geometry.bytes_per_token, geometry.fixed_bytes) == (48, 320)


@pytest.mark.parametrize("model", TABLE_3)
def test_profiles_give_back_table_3(model: str) -> None:
    profile = load_profile(f"{model}-8xh200")
    phi_gbps = kv_throughput_bps(8 * profile.kv.size_bytes(LENGTHS), profile.prefill.time_s(LENGTHS)) / 1e9
    assert phi_gbps == pytest.approx(TABLE_3[model], rel=0.0015)  # times are stated with three or four digits


# Eq. 2: what 512 H200 send at 32K, in Gbps (paper section 2).
@pytest.mark.parametrize(("model", "gbps"), [("minimax-m2.5", 3800), ("qwen3-235b", 2100), ("ring-2.5-1t", 170)])
def test_egress_of_512_h200(model: str, gbps: float) -> None:
    profile = load_profile(f"{model}-8xh200")
    egress_bps = 512 / 8 * kv_throughput_bps(8 * profile.kv.size_bytes(32 * K), profile.prefill.time_s(32 * K))
    assert float(egress_bps) / 1e9 == pytest.approx(gbps, rel=0.05)


@pytest.mark.parametrize("name", names("hardware_profiles"))
def test_prefill_bends_upward_with_length(name: str) -> None:
    """Attention makes the next token dearer than the last, so that above 8K, where the constant counts little, slopes
    grow from knot to knot.
    """
    table = load_profile(name).prefill
    lengths, times = np.array(table.lengths_tokens), np.array(table.times_s)
    slopes = np.diff(times) / np.diff(lengths)
    above = slopes[lengths[:-1] >= 8 * K]
    assert len(above) >= 2
    assert (np.diff(above) > 0).all()


def test_kimi_linear_agrees_with_an_independent_measurement() -> None:
    """The H100 has the dense FLOPS of the H200, so that times should be alike but for the constant."""
    measured = load_profile("kimi-linear-48b-8xh100").prefill.time_s(LENGTHS)
    implied = load_profile("kimi-linear-48b-8xh200").prefill.time_s(LENGTHS)
    physical = load_profile("kimi-linear-48b-8xh200-physical").prefill.time_s(LENGTHS)
    assert (implied - measured > 0.19).all()
    assert (implied - measured < 0.29).all()
    assert physical == pytest.approx(measured, rel=0.10)


@pytest.mark.parametrize("model", TABLE_3)
def test_h20_is_slower_as_the_case_study_has_it(model: str) -> None:
    ratio = load_profile(f"{model}-8xh20").prefill.time_s(LENGTHS) / load_profile(f"{model}-8xh200").prefill.time_s(
        LENGTHS
    )
    assert ratio == pytest.approx([0.886 / 0.44, 1.559 / 0.72, 4.771 / 1.84, 23.43 / 7.40])
    assert load_profile(f"{model}-8xh20").provenance["prefill"].how == "assumed"


def test_physical_times_on_h20_lose_the_constant_first() -> None:
    slow, fast = load_profile("kimi-linear-48b-8xh20-physical"), load_profile("kimi-linear-48b-8xh200-physical")
    assert slow.prefill.time_s(LENGTHS) / fast.prefill.time_s(LENGTHS) == pytest.approx(
        [0.886 / 0.44, 1.559 / 0.72, 4.771 / 1.84, 23.43 / 7.40]
    )


def test_ratio_of_linear_to_full_layers() -> None:
    geometry = ARCHITECTURES["hybrid-1t"]
    counts = {n: (a.full_layers, a.other_layers) for n, a in ((n, geometry.with_ratio(n)) for n in (0, 1, 3, 7, 56))}
    assert counts == {0: (57, 0), 1: (29, 28), 3: (15, 42), 7: (8, 49), 56: (1, 56)}
    assert geometry.with_ratio(3).kv_size == geometry.kv_size
    assert ARCHITECTURES["kimi-linear-48b"].with_ratio(3).full_layers == 7
    assert ARCHITECTURES["ring-2.5-1t"].with_ratio(7).full_layers == 10


def test_only_the_quadratic_part_of_prefill_follows_the_ratio() -> None:
    a, b, c = 0.3, 5e-5, 2e-10
    profile = load_profile("hybrid-1t-8xh200")
    exact = replace(
        profile,
        prefill=PrefillTable(profile.prefill.lengths_tokens, tuple((a + b * LENGTHS + c * LENGTHS**2.0).tolist())),
    )
    assert quadratic_s(exact.prefill) == pytest.approx(c, rel=1e-6)
    fewer = with_ratio(exact, ARCHITECTURES["hybrid-1t"], 7)
    assert fewer.prefill.times_s == pytest.approx(a + b * LENGTHS + 8 / 15 * c * LENGTHS**2.0)
    assert fewer.provenance["prefill"].how == "assumed"
    same = with_ratio(profile, ARCHITECTURES["hybrid-1t"], 3)
    assert same.prefill.times_s == pytest.approx(profile.prefill.times_s, rel=1e-12)


SAID = "provenance: {prefill: {source: s, how: assumed, date: d}, kv: {source: s, how: assumed, date: d}}\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("extends: hybrid-1t-8xh20\nprefill: {less_s: 0.1}", r"provenance\.prefill: missing key \(this file changes"),
        ("extends: hybrid-1t-8xh20\narchitecture: hybrid-1t", r"provenance\.kv: missing key"),
        (f"{SAID}extends: hybrid-1t-8xh20\narchitecture: kimi-48b", "unknown architecture .kimi-48b.; did you mean"),
        (f"{SAID}extends: hybrid-1t-8xh20\narchitecture: hybrid-1t\nkv: {{fixed_mib: 1}}", "it or 'kv', not both"),
        ("extends: hybrid-1t-8xh20\nlinear_per_full: 3", "linear_per_full: needs 'architecture'"),
        ("extends: qwen3-235b-8xh20\nlinear_per_full: 3", "linear_per_full: expected one group of full and one of"),
        ("extends: ring-2.5-1t-8xh20\nlinear_per_full: 1.5", "linear_per_full: expected a whole number ≥ 0, got 1.5"),
        (f"{SAID}extends: hybrid-1t-8xh20\nprefill: {{less_s: 0.9}}", r"prefill: after less_s and scale, times_s\[0\]"),
        (f"{SAID}extends: hybrid-1t-8xh20\nprefill: {{lesss: 0.1}}", "lesss: unknown key"),
        (
            f"{SAID}extends: hybrid-1t-8xh20\nprefill: {{scale: {{from_profile: x, to_profile: y}}}}",
            r"prefill\.scale\.from_profile: unknown profile 'x'",
        ),
        (
            f"{SAID}extends: hybrid-1t-8xh20\nprefill: {{scale: {{from_profile: mine.yaml, to_profile: mine.yaml}}}}",
            r"prefill\.scale: goes in a circle",
        ),
        ("- 1", "expected a mapping of keys"),
    ],
)
def test_bad_profile_files_are_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_profile(tmp_path / "mine.yaml")
    assert "\n" not in str(caught.value)
    assert "mine.yaml" in str(caught.value)


def test_figures_of_ones_own_replace_derived_ones(tmp_path: Path) -> None:
    changes = "prefill: {times_s: [1, 2, 4, 16]}\nkv: {fixed_mib: 1, bytes_per_token: 2}\n"
    text = f"extends: kimi-linear-48b-8xh20-physical\n{SAID}{changes}"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    mine = load_profile(tmp_path / "mine.yaml")
    assert mine.prefill.times_s == (1, 2, 4, 16)
    assert (mine.kv.fixed_mib, mine.kv.bytes_per_token) == (1, 2)
