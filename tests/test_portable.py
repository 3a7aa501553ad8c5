"""Models away from what they were trained with: exported, they act the same, without torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agents
from agents.card import ModelCard
from agents.portable import CARD_KEY, Layer, Network, Portable
from prfaas_env.cli.app import main
from prfaas_env.cli.errors import BAD_INPUT, run
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import COMPONENTS, layout_hash
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = Path(agents.__file__).parent / "pretrained" / "residual"
WIDTH = len(COMPONENTS)
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario("drift-mix")


@pytest.fixture(scope="module")
def observations() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (500, WIDTH)).astype(np.float32)


def call(*arguments: str | Path) -> int:
    """``python -m prfaas_env`` with these arguments, in this process; its exit code."""
    with pytest.raises(SystemExit) as exit_:
        run(main, [str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def controls(scenario: Scenario, policy: Any) -> list[Any]:
    """The control of every interval of an episode."""
    loop = ControlLoop(scenario, policy.action_mode)
    observation, state, start, found, ended = loop.reset(0), None, True, [], False
    while not ended:
        action, state = policy.predict(observation, state, np.array([start]))
        interval = loop.step(action)
        found.append(interval.control)
        observation, start, ended = interval.observation, False, interval.ended
    return found


def saved(algorithm: str, folder: Path, action: str = "residual", **arguments: Any) -> Path:
    """An untrained model with its card."""
    from prfaas_env.environment.env import PrfaaSEnv

    contrib = pytest.importorskip("sb3_contrib", reason="needs the extra 'train'")
    learners = pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    learner = getattr(contrib, algorithm, None) or getattr(learners, algorithm)
    network = "MlpLstmPolicy" if algorithm == "RecurrentPPO" else "MlpPolicy"
    sizes = {"buffer_size": 1} if algorithm in ("SAC", "TQC", "TD3") else {}
    path = folder / "model.zip"
    learner(network, PrfaaSEnv(action=action), seed=0, device="cpu", **sizes, **arguments).save(path)
    card = {"algorithm": algorithm, "action": action, "observation": layout_hash(), "training": {"seed": 0}}
    path.with_suffix(".json").write_text(json.dumps(card), encoding="utf-8")
    return path


# --- the same actions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "SAC", "TQC", "TD3"])
def test_an_exported_model_acts_as_the_learner_s_own_predict(
    algorithm: str, tmp_path: Path, scenario: Scenario, observations: np.ndarray
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'export'")
    import torch

    activation = torch.nn.Tanh if algorithm == "TQC" else torch.nn.ReLU
    path = saved(algorithm, tmp_path, "price", policy_kwargs={"net_arch": [48, 32], "activation_fn": activation})
    learner = load_policy(path, scenario)
    own, _ = learner.predict(observations)
    assert np.ptp(own, axis=0).min() > 0.01  # it says something
    for name in ("model.npz", "model.onnx"):
        assert call("export", path, "--out", tmp_path / name) == 0
        policy = load_policy(tmp_path / name, scenario)
        assert policy.action_mode == "price"
        actions, state = policy.predict(observations)
        assert (actions.dtype, actions.shape, state) == (np.float32, own.shape, None)
        np.testing.assert_allclose(actions, own, atol=TOLERANCE)
        np.testing.assert_allclose(policy.predict(observations[3])[0], own[3], atol=TOLERANCE)
        assert policy.card == learner.card


def test_components_that_a_policy_is_not_to_see_stay_unseen(tmp_path: Path, observations: np.ndarray) -> None:
    pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    from agents.export import network_of
    from agents.trained import Trained
    from prfaas_env.training.features import Scaling, feature_arguments

    width = len(COMPONENTS)
    scaling = Scaling(np.full(width, 2.0, dtype=np.float32), np.full(width, 0.5, dtype=np.float32))
    model = Trained(saved("PPO", tmp_path, policy_kwargs=feature_arguments(scaling.only(["link", "pools"])))).model
    own, _ = model.predict(observations, deterministic=True)
    np.testing.assert_allclose(network_of(model, "here")(observations), own, atol=TOLERANCE)
    unseen = observations.copy()
    unseen[:, 0] = -unseen[:, 0]
    np.testing.assert_array_equal(network_of(model, "here")(unseen), network_of(model, "here")(observations))


def test_over_a_whole_episode_the_shipped_model_sets_what_the_learner_s_sets(
    scenario: Scenario, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    pytest.importorskip("onnxruntime", reason="needs the extra 'export'")
    assert call("export", SHIPPED / "model.zip", "--out", tmp_path / "model.onnx") == 0
    known = controls(scenario, load_policy(SHIPPED / "model.zip", scenario))
    assert len({control.n_prefill for control in known}) > 1
    for name in ("learned", tmp_path / "model.onnx"):
        found = controls(scenario, load_policy(name, scenario))
        assert [control.n_prefill for control in found] == [control.n_prefill for control in known]
        thresholds = ([control.threshold_tokens for control in of] for of in (found, known))
        np.testing.assert_allclose(*thresholds, rtol=1e-5)


def test_the_shipped_network_is_the_shipped_model(observations: np.ndarray) -> None:
    """After a new model is put there: ``python -m prfaas_env export …/model.zip --out …/model.npz``."""
    pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    from agents.trained import Trained

    network, card = Network.load(SHIPPED / "model.npz")
    assert card == ModelCard.beside(SHIPPED / "model.zip")
    assert set(card.ranges) == {component.name for component in COMPONENTS}
    own, _ = Trained(SHIPPED / "model.zip").predict(observations)
    np.testing.assert_allclose(network(observations), own, atol=TOLERANCE)


def test_the_shipped_policy_needs_no_torch_and_no_time() -> None:
    code = """if True:
        import json, sys, time
        import prfaas_env
        for name in ("torch", "stable_baselines3", "sb3_contrib", "onnx", "onnxruntime"):
            sys.modules[name] = None
        from prfaas_env.policies import load_policy
        from prfaas_env.scenario import load_scenario
        scenario = load_scenario("drift-mix")
        load_policy("windowed-closed-form", scenario)
        begin = time.process_time()
        load_policy("learned", scenario)
        first = time.process_time() - begin
        load_policy("learned", scenario)
        print(json.dumps([first, time.process_time() - begin - first]))
        print(prfaas_env.simulate("drift-mix", "learned", 0).summary["ttft_mean_s"] > 0)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    times, ran = done.stdout.splitlines()
    first, again = json.loads(times)
    assert first < 0.1
    assert again < 0.01
    assert ran == "True"


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path, scenario: Scenario) -> None:
    path = tmp_path / "model.npz"
    network = Network((Layer(np.zeros((2, WIDTH), np.float32), np.zeros(2, np.float32), "Clip"),))
    network.save(path, ModelCard("PPO", "price", layout_hash()))
    before = path.read_bytes()
    first = load_policy(path, scenario)
    assert load_policy(path, scenario) is first
    network.save(path, ModelCard("PPO", "residual", layout_hash()))
    assert load_policy(path, scenario).action_mode == "residual"
    network.save(path, ModelCard("PPO", "price", layout_hash()))
    assert path.read_bytes() == before


# --- recurrent models -------------------------------------------------------------------------------------------------


def test_a_recurrent_model_acts_with_its_memory_and_is_not_exported(
    tmp_path: Path, scenario: Scenario, observations: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved("RecurrentPPO", tmp_path)
    policy = load_policy(path, scenario)
    observations = observations.copy()
    observations[0, [c.name for c in COMPONENTS].index("waiting")] = -1.0  # nothing that a guard would step in for
    first, state = policy.predict(observations[0], None, np.array([True]))
    second, state = policy.predict(observations[0], state, np.array([False]))
    afresh, state = policy.predict(observations[0], state, np.array([True]))
    assert (first != second).any()
    np.testing.assert_array_equal(first, afresh)
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    path.with_suffix(".json").write_text(json.dumps({**card, "ranges": {"load": [0, 2]}}), encoding="utf-8")
    guarded = load_policy(path, scenario)
    action, state = guarded.predict(observations[0], None, np.array([True]))
    assert action[0] == first[0]  # the second number is N_p, which a guard keeps
    assert guarded.predict(observations[0], state, np.array([False]))[0][0] == second[0]
    assert call("export", path) == BAD_INPUT
    said = capsys.readouterr().err
    assert re.fullmatch(r"error: [^\n]*a recurrent model is not exported[^\n]*\n", said)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"use_sde": True}, "state-dependent exploration"),
        ({"policy_kwargs": {"activation_fn": "ELU"}}, "only Linear layers with Tanh or ReLU are exported"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(
    arguments: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'train'")
    if "policy_kwargs" in arguments:
        arguments = {"policy_kwargs": {"activation_fn": getattr(torch.nn, arguments["policy_kwargs"]["activation_fn"])}}
    assert call("export", saved("PPO", tmp_path, **arguments)) == BAD_INPUT
    assert re.fullmatch(rf"error: [^\n]*{message}[^\n]*\n", capsys.readouterr().err)
    assert not (tmp_path / "model.onnx").exists()


def zeros(*shapes: tuple[int, int], after: str = "Clip", dtype: Any = np.float32) -> Network:
    return Network(tuple(Layer(np.zeros(shape, dtype), np.zeros(shape[0], dtype), after) for shape in shapes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("network", "observation", "message"),
    [
        (zeros((2, WIDTH)), "0", "the model was trained on layout '0'"),
        (zeros((2, 5)), None, f"layer 0: expected {WIDTH} inputs"),
        (zeros((8, WIDTH), (2, 7)), None, "layer 1: expected 8 inputs"),
        (zeros((3, WIDTH)), None, "expected 2 outputs, got 3"),
        (zeros(), None, "expected 2 outputs"),
        (zeros((2, WIDTH), after="Tan"), None, "after: unknown 'Tan'; did you mean 'Tanh'"),
        (zeros((2, WIDTH), dtype=np.float64), None, "expected float32, got float64"),
        (Network((Layer(np.full((2, WIDTH), np.nan, np.float32), np.zeros(2, np.float32), "Clip"),)), None, "finite"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(
    network: Network, observation: str | None, message: str, tmp_path: Path
) -> None:
    network.save(tmp_path / "model.npz", ModelCard("PPO", "price", observation or layout_hash()))
    with pytest.raises(ConfigError, match=message) as refusal:
        Portable(tmp_path / "model.npz")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"scenarios": ["train-small"]}, "scenarios: expected a mapping"),
        ({"seed": "one"}, "seed: expected a whole number"),
        ({"observation_groups": ["lnik"]}, "observation_groups: unknown group 'lnik'; did you mean 'link'?"),
    ],
)
def test_a_card_that_does_not_say_how_it_was_trained_is_refused(
    training: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    path = saved("PPO", tmp_path)
    card = path.with_suffix(".json")
    card.write_text(
        json.dumps({**json.loads(card.read_text(encoding="utf-8")), "training": training}), encoding="utf-8"
    )
    before = card.read_bytes()
    assert call("export", path, "--ranges") == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"error: {card}: training.{message}")
    assert card.read_bytes() == before


def test_a_folder_is_no_model_to_export(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("export", Path(".")) == BAD_INPUT
    assert capsys.readouterr().err == "error: .: is a folder, expected a model.zip\n"


@pytest.mark.parametrize("name", ["model.npz", "model.onnx"])
@pytest.mark.parametrize("content", [b"", b"no model", b"PK\x03\x04 torn"])
def test_a_file_that_is_no_model_is_refused(name: str, content: bytes, tmp_path: Path, scenario: Scenario) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'export'")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=r"is no (exported network|ONNX model)") as refusal:
        load_policy(tmp_path / name, scenario)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ConfigError, match=f"missing.{name}: no such file"):
        load_policy(tmp_path / f"missing_{name}", scenario)


def test_an_npz_that_would_run_code_is_refused(tmp_path: Path, scenario: Scenario) -> None:
    np.savez(tmp_path / "model.npz", **{CARD_KEY: np.array([{"a": 1}], dtype=object)})
    with pytest.raises(ConfigError, match="is no exported network"):
        load_policy(tmp_path / "model.npz", scenario)


def test_a_graph_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra 'export'")
    pytest.importorskip("onnxruntime", reason="needs the extra 'export'")
    from agents.export import onnx_model

    path = tmp_path / "model.onnx"
    card = ModelCard("PPO", "price", layout_hash())
    model = onnx_model(zeros((2, WIDTH)), card)
    path.write_bytes(model.SerializeToString())
    assert Portable(path).card == card
    for change, message in (
        ({CARD_KEY: json.dumps({"algorithm": "PPO", "action": "price", "observation": "0"})}, "layout '0'"),
        ({CARD_KEY: "{"}, "not valid JSON"),
        ({}, f"its metadata hold no {CARD_KEY}"),
    ):
        del model.metadata_props[:]
        onnx.helper.set_model_props(model, change)
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ConfigError, match=message):
            Portable(path)
    onnx.helper.set_model_props(model, {CARD_KEY: card.text()})
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    model.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.zeros((2, 5), np.float32), "weight_0"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ConfigError, match=rf"input: expected one tensor\(float\) of shape \(n, {WIDTH}\), got .*5"):
        Portable(path)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_s_example_runs(tmp_path: Path) -> None:
    """The ONNX file, run by onnxruntime alone on what the environment observes."""
    pytest.importorskip("onnxruntime", reason="needs the extra 'export'")
    section = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").split("## Taking a policy elsewhere")[1]
    (example,) = re.findall(r"```python\n(.*?)```", section.split("\n## ")[0], flags=re.S)
    assert len(example.splitlines()) <= 16
    assert call("export", SHIPPED / "model.zip", "--out", tmp_path / "model.onnx") == 0
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 0.0  # the return: seconds waited, with their sign
