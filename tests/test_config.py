"""Records, the loader and its refusals: one line each, naming the file, the key, what was expected and what is near."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from prfaas_env.config import (
    ConfigError,
    Range,
    Record,
    _Loader,
    content_hash,
    from_mapping,
    merge,
    nearest,
    read_yaml,
    to_mapping,
    to_yaml,
)
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.profiles import Profile, load_profile
from prfaas_env.resources import names


@dataclass(frozen=True)
class Square(Record):
    kind: ClassVar[str] = "square"
    side_m: Annotated[float, Range(gt=0, le=10)]


@dataclass(frozen=True)
class Disc(Record):
    kind: ClassVar[str] = "disc"
    radius_m: Annotated[float, Range(gt=0)]


@dataclass(frozen=True)
class Garden(Record):
    beds: tuple[Square | Disc, ...]
    trees: Annotated[int, Range(ge=0)] = 0
    soil: Literal["sand", "clay"] = "clay"
    pond_m: Annotated[float, Range(gt=0)] | None = None
    open: bool = True

    def check(self) -> None:
        if self.soil == "sand" and self.trees > 3:
            raise ConfigError("trees: expected at most 3 on sand")


GOOD: dict[str, Any] = {"beds": [{"kind": "square", "side_m": 2}, {"kind": "disc", "radius_m": 1.5}], "trees": 2.0}


def test_plain_values_become_what_the_annotation_says() -> None:
    garden = from_mapping(Garden, GOOD)
    assert garden == Garden(beds=(Square(2.0), Disc(1.5)), trees=2)
    assert type(garden.trees) is int
    assert type(garden.beds[0].side_m) is float  # type: ignore[union-attr]
    assert from_mapping(Garden, to_mapping(garden)) == garden


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tres": 1}, "garden.yaml: tres: unknown key; did you mean 'trees'?"),
        ({"zzz": 1}, "garden.yaml: zzz: unknown key; valid: beds, open, pond_m, soil, trees"),
        ({"trees": -1}, "garden.yaml: trees: expected a whole number ≥ 0, got -1"),
        ({"trees": 1.5}, "garden.yaml: trees: expected a whole number, got 1.5"),
        ({"trees": True}, "garden.yaml: trees: expected a whole number, got True"),
        ({"trees": float("inf")}, "garden.yaml: trees: expected a whole number, got inf"),
        ({"pond_m": float("nan")}, "garden.yaml: pond_m: expected a number, got nan"),
        ({"pond_m": "deep"}, "garden.yaml: pond_m: expected a number, got 'deep'"),
        ({"soil": "cley"}, "garden.yaml: soil: expected one of 'sand', 'clay', got 'cley'; did you mean 'clay'?"),
        ({"open": "yes"}, "garden.yaml: open: expected true or false, got 'yes'"),
        ({"beds": 3}, "garden.yaml: beds: expected a list of a mapping of kind disc, square, got 3"),
        ({"beds": [{"side_m": 1}]}, "garden.yaml: beds[0]: missing key 'kind'; valid kinds: disc, square"),
        ({"beds": [{"kind": "sqare"}]}, "garden.yaml: beds[0].kind: unknown kind 'sqare'; did you mean 'square'?"),
        ({"beds": [{"kind": "disc"}]}, "garden.yaml: beds[0].radius_m: missing key (a number > 0)"),
        (
            {"beds": [{"kind": "square", "side_m": 11}]},
            "garden.yaml: beds[0].side_m: expected a number > 0 and ≤ 10, got 11.0",
        ),
        ({"beds": [{"kind": ["disc"]}]}, "garden.yaml: beds[0].kind: unknown kind ['disc']; did you mean 'disc'?"),
        ({"beds": [{"kind": None}]}, "garden.yaml: beds[0].kind: unknown kind None; valid: disc, square"),
        ({"soil": ["clay"]}, "garden.yaml: soil: expected one of 'sand', 'clay', got ['clay']"),
        ({"pond_m": 10**400}, f"garden.yaml: pond_m: expected a number, got 1{'0' * 56}..."),
        ({"trees": 10**400}, f"garden.yaml: trees: expected a whole number, got 1{'0' * 56}..."),
        ({"trees": 2.0**63}, "garden.yaml: trees: expected a whole number, got 9.223372036854776e+18"),
        ({"pond_m": -float("inf")}, "garden.yaml: pond_m: expected a number, got -inf"),
        ({"two\nlines": 1}, "garden.yaml: 'two\\nlines': unknown key; valid: beds, open, pond_m, soil, trees"),
        ({"soil": "sand", "trees": 4}, "garden.yaml: trees: expected at most 3 on sand"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_mapping(Garden, GOOD | change, "garden.yaml: ")
    assert str(refused.value) == message


def test_a_number_too_long_to_write_out_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="trees: expected a whole number, got a number of thousands of digits"):
        from_mapping(Garden, GOOD | {"trees": 10**5000})


@pytest.mark.parametrize("source", [None, 3, "text", [1, 2]])
def test_what_is_no_mapping_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"garden\.yaml: expected a mapping of keys"):
        from_mapping(Garden, source, "garden.yaml: ")


def test_all_missing_keys_of_a_record_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        from_mapping(Profile, {"name": "mine", "model": "m"}, "mine.yaml: ")
    said = str(refused.value)
    assert said.startswith("mine.yaml: missing keys: instance (text), context_limit_tokens (a whole number ≥ 1), ")
    assert "kv (a mapping with fixed_mib, bytes_per_token)" in said
    assert "attention" not in said  # it has a default


def test_a_record_is_shown_as_the_file_would_have_it() -> None:
    with pytest.raises(ConfigError, match=r"^pond_m: expected a number, got \{'kind': 'square', 'side_m': 1.0\}$"):
        from_mapping(Garden, GOOD | {"pond_m": Square(1.0)})


def test_a_record_made_in_python_is_held_to_the_same_rules() -> None:
    with pytest.raises(ConfigError, match="side_m: expected a number > 0 and ≤ 10, got -1"):
        Square(-1.0)
    with pytest.raises(ConfigError, match="side_m: expected a number > 0 and ≤ 10"):
        replace(Square(1.0), side_m=99.0)


scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=8)
scalars |= st.sampled_from([10**400, -(10**400), 2**63, "disc", "square"])
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6) | st.sampled_from(["kind", "side_m", "radius_m"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["beds", "trees", "soil", "pond_m", "open", "x"]), trees))
def test_whatever_is_read_it_is_a_record_or_one_line(source: dict[str, Any]) -> None:
    message = ""
    try:
        garden = from_mapping(Garden, source, "garden.yaml: ")
    except ConfigError as refused:
        message = str(refused)
    if message:
        assert message.startswith("garden.yaml: ")
        assert len(message.splitlines()) == 1
    else:
        assert from_mapping(Garden, to_mapping(garden)) == garden


def test_nearest() -> None:
    assert nearest("prfas-pd", names("deployments")) == "; did you mean 'prfaas-pd'?"
    assert nearest("zzzzzz", ["b", "a"]) == "; valid: a, b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1, 2", "not valid YAML"),
        (b"\xff\xfe\x00", "not valid YAML"),
        ("a: 2026-13-40", "not valid YAML"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("a: " + "[" * 1000, "not valid YAML"),
        (None, "cannot be read"),
        ("a: 1\nb: 2\na: 3\n", "line 3: a: key given twice"),
        ("a:\n  - {b: 1, c: 2, 'b': 1}\n", "line 2: b: key given twice"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    path = tmp_path / "broken.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=f"broken.yaml: {message}") as refused:
        read_yaml(path)
    assert "\n" not in str(refused.value)


@given(st.from_regex(r"\A[-+.:_0-9a-fox]{1,12}\Z"))
@example("12e456789012")
@example("0o17")
def test_text_that_looks_like_a_number_is_read_as_written(text: str) -> None:
    content = {text: [text, 1, 1e-9, 1e300, True, None]}
    assert yaml.load(to_yaml(content), _Loader) == content


def test_anchors_may_be_merged_and_overridden(tmp_path: Path) -> None:
    path = tmp_path / "merged.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")
    assert read_yaml(path)["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize("number", [".nan", "-.inf", "nan", "inf", "1" + "0" * 400])
def test_what_is_no_finite_number_is_refused_from_a_file(tmp_path: Path, number: str) -> None:
    path = tmp_path / "garden.yaml"
    path.write_text(f"beds: []\npond_m: {number}\n")
    with pytest.raises(ConfigError, match=r"^garden: pond_m: expected a number, got .{3,60}$"):
        from_mapping(Garden, read_yaml(path), "garden: ")


def test_merging_goes_key_by_key() -> None:
    base = {"a": 1, "b": {"c": 2, "d": [3, 4]}, "bed": Square(2.0)}
    assert merge(base, {"b": {"d": [5]}, "e": 6}) == {**base, "b": {"c": 2, "d": [5]}, "e": 6}
    assert merge(base, {"bed": {"side_m": 3}})["bed"] == {"kind": "square", "side_m": 3}
    assert merge(base, {"bed": {"kind": "disc", "radius_m": 1}})["bed"] == {"kind": "disc", "radius_m": 1}
    assert merge(base, {"b": {"extends": "x"}})["b"] == {"extends": "x"}
    assert merge(base, {"b": None})["b"] is None


def test_a_deployment_file_may_extend_another(tmp_path: Path) -> None:
    (tmp_path / "thin.yaml").write_text("extends: prfaas-pd\nname: thin\nlink: {capacity_gbps: 10}\n")
    (tmp_path / "deep").mkdir()
    own = tmp_path / "deep" / "own.yaml"
    own.write_text("extends: ../thin.yaml\nname: own\nlocal: {profile: {decode: {slots: 8}}}\n")
    base, deployment = load_deployment("prfaas-pd"), load_deployment(own)
    assert base.link is not None
    assert deployment.link == replace(base.link, capacity_gbps=10.0)
    assert deployment.local.profile == replace(base.local.profile, decode=replace(base.local.profile.decode, slots=8))
    assert replace(deployment, name=base.name, link=base.link, local=base.local) == base
    own.write_text("extends: own.yaml\nname: own\n")
    with pytest.raises(ConfigError, match=r"own.yaml: extends: goes in a circle"):
        load_deployment(own)
    own.write_text("extends: prfas-pd\nname: own\n")
    with pytest.raises(
        ConfigError, match=r"own.yaml: extends: unknown deployment 'prfas-pd'; did you mean 'prfaas-pd'"
    ):
        load_deployment(own)


def test_hash_changes_with_any_value_and_with_nothing_else() -> None:
    deployment = load_deployment("prfaas-pd")
    assert content_hash(deployment) == content_hash(load_deployment("prfaas-pd"))
    profile = deployment.local.profile
    other = replace(profile, prefill=replace(profile.prefill, times_s=(0.886, 1.559, 4.771, 23.44)))
    changed = [
        replace(deployment, conversion_s=31.0),
        deployment.with_split(4),
        replace(deployment, local=replace(deployment.local, profile=other)),
    ]
    assert len({content_hash(d) for d in [deployment, *changed]}) == 4


@pytest.mark.parametrize("name", names("hardware_profiles"))
def test_shipped_profiles_survive_a_round_trip(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert from_mapping(Profile, yaml.safe_load(yaml.safe_dump(to_mapping(profile)))) == profile


@pytest.mark.parametrize("name", names("deployments"))
def test_shipped_deployments_survive_a_round_trip(name: str) -> None:
    deployment = load_deployment(name)
    assert deployment.name == name
    assert from_mapping(Deployment, yaml.safe_load(yaml.safe_dump(to_mapping(deployment)))) == deployment


def test_numbers_are_read_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "numbers.yaml"
    path.write_text("[1e2, 1e-3, 1.5E+3, .5, 1., 1:30, 010, 0x10, 1_000, -3]", encoding="utf-8")
    assert read_yaml(path) == [100.0, 0.001, 1500.0, 0.5, 1.0, "1:30", 10, 16, 1000, -3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: &x [*x]", "inside what it stands for"),
        ("a: &x {b: *x}", "inside what it stands for"),
        ("[" * 5000 + "]" * 5000, "not valid YAML"),
        (
            "\n".join(
                f"{name}: &{name} [{', '.join(['*' + below] * 11)}]"
                for below, name in zip("abcdef", "bcdefg", strict=True)
            ).replace("*a", "1"),
            "more than 1,000,000 values",
        ),
    ],
)
def test_files_that_contain_themselves_or_far_too_much_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "nested.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_yaml(path)


@dataclass(frozen=True)
class Labelled(Record):
    name: str
    tags: tuple[str, ...] = ()
    wait_s: float = 0.0
    pauses_s: tuple[float, ...] = ()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"name": ""}, "name: expected printable text"),
        ({"name": "two\nlines"}, "name: expected printable text"),
        ({"name": "a", "tags": ["\ud800"]}, r"tags\[0\]: expected text that can be written as UTF-8"),
        ({"name": "a", "tags": {"a": 1}}, "tags: expected a list"),
        ({"name": "a", "tags": {"a"}}, "tags: expected a list"),
        ({"name": "a", "wait_s": 2e9}, "wait_s: expected at most 1e"),
        ({"name": "a", "pauses_s": [1.0, 2e9]}, "pauses_s: expected at most 1e"),
    ],
)
def test_labels_lists_and_units_have_bounds(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_mapping(Labelled, source)
