"""Profile files, and what they may say in place of figures.

A file may start from another (``extends``), name the model's geometry instead of stating sizes (``architecture``),
divide its layers anew (``linear_per_full``), and take prefill times from those of other profiles (``less_s`` and
``scale`` under ``prefill``). A file that changes figures of another must say where its own come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from prfaas_env.attention import Architecture, architecture
from prfaas_env.config import ConfigError, Record, from_mapping, merge
from prfaas_env.extending import FileKind
from prfaas_env.profiles import NonNegative, PrefillTable, Profile, Provenance
from prfaas_env.resources import locate

__all__ = ["DerivedPrefill", "Scale", "quadratic_s", "read_profile", "with_ratio"]

GROUPS = ("prefill", "kv", "decode", "price_usd_per_hour", "context_limit_tokens")


@dataclass(frozen=True)
class Scale(Record):
    """Times multiplied, at each length, by those of one profile over those of another.

    - ``from_profile``: the profile in the denominator: a name, or a path from the file's folder.
    - ``to_profile``: the profile in the numerator.
    """

    from_profile: Profile
    to_profile: Profile

    def factors(self, lengths_tokens: np.ndarray) -> np.ndarray:
        return self.to_profile.prefill.time_s(lengths_tokens) / self.from_profile.prefill.time_s(lengths_tokens)


@dataclass(frozen=True)
class DerivedPrefill(Record):
    """Prefill times worked out from others: ``(times_s - less_s) × scale`` at each knot.

    - ``lengths_tokens``: prompt lengths of the knots.
    - ``times_s``: prefill time of each, before the change; as a rule that of the extended profile.
    - ``less_s``: a constant taken off every time.
    - ``scale``: then, the ratio of two profiles.
    """

    lengths_tokens: tuple[float, ...]
    times_s: tuple[float, ...]
    less_s: NonNegative = 0.0
    scale: Scale | None = None

    def table(self) -> PrefillTable:
        stated = PrefillTable(self.lengths_tokens, self.times_s)
        times = np.asarray(stated.times_s) - self.less_s
        if self.scale is not None:
            times = times * self.scale.factors(np.asarray(stated.lengths_tokens))
        return PrefillTable(stated.lengths_tokens, tuple(times.tolist()))


def read_profile(path: Path, trail: tuple[Path, ...] = ()) -> Profile:
    """The profile in a file, with all that it derives worked out. Raises :class:`ConfigError`.

    ``trail``: the files that wait for this one, which may not wait for them.
    """
    where, here = f"{path}: ", (*trail, path.resolve())
    if path.resolve() in trail:
        raise ConfigError(f"{where}prefill.scale: goes in a circle")
    plain = FileKind("hardware_profiles", partial(_anchor, trail=here), _merged).read(path)
    if not isinstance(plain, Mapping):
        return from_mapping(Profile, plain, where)
    if "architecture" in plain and "kv" in plain:
        raise ConfigError(f"{where}architecture: expected it or 'kv', not both")
    plain = dict(plain)
    model, linear_per_full = plain.pop("architecture", None), plain.pop("linear_per_full", None)
    try:
        geometry = None if model is None else architecture(str(model))
    except ConfigError as error:
        raise ConfigError(f"{where}architecture: {error}") from None
    if geometry is not None:
        plain["kv"] = geometry.kv_size
    prefill = plain.get("prefill")
    if isinstance(prefill, Mapping) and ("less_s" in prefill or "scale" in prefill):
        derived = from_mapping(DerivedPrefill, prefill, f"{where}prefill")
        try:
            plain["prefill"] = derived.table()
        except ConfigError as error:
            raise ConfigError(f"{where}prefill: after less_s and scale, {error}") from None
    profile = from_mapping(Profile, plain, where)
    if linear_per_full is None:
        return profile
    if geometry is None:
        raise ConfigError(f"{where}linear_per_full: needs 'architecture', whose layers it divides")
    try:
        return with_ratio(profile, geometry, linear_per_full)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None


def with_ratio(profile: Profile, geometry: Architecture, linear_per_full: int) -> Profile:
    """The profile with its model's layers divided anew between full and linear attention.

    KV sizes follow from the geometry. Prefill time is an assumption: of T = a + b L + c L², fitted to the table with
    relative weights, a and b stay and c goes with the number of full layers, so that a knot changes by
    (ratio - 1) c L². Projections and experts are in b, which a layer has whatever its attention. Raises
    :class:`ConfigError` on a ratio that the geometry cannot have.
    """
    changed = geometry.with_ratio(linear_per_full)
    lengths, times = np.asarray(profile.prefill.lengths_tokens), np.asarray(profile.prefill.times_s)
    quadratic = max(0.0, quadratic_s(profile.prefill))
    times = times + (changed.full_layers / geometry.full_layers - 1.0) * quadratic * lengths**2
    said = f"layers divided {linear_per_full}:1"
    prefill, kv = profile.provenance["prefill"], profile.provenance["kv"]
    provenance = {
        **profile.provenance,
        "prefill": Provenance(f"{prefill.source}; {said}, only the quadratic part follows", "assumed", prefill.date),
        "kv": Provenance(f"{kv.source}; {said}", "derived", kv.date),
    }
    table = PrefillTable(profile.prefill.lengths_tokens, tuple(times.tolist()))
    attention: Literal["full", "hybrid"] = "hybrid" if changed.other_layers else "full"
    return replace(profile, prefill=table, kv=changed.kv_size, attention=attention, provenance=provenance)


def quadratic_s(table: PrefillTable) -> float:
    """c of T = a + b L + c L² in s per token², by least squares of relative errors; 0 for two knots."""
    lengths, times = np.asarray(table.lengths_tokens), np.asarray(table.times_s)
    if len(lengths) < 3:
        return 0.0
    thousands = lengths / 1024.0  # for the conditioning
    columns = np.column_stack([np.ones_like(thousands), thousands, thousands**2]) / times[:, None]
    found = np.linalg.lstsq(columns, np.ones_like(times), rcond=None)[0]
    return float(found[2]) / 1024.0**2


def _anchor(plain: Any, beside: Path, trail: tuple[Path, ...]) -> Any:
    """The plain form with the profiles that it names: loaded where it scales by them, a full path where it extends."""
    if not isinstance(plain, Mapping):
        return plain
    done = dict(plain)
    if isinstance(done.get("extends"), str) and (beside / done["extends"]).is_file():
        done["extends"] = str((beside / done["extends"]).resolve())
    prefill = done.get("prefill")
    if isinstance(prefill, Mapping) and isinstance(prefill.get("scale"), Mapping):
        scale = {key: _named(key, value, beside, trail) for key, value in prefill["scale"].items()}
        done["prefill"] = {**prefill, "scale": scale}
    return done


def _named(key: str, value: Any, beside: Path, trail: tuple[Path, ...]) -> Any:
    """The profile that a key of ``scale`` names; what is no name is left to the record's own check."""
    if not isinstance(value, str):
        return value
    own = beside / value
    try:
        path = own if own.is_file() else locate("hardware_profiles", value)
    except ConfigError as error:
        raise ConfigError(f"{trail[-1]}: prefill.scale.{key}: {error}") from None
    return read_profile(path, trail)


def _merged(base: Any, changes: Any) -> Any:
    """Changes on top of a profile's plain form. Figures of one's own replace what the other derives in their place."""
    if not isinstance(base, Mapping):
        return merge(base, changes)
    below = dict(base)
    given = set(changes)
    if "architecture" in given:
        given.add("kv")
        below.pop("kv", None)
    elif "kv" in given:
        for key in ("architecture", "linear_per_full"):
            below.pop(key, None)
    prefill = changes.get("prefill")
    if isinstance(prefill, Mapping) and "times_s" in prefill and isinstance(below.get("prefill"), Mapping):
        below["prefill"] = {key: below["prefill"][key] for key in below["prefill"] if key not in ("less_s", "scale")}
    said = changes.get("provenance")
    for group in GROUPS:
        if group in given and not (isinstance(said, Mapping) and group in said):
            raise ConfigError(f"provenance.{group}: missing key (this file changes the figures under {group!r})")
    return merge(below, changes)
