"""Typed, frozen, range-checked records and the one loader that reads them from YAML.

Every file of the project (profile, deployment, scenario, policy parameters) is a mapping that becomes a frozen
dataclass. A field's annotation says its type and its range (``Annotated[float, Range(gt=0)]``); the check runs on
construction, so a record made in Python is held to the same rules as one read from a file. Unknown keys are refused
with the nearest valid one, and every refusal is one line: which file, which key, what was expected.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

__all__ = [
    "ConfigError",
    "Range",
    "Record",
    "content_hash",
    "describe",
    "from_mapping",
    "merge",
    "nearest",
    "read_yaml",
    "to_mapping",
    "to_yaml",
]

T = TypeVar("T")

WHOLE_MAX = 2**63 - 1  # what an array of whole numbers can hold

# A field's name ends with its unit, and the unit bounds it: far beyond all that exists, and still safe to reckon with.
UNIT_MAX = {
    "_s": 1e9,
    "_h": 1e6,
    "gbps": 1e12,
    "_rps": 1e9,
    "tokens": 2.0**40,
    "weight": 1e12,
    "cv": 100.0,
    "sd": 100.0,
}
_LABELS = ("name", "family", "tags")  # text that stands in tables, file names and keys
_MOST_VALUES = 1_000_000  # of a YAML file, aliases written out


class ConfigError(ValueError):
    """Bad input, said in one line: where it is, what was found, what was expected."""


@dataclass(frozen=True)
class Range:
    """Bounds of a number, for use in ``Annotated``; ``None`` leaves a side open."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def __str__(self) -> str:
        signs = (("≥", self.ge), (">", self.gt), ("≤", self.le), ("<", self.lt))
        return " and ".join(f"{sign} {bound:g}" for sign, bound in signs if bound is not None)


def nearest(name: str, valid: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest valid name, else the list of all valid names."""
    names = sorted(valid)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; valid: {', '.join(names)}"


class Record:
    """Base of the frozen dataclasses: values are checked (and plain ones converted) against their annotations.

    A subclass may define ``check(self)`` for rules that join several fields; it raises :class:`ConfigError`.
    ``kind`` as a class variable marks one member of a tagged union (``{kind: constant, ...}`` in YAML).
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for name, annotation in _annotations(type(self)).items():  # type: ignore[arg-type]  # a class is hashable
            value = _convert(getattr(self, name), annotation, name)
            _check_unit(name, value)
            _check_label(name, value)
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Rules that join several fields; the default has none."""


@cache
def _annotations(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in fields(cls)}


def _check_unit(name: str, value: Any) -> None:
    """:class:`ConfigError` if a number, or one of a list, is beyond what the unit in the field's name allows."""
    most = next((most for unit, most in UNIT_MAX.items() if name.endswith(unit)), None)
    for one in value if isinstance(value, tuple) else (value,):
        if most is not None and isinstance(one, (int, float)) and abs(one) > most:
            raise ConfigError(f"{name}: expected at most {most:g}, got {_shown(one)}")


def _check_label(name: str, value: Any) -> None:
    """:class:`ConfigError` if a field that is printed as a label cannot be: it is empty, or breaks the line."""
    for one in value if isinstance(value, tuple) else (value,):
        if name in _LABELS and isinstance(one, str) and not (one.strip() and one.isprintable()):
            raise ConfigError(f"{name}: expected printable text on one line, got {_shown(one)}")


def _required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _by_kind(union: Any) -> dict[str, type]:
    """The members of a tagged union, by their ``kind``."""
    return {m.kind: m for m in get_args(union) if isinstance(m, type) and is_dataclass(m) and hasattr(m, "kind")}


def describe(annotation: Any) -> str:
    """What a field's annotation asks for, in words: ``"a number > 0"``."""
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *extras = get_args(annotation)
        return " ".join([describe(base), *(str(e) for e in extras if isinstance(e, Range))])
    if origin in (Union, types.UnionType):
        if records := _by_kind(annotation):
            rest = [describe(a) for a in get_args(annotation) if a not in records.values()]
            return " or ".join([f"a mapping of kind {', '.join(sorted(records))}", *rest])
        return " or ".join(describe(a) for a in get_args(annotation))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(annotation)))
    if origin is tuple:
        return f"a list of {describe(get_args(annotation)[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return "a mapping"
    if isinstance(annotation, type) and is_dataclass(annotation):
        return f"a mapping with {', '.join(f.name for f in fields(annotation) if _required(f))}"
    names = {float: "a number", int: "a whole number", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _refuse(key: str, value: Any, annotation: Any) -> ConfigError:
    return ConfigError(f"{key}: expected {describe(annotation)}, got {_shown(value)}")


def _shown(value: Any) -> str:
    """A value in an error: never more than a part of a line."""
    try:
        shown = repr(to_mapping(value))
    except ValueError:  # Python writes out no whole number of more than some thousand digits
        return "a number of thousands of digits"
    return shown if len(shown) < 60 else shown[:57] + "..."


def _key(key: Any) -> str:
    """A key in an error: as it stands, quoted where it would break the line."""
    text = str(key)
    return text if text.isprintable() else repr(text)


def _convert(value: Any, annotation: Any, key: str) -> Any:
    """``value`` as ``annotation`` asks, or a :class:`ConfigError` that names ``key``."""
    origin = get_origin(annotation)
    if annotation is Any:
        return value
    if origin is Annotated:
        base, *extras = get_args(annotation)
        value = _convert(value, base, key)
        for extra in extras:
            if isinstance(extra, Range) and value is not None and value not in extra:
                raise ConfigError(f"{key}: expected {describe(base)} {extra}, got {_shown(value)}")
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, annotation, key)
    if origin is Literal:
        if value not in get_args(annotation):
            hint = nearest(value, get_args(annotation)) if isinstance(value, str) else ""
            raise ConfigError(f"{key}: expected {describe(annotation)}, got {_shown(value)}{hint}")
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _refuse(key, value, annotation)
        item = get_args(annotation)[0]
        return tuple(_convert(v, item, f"{key}[{i}]") for i, v in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _refuse(key, value, annotation)
        item = get_args(annotation)[1]
        return {str(k): _convert(v, item, f"{key}.{_key(k)}") for k, v in value.items()}
    if isinstance(annotation, type) and is_dataclass(annotation):
        if isinstance(value, annotation):
            return value
        return from_mapping(annotation, value, key)
    if annotation is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise _refuse(key, value, annotation)
        return float(value)
    if annotation is int:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
            raise _refuse(key, value, annotation)
        if abs(value) > WHOLE_MAX:
            raise _refuse(key, value, annotation)
        return int(value)
    if not isinstance(value, annotation):
        raise _refuse(key, value, annotation)
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(f"{key}: expected text that can be written as UTF-8, got {_shown(value)}")
    return value


def _convert_union(value: Any, annotation: Any, key: str) -> Any:
    members = get_args(annotation)
    if value is None and type(None) in members:
        return None
    records = _by_kind(annotation)
    if records and isinstance(value, Mapping):
        if "kind" not in value:
            raise ConfigError(f"{key}: missing key 'kind'; valid kinds: {', '.join(sorted(records))}")
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in records:
            raise ConfigError(f"{key}.kind: unknown kind {_shown(kind)}{nearest(_shown(kind), records)}")
        return from_mapping(records[kind], {k: v for k, v in value.items() if k != "kind"}, key)
    if isinstance(value, tuple(m for m in members if isinstance(m, type) and is_dataclass(m))):
        return value
    plain = [m for m in members if m is not type(None)]
    for member in plain:
        try:
            return _convert(value, member, key)
        except ConfigError:
            if len(plain) == 1:
                raise
    raise _refuse(key, value, annotation)


def from_mapping(cls: type[T], source: Any, where: str = "") -> T:
    """Build the dataclass ``cls`` from a mapping; errors are prefixed with ``where`` (a file or a dotted key).

    Raises :class:`ConfigError` on an unknown key (with the nearest valid one), missing keys (all are named) or a bad
    value.
    """
    prefix = f"{where}." if where and not where.endswith(": ") else where
    if not isinstance(source, Mapping):
        raise ConfigError(f"{where.rstrip(': ') or cls.__name__}: expected a mapping of keys, got {_shown(source)}")
    valid = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in source:
        if key not in valid:
            raise ConfigError(f"{prefix}{_key(key)}: unknown key{nearest(str(key), valid)}")
    expected = _annotations(cls)  # type: ignore[arg-type]  # a class is hashable
    missing = {name: describe(expected[name]) for name, f in valid.items() if _required(f) and name not in source}
    if len(missing) == 1:
        raise ConfigError("".join(f"{prefix}{name}: missing key ({what})" for name, what in missing.items()))
    if missing:
        at = f"{where.removesuffix(': ')}: " if where else ""
        raise ConfigError(f"{at}missing keys: {', '.join(f'{name} ({what})' for name, what in missing.items())}")
    try:
        return cls(**source)
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}") from None
    except RecursionError:
        raise ConfigError(f"{where.removesuffix(': ') or cls.__name__}: nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """YAML as people know it: numbers as in YAML 1.2, and no key given twice, of which the last would win.

    PyYAML by itself reads 1e-3 as text, 1:30 as 90 and 010 as 8.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class's own
        first: [(tag, form) for tag, form in resolvers if not tag.endswith((":int", ":float"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_int(self, node: yaml.ScalarNode) -> int:
        text = node.value.replace("_", "")
        return int(text, 0) if text[:2].lower() in ("0x", "0o") else int(text)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise ConfigError(f"line {key.start_mark.line + 1}: {_key(key.value)}: key given twice")
                seen.add((key.tag, key.value))
        return node


_DIGITS = "-+.0123456789"
_INT = r"[-+]?[0-9][0-9_]*|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"^(?:{_INT})$"), _DIGITS)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT})$"), _DIGITS)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_int)


class _Dumper(yaml.SafeDumper):
    """Quotes the text that :class:`_Loader` would take for a number: 12e456789012 is a hash."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def to_yaml(content: Any) -> str:
    """YAML that :func:`read_yaml` reads as the same plain content, keys in their order."""
    return yaml.dump(to_mapping(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _check_size(root: Any) -> None:
    """:class:`ConfigError` where aliases make a file contain itself, or far more than it says."""
    inside: set[int] = set()
    values = 0

    def visit(value: Any) -> None:
        nonlocal values
        values += 1
        if values > _MOST_VALUES:
            raise ConfigError(f"more than {_MOST_VALUES:,} values, with aliases written out")
        if not isinstance(value, (dict, list)):
            return
        if id(value) in inside:
            raise ConfigError("an alias stands inside what it stands for")
        inside.add(id(value))
        for one in value.values() if isinstance(value, dict) else value:
            visit(one)
        inside.remove(id(value))

    visit(root)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; :class:`ConfigError` if it cannot be read or parsed, or gives a key twice."""
    try:
        with path.open(encoding="utf-8") as stream:
            content = yaml.load(stream, _Loader)
        _check_size(content)
        return content
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no such date, too many digits
        raise ConfigError(f"{path}: not valid YAML ({' '.join(str(error).split())[:160]})") from None


def merge(base: Any, changes: Any) -> Any:
    """``changes`` on top of ``base``: mappings (and records below them) are merged key by key, all else replaced.

    A mapping of another ``kind``, or one that extends something else, replaces the one below it.
    """
    if not isinstance(changes, Mapping):
        return changes
    below = to_mapping(base) if is_dataclass(base) else base
    if not isinstance(below, Mapping) or "extends" in changes:
        return changes
    if changes.get("kind", below.get("kind")) != below.get("kind"):
        return changes
    return {**below, **{key: merge(below.get(key), value) for key, value in changes.items()}}


def to_mapping(record: Any) -> Any:
    """The plain form (dicts, lists, numbers, text) of a record: what YAML would hold."""
    if is_dataclass(record):
        plain = {f.name: to_mapping(getattr(record, f.name)) for f in fields(record)}
        kind = getattr(type(record), "kind", None)
        return {"kind": kind, **plain} if isinstance(kind, str) else plain
    if isinstance(record, Mapping):
        return {k: to_mapping(v) for k, v in record.items()}
    if isinstance(record, (list, tuple)):
        return [to_mapping(v) for v in record]
    return record


def content_hash(record: Any) -> str:
    """Twelve hex digits that change whenever any value in the record changes."""
    text = json.dumps(to_mapping(record), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
