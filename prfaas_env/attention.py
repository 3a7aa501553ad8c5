"""Attention geometry: the KV-cache size of a model from its published configuration.

One formula a kind of attention, each for one layer. KV and convolution windows are in bf16, recurrent states in fp32:
with this counting the sizes give back the paper's Table 5 to the printed digit, and its Table 3 implies nearly the same
prefill time at length 0 for all six public models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from prfaas_env.config import ConfigError, Range, Record, nearest
from prfaas_env.profiles import MIB, KvSize

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Attention",
    "GroupedQuery",
    "Latent",
    "Layers",
    "Recurrent",
    "Window",
    "architecture",
]

BF16_BYTES = 2
FP32_BYTES = 4

Count = Annotated[int, Range(ge=1, le=1_000_000)]


@dataclass(frozen=True)
class GroupedQuery(Record):
    """Full attention with grouped queries: KV heads × (key width + value width) numbers a token."""

    kind: ClassVar[str] = "gqa"
    kv_heads: Count
    key_width: Count
    value_width: Count

    def size_bytes(self, length_tokens: np.ndarray) -> np.ndarray:
        return BF16_BYTES * self.kv_heads * (self.key_width + self.value_width) * length_tokens


@dataclass(frozen=True)
class Latent(Record):
    """Multi-head latent attention (MLA): one compressed vector and one rotary key a token, for all heads."""

    kind: ClassVar[str] = "mla"
    latent_width: Count
    rope_width: Count

    def size_bytes(self, length_tokens: np.ndarray) -> np.ndarray:
        return BF16_BYTES * (self.latent_width + self.rope_width) * length_tokens


@dataclass(frozen=True)
class Window(Record):
    """Grouped queries over a sliding window: as :class:`GroupedQuery`, until the window is full."""

    kind: ClassVar[str] = "window"
    kv_heads: Count
    key_width: Count
    value_width: Count
    window_tokens: Count

    def size_bytes(self, length_tokens: np.ndarray) -> np.ndarray:
        kept_tokens = np.minimum(length_tokens, self.window_tokens)
        return BF16_BYTES * self.kv_heads * (self.key_width + self.value_width) * kept_tokens


@dataclass(frozen=True)
class Recurrent(Record):
    """Linear attention (KDA, GDN, Lightning): a matrix a head, and the last inputs of a short convolution if any."""

    kind: ClassVar[str] = "recurrent"
    heads: Count
    key_width: Count
    value_width: Count
    conv_channels: Annotated[int, Range(ge=0)] = 0
    conv_inputs: Annotated[int, Range(ge=0)] = 0

    def size_bytes(self, length_tokens: np.ndarray) -> np.ndarray:
        state = FP32_BYTES * self.heads * self.key_width * self.value_width
        return np.full_like(length_tokens, state + BF16_BYTES * self.conv_channels * self.conv_inputs)


Attention = GroupedQuery | Latent | Window | Recurrent
FULL = (GroupedQuery, Latent)  # the kinds whose cache grows with every token


@dataclass(frozen=True)
class Layers(Record):
    """So many layers of one kind of attention."""

    layers: Count
    attention: Attention


@dataclass(frozen=True)
class Architecture(Record):
    """A model as its KV cache sees it: groups of layers, and where their geometry is published."""

    groups: tuple[Layers, ...]
    source: str

    def check(self) -> None:
        if not self.groups:
            raise ConfigError("groups: expected at least one group of layers")

    def size_bytes(self, length_tokens: np.ndarray | float) -> np.ndarray:
        """KV cache in bytes of a request of each length (any shape), windows filled only as far as it goes."""
        length = np.asarray(length_tokens, dtype=np.float64)
        return np.sum([group.layers * group.attention.size_bytes(length) for group in self.groups], axis=0)

    @property
    def full_layers(self) -> int:
        return sum(group.layers for group in self.groups if isinstance(group.attention, FULL))

    @property
    def other_layers(self) -> int:
        return sum(group.layers for group in self.groups) - self.full_layers

    @property
    def bytes_per_token(self) -> float:
        """What one more token adds, once the windows are full."""
        full = [group for group in self.groups if isinstance(group.attention, FULL)]
        return float(sum(group.layers * group.attention.size_bytes(np.ones(())) for group in full))

    @property
    def fixed_bytes(self) -> float:
        """What a request has whatever its length: full windows, recurrent states and convolution windows."""
        longest = max((g.attention.window_tokens for g in self.groups if isinstance(g.attention, Window)), default=0)
        return float(self.size_bytes(longest)) - self.bytes_per_token * longest

    @property
    def kv_size(self) -> KvSize:
        """As a profile has it. Windows count as full, which is too much for prompts shorter than a window."""
        return KvSize(self.fixed_bytes / MIB, self.bytes_per_token)

    def with_ratio(self, linear_per_full: int) -> Architecture:
        """As many layers in all, with full attention in every (n + 1)-th and in the last one.

        This rule gives 7 of 27 layers for Kimi Linear's 3:1, and 10 of 80 for Ring's 7:1. Raises :class:`ConfigError`
        unless there is one group of full and one of other layers to choose from.
        """
        if not isinstance(linear_per_full, int) or linear_per_full < 0:
            raise ConfigError(f"linear_per_full: expected a whole number ≥ 0, got {linear_per_full!r}")
        full = [group for group in self.groups if isinstance(group.attention, FULL)]
        other = [group for group in self.groups if not isinstance(group.attention, FULL)]
        if (len(full), len(other)) != (1, 1):
            raise ConfigError("linear_per_full: expected one group of full and one of other layers to divide")
        total = full[0].layers + other[0].layers
        n_full = -(-total // (linear_per_full + 1))
        groups = [replace(full[0], layers=n_full)]
        if total > n_full:
            groups.append(replace(other[0], layers=total - n_full))
        return replace(self, groups=tuple(groups), source=f"{self.source}; layers re-divided {linear_per_full}:1")


def architecture(model: str) -> Architecture:
    """The geometry of a model by name. Raises :class:`ConfigError`."""
    if model not in ARCHITECTURES:
        raise ConfigError(f"unknown architecture {model!r}{nearest(model, ARCHITECTURES)}")
    return ARCHITECTURES[model]


_MLA = Latent(latent_width=512, rope_width=64)

ARCHITECTURES = {
    "hybrid-1t": Architecture(
        (Layers(15, _MLA), Layers(42, Recurrent(64, 128, 128, conv_channels=24_576, conv_inputs=3))),
        "not published: inferred from the sizes of PrfaaS (arXiv:2604.15039v2), Table 5",
    ),
    "kimi-linear-48b": Architecture(
        (Layers(7, _MLA), Layers(20, Recurrent(32, 128, 128, conv_channels=12_288, conv_inputs=3))),
        "published configuration, and SGLang's kimi_linear",
    ),
    "mimo-v2-flash": Architecture(
        (Layers(9, GroupedQuery(4, 192, 128)), Layers(39, Window(8, 192, 128, window_tokens=128))),
        "published configuration (class of the transformers library)",
    ),
    "qwen3.5-397b": Architecture(
        (
            Layers(15, GroupedQuery(2, 256, 256)),
            Layers(45, Recurrent(64, 128, 128, conv_channels=12_288, conv_inputs=3)),
        ),
        "published configuration",
    ),
    "ring-2.5-1t": Architecture(
        (Layers(10, _MLA), Layers(70, Recurrent(64, 128, 128))),
        "the family's README (geometry of Ling-2.5-1T); an own configuration was not found",
    ),
    "minimax-m2.5": Architecture((Layers(62, GroupedQuery(8, 128, 128)),), "published configuration of the M2 family"),
    "qwen3-235b": Architecture((Layers(94, GroupedQuery(4, 128, 128)),), "published configuration"),
}
