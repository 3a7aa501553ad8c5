"""From a model of Stable-Baselines3 to a file that needs neither it nor torch: what :mod:`portable` runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.environment.actions import action_space
from prfaas_env.environment.observation import observation_space

from .card import ModelCard
from .portable import CARD_KEY, Activation, Layer, Network
from .trained import Trained

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["export", "network_of", "onnx_model"]

_AFTER: dict[str, Activation] = {"Tanh": "Tanh", "ReLU": "Relu"}
_OPSET, _IR_VERSION = 17, 8
"""Of 2022: what runtimes of today and of the last years can read."""


def export(model: Path, out: Path) -> None:
    """Write the deterministic policy of ``model`` (.zip, its card beside it) to ``out`` (.onnx or .npz).

    Raises :class:`ConfigError` if the model cannot be loaded or is no multilayer perceptron, or onnx is missing.
    """
    if out.suffix not in (".onnx", ".npz"):
        raise ConfigError(f"{out}: expected a file .onnx or .npz")
    trained = Trained(model)
    network = network_of(trained.model, str(model))
    try:
        if out.suffix == ".npz":
            network.save(out, trained.card)
        else:
            out.write_bytes(onnx_model(network, trained.card).SerializeToString())
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written ({error.strerror})") from None


def network_of(model: Any, where: str) -> Network:
    """The actor of a model, as its deterministic ``predict`` evaluates it. Raises :class:`ConfigError`."""
    policy = model.policy
    if hasattr(policy, "lstm_actor"):
        raise ConfigError(f"{where}: a recurrent model is not exported: it acts with sb3-contrib only")
    if getattr(model, "use_sde", False):
        raise ConfigError(f"{where}: a model with state-dependent exploration (use_sde) is not exported")
    actor: Any = getattr(policy, "actor", None)
    if hasattr(policy, "mlp_extractor"):  # PPO, A2C, TRPO
        parts, extractor = [policy.mlp_extractor.policy_net, policy.action_net], policy.pi_features_extractor
    elif hasattr(actor, "latent_pi"):  # SAC, TQC
        parts, extractor = [actor.latent_pi, actor.mu, "Tanh"], actor.features_extractor
    elif hasattr(actor, "mu"):  # TD3, DDPG
        parts, extractor = [actor.mu], actor.features_extractor
    else:
        raise ConfigError(f"{where}: {type(policy).__name__} has no actor that can be exported")
    return Network((*_seen(extractor, where), *_layers(parts, where)))


def _seen(extractor: Any, where: str) -> Iterator[Layer]:
    """What comes before the first layer: nothing, or a factor and an offset for each component, clipped."""
    import torch

    scaled = all(hasattr(extractor, name) for name in ("factor", "offset"))
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (8, *observation_space().shape)).astype(np.float32)
    expected = rows
    if scaled:
        factor, offset = (_array(x) for x in (extractor.factor, extractor.offset))
        expected = np.clip(rows * factor + offset, -1.0, 1.0)
    with torch.no_grad():
        found = extractor(torch.from_numpy(rows)).numpy()
    if not np.array_equal(found, expected):
        raise ConfigError(f"{where}: only multilayer perceptrons are exported, this has a {type(extractor).__name__}")
    if scaled:
        yield Layer(np.diag(factor), offset, "Clip")


def _array(parameter: Any) -> np.ndarray:
    found: np.ndarray = parameter.detach().cpu().numpy().astype(np.float32)
    return found


def _layers(parts: list[Any], where: str) -> Iterator[Layer]:
    """Linear layers, each with the activation that follows it; the last is clipped where nothing bounds it."""
    modules: list[Any] = [m for part in parts for m in ([part] if isinstance(part, str) else part.modules())]
    named = [(module, module if isinstance(module, str) else type(module).__name__) for module in modules]
    steps = [(m, name) for m, name in named if name not in ("Sequential", "Flatten", "Identity")]
    for (module, name), (_, after) in zip(steps, [*steps[1:], (None, "end")], strict=True):
        if name == "Linear" and after != "Linear":
            yield Layer(_array(module.weight), _array(module.bias), _AFTER.get(after, "Clip"))
        elif name not in _AFTER:
            raise ConfigError(f"{where}: only Linear layers with {' or '.join(_AFTER)} are exported, this has a {name}")


def onnx_model(network: Network, card: ModelCard) -> ModelProto:
    """The graph ``observation`` (n, k) → ``action`` (n, 2), float32, with the card in its metadata."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise ConfigError("export to ONNX needs onnx: pip install 'prfaas_env[export]'") from None
    nodes, weights, x = [], [], "observation"
    bounds = [
        numpy_helper.from_array(np.array(bound, dtype=np.float32), name)
        for bound, name in ((-1.0, "least"), (1.0, "greatest"))
    ]
    for number, layer in enumerate(network.layers):
        names = [f"weight_{number}", f"bias_{number}"]
        weights += [numpy_helper.from_array(a, n) for a, n in zip((layer.weight, layer.bias), names, strict=True)]
        out = "action" if layer is network.layers[-1] else f"hidden_{number}"
        nodes.append(helper.make_node("Gemm", [x, *names], [f"sum_{number}"], transB=1))
        limits = ["least", "greatest"] if layer.after == "Clip" else []
        nodes.append(helper.make_node(layer.after, [f"sum_{number}", *limits], [out]))
        x = out
    shapes = (("observation", observation_space().shape), ("action", action_space().shape))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape]) for name, shape in shapes]
    graph = helper.make_graph(nodes, "prfaas_env", ends[:1], ends[1:], [*bounds, *weights])
    opset = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION, producer_name="prfaas_env")
    helper.set_model_props(model, {CARD_KEY: card.text()})
    checker.check_model(model, full_check=True)
    return model
