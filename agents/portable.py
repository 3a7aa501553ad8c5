"""``model.npz`` and ``model.onnx``: a network that acts without Stable-Baselines3 and torch (see ``export.py``).

- ``.npz``: weights of a multilayer perceptron and its card, evaluated by NumPy. Needs nothing else, and gives the same
  actions whatever else is installed; the shipped policy is one.
- ``.onnx``: any graph from observations, float32 (n, k), to actions, float32 (n, 2), with its card under the key
  ``model_card`` of the metadata. Needs onnxruntime (extra ``export``).

Neither runs code from the file, as a ``model.zip`` may.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.environment.actions import ActionName, action_space
from prfaas_env.environment.observation import observation_space

from .card import ModelCard

__all__ = ["CARD_KEY", "Activation", "Layer", "Network", "Portable"]

CARD_KEY = "model_card"
Activation = Literal["Tanh", "Relu", "Clip"]
"""What follows a layer, by its name in ONNX; ``Clip`` is to [−1, 1]."""

(_OBSERVED,), (_ACTED,) = observation_space().shape, action_space().shape


@dataclass(frozen=True, eq=False)
class Layer:
    """``after(x · weightᵀ + bias)``; float32, weight (out, in), bias (out,)."""

    weight: np.ndarray
    bias: np.ndarray
    after: Activation


@dataclass(frozen=True, eq=False)
class Network:
    """A multilayer perceptron, in NumPy."""

    layers: tuple[Layer, ...]

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions, float32 (n, 2), for observations (n, k)."""
        x = observations.astype(np.float32, copy=False)
        for layer in self.layers:
            x = x @ layer.weight.T + layer.bias
            if layer.after == "Tanh":
                x = np.tanh(x)
            else:
                x = np.maximum(x, 0.0) if layer.after == "Relu" else np.clip(x, -1.0, 1.0)
        return x

    def save(self, path: Path, card: ModelCard) -> None:
        """Write ``path`` (.npz); the same network and card give the same bytes."""
        arrays: dict[str, Any] = {CARD_KEY: np.array(card.text()), "after": np.array([x.after for x in self.layers])}
        for number, layer in enumerate(self.layers):
            arrays |= {f"weight_{number}": layer.weight, f"bias_{number}": layer.bias}
        with path.open("wb") as stream:
            np.savez(stream, **arrays)

    @classmethod
    def load(cls, path: Path) -> tuple[Network, ModelCard]:
        """What :meth:`save` wrote. Raises :class:`ConfigError` if it is something else, or its parts do not fit."""
        try:
            # Opened here: NumPy leaves a file open that it cannot read.
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                card, after = str(arrays[CARD_KEY][()]), arrays["after"].tolist()
                layers = [
                    Layer(arrays[f"weight_{i}"], arrays[f"bias_{i}"], activation) for i, activation in enumerate(after)
                ]
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ConfigError(f"{path}: is no exported network ({' '.join(str(error).split())[:120]})") from None
        described = ModelCard.parse(card, str(path))
        width = _OBSERVED
        for number, layer in enumerate(layers):
            if layer.after not in get_args(Activation):
                raise ConfigError(f"{path}: after: unknown {layer.after!r}{nearest(layer.after, get_args(Activation))}")
            if layer.weight.ndim != 2 or layer.weight.shape[1] != width or layer.bias.shape != layer.weight.shape[:1]:
                raise ConfigError(
                    f"{path}: layer {number}: expected {width} inputs, "
                    f"got a weight of shape {layer.weight.shape} and a bias of shape {layer.bias.shape}"
                )
            if layer.weight.dtype != np.float32 or layer.bias.dtype != np.float32:
                raise ConfigError(f"{path}: layer {number}: expected float32, got {layer.weight.dtype}")
            if not (np.isfinite(layer.weight).all() and np.isfinite(layer.bias).all()):
                raise ConfigError(f"{path}: layer {number}: expected finite numbers")
            width = len(layer.bias)
        if width != _ACTED or not layers:
            raise ConfigError(f"{path}: expected {_ACTED} outputs, got {width}")
        return cls(tuple(layers)), described


class Portable:
    """An exported model as a policy."""

    def __init__(self, path: Path) -> None:
        """Raises :class:`ConfigError` if the file is missing, is no such model, or is for another observation."""
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        self._run: Callable[[np.ndarray], np.ndarray]
        self._run, self.card = Network.load(path) if path.suffix == ".npz" else _session(path)
        self.action_mode: ActionName = self.card.action

    def predict(
        self,
        observation: np.ndarray,
        state: Any = None,
        episode_start: np.ndarray | None = None,  # noqa: ARG002 - it remembers nothing
        deterministic: bool = True,  # noqa: ARG002 - only that is exported
    ) -> tuple[np.ndarray, Any]:
        """As any policy's; always deterministic."""
        actions = self._run(np.atleast_2d(observation))
        return (actions if np.ndim(observation) == 2 else actions[0]), state


def _session(path: Path) -> tuple[Callable[[np.ndarray], np.ndarray], ModelCard]:
    """A function from observations to actions that runs the graph, and its card."""
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError(f"{path}: needs onnxruntime: pip install 'prfaas_env[export]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # as many processes as cores run at once
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"{path}: is no ONNX model ({' '.join(str(error).split())[:120]})") from None
    text = session.get_modelmeta().custom_metadata_map.get(CARD_KEY)
    if text is None:
        raise ConfigError(f"{path}: its metadata hold no {CARD_KEY}: python -m prfaas_env export writes one")
    card = ModelCard.parse(text, str(path))
    for what, nodes, width in (
        ("input", session.get_inputs(), _OBSERVED),
        ("output", session.get_outputs(), _ACTED),
    ):
        fits = [node.type == "tensor(float)" and len(node.shape) == 2 and node.shape[1] == width for node in nodes]
        if fits != [True]:
            got = ", ".join(f"{node.type} {node.shape}" for node in nodes)
            raise ConfigError(f"{path}: {what}: expected one tensor(float) of shape (n, {width}), got {got}")
    name = session.get_inputs()[0].name

    def run(observations: np.ndarray) -> np.ndarray:
        actions: np.ndarray = session.run(None, {name: observations.astype(np.float32, copy=False)})[0]
        return actions

    return run, card
