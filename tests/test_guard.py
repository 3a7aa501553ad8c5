"""Outside what it was trained on a model gives way to its scheduler, and the figures say how often."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agents
from agents.card import ModelCard
from agents.guard import DWELL_S, FAR, HOLD_S, MARGIN, NEAR, PATIENCE_S, TURN_S, WATCH_S, Guard
from agents.portable import Network, Portable
from prfaas_env.config import ConfigError
from prfaas_env.environment.observation import COMPONENTS, GROUPS, decode, encode, layout_hash
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.training.ranges import Seen

SHIPPED = Path(agents.__file__).parent / "pretrained" / "residual" / "model.npz"
WIDTH = len(COMPONENTS)
LINK = [c.name for c in COMPONENTS].index("link_utilisation")
BACKLOG = [c.name for c in COMPONENTS].index("link_backlog")
TARGET = [c.name for c in COMPONENTS].index("target_over_advised")
IDLE = {"link_utilisation": (0.0, 0.0), "link_backlog": (0.0, 0.0)}
"""A range of two components on the scale's lower end."""


class Constant:
    """A model that always says the same; the state it hands on counts its steps."""

    action_mode: Any = "residual"

    def predict(self, observation: np.ndarray, state: Any = None, *_: Any) -> tuple[np.ndarray, Any]:
        counted = (np.zeros(len(np.atleast_2d(observation))) if state is None else state[0]) + 1
        action = np.array([0.8, -0.1], dtype=np.float32)
        return np.tile(action, (len(observation), 1)) if np.ndim(observation) == 2 else action, (counted,)


def card(action: Any = "residual", **ranges: tuple[float, ...]) -> ModelCard:
    return ModelCard("PPO", action, layout_hash(), ranges=ranges)


def beyond(*distances: float, component: int = LINK) -> np.ndarray:
    """Observations in range but for one component, which lies so far above its range and the margin."""
    rows = np.full((len(distances), WIDTH), -1.0, dtype=np.float32)
    rows[:, TARGET] = 0.0  # N_p is N_p*
    rows[:, component] += np.array(distances, dtype=np.float32) + MARGIN
    return rows


def test_the_action_fades_from_the_model_s_to_the_scheduler_s(scenario: Scenario) -> None:
    guard = Guard(Constant(), card(**IDLE), scenario)
    middle = (NEAR + FAR) / 2
    actions, state = guard.predict(beyond(0.0, NEAR - 0.01, middle, 1.94))
    np.testing.assert_array_equal(
        actions[:2], np.array([[0.8, 0.0]] * 2, dtype=np.float32)
    )  # the model's own, and N_p kept
    np.testing.assert_allclose(actions[2], [0.4, 0.0], rtol=1e-5)  # half of it
    np.testing.assert_allclose(actions[3], [0.8 * 0.06, 0.0], rtol=1e-3)
    assert actions.dtype == np.float32
    np.testing.assert_array_equal(state[0], [0, 0, 1, 1])
    both = beyond(1.5)
    both[0, BACKLOG] = 0.0
    np.testing.assert_array_equal(guard.predict(both)[0], [[0.0, 0.0]])  # distances add up


@pytest.mark.parametrize("name", ["control_step_s", "local_instances", "remote_instances"])
def test_another_step_or_size_than_in_training_is_another_world(scenario: Scenario, name: str) -> None:
    """However near it is on the observation's scale."""
    rows = beyond(0.01, component=[c.name for c in COMPONENTS].index(name))
    actions, state = Guard(Constant(), card(**{name: (0.0, 0.0)}), scenario).predict(rows)
    np.testing.assert_array_equal(actions, [[0.0, 0.0]])
    assert state[0] == 1


def test_what_is_no_number_is_outside(scenario: Scenario) -> None:
    rows = beyond(0.0)
    rows[0, BACKLOG] = np.nan
    assert Guard(Constant(), card(**IDLE), scenario).distance(rows) == np.inf


def test_between_a_price_and_a_threshold_the_law_is_that_of_the_more_trusted(scenario: Scenario) -> None:
    """Half a threshold would be no price: the route of the model stays whole while it is trusted by half or more."""

    class Overloaded(Constant):
        action_mode = "price"

        def predict(self, observation: np.ndarray, state: Any = None, *_: Any) -> tuple[np.ndarray, Any]:
            return np.tile(np.array([-0.7, 0.0], dtype=np.float32), (len(observation), 1)), state

    actions, state = Guard(Overloaded(), card("price", **IDLE), scenario).predict(beyond(0.0, 1.4, 1.6, 3.0))
    np.testing.assert_allclose(actions[:, 0], [-0.7, -0.7, 0.0, 0.0])
    np.testing.assert_array_equal(state[0], [0, 1, 1, 1])


def test_components_without_a_range_are_free(scenario: Scenario) -> None:
    guard = Guard(Constant(), card(**IDLE), scenario)
    rows = np.ones((1, WIDTH), dtype=np.float32)
    rows[:, [LINK, BACKLOG]] = -1.0
    assert guard.distance(rows) == 0.0


def test_a_batch_acts_as_its_rows_do_and_forgets_at_the_start_of_an_episode(scenario: Scenario) -> None:
    guard = Guard(Constant(), card(**IDLE), scenario)
    before = repr(vars(guard))
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (8, 3, WIDTH)).astype(np.float32)
    starts = rng.random((8, 3)) < 0.3
    state, states = None, [None] * 3
    for observations, start in zip(rows, starts, strict=True):
        together, state = guard.predict(observations, state, start)
        each = [guard.predict(observations[i], states[i], start[i : i + 1]) for i in range(3)]
        np.testing.assert_array_equal(together, [action for action, _ in each])
        states = [one for _, one in each]
        np.testing.assert_array_equal(state[0], [one[0][0] for one in states])
    np.testing.assert_array_equal(state[5], [8, 8, 8])  # the model's own state has travelled with it
    assert state[0].max() < 8
    assert repr(vars(guard)) == before


@pytest.mark.parametrize("action", ["residual", "absolute", "price"])
def test_far_outside_every_form_is_its_scheduler(scenario: Scenario, action: Any) -> None:
    """Step for step the requests go as under the scripted policy, and the summary says that it was so throughout."""
    model = Constant()
    model.action_mode = action
    elsewhere = card(action, local_instances=(1e5, 1e5), remote_instances=(1e5, 1e5))
    found = simulate(scenario, Guard(model, elsewhere, scenario), 3)
    known = simulate(scenario, "least-completion" if action == "price" else "windowed-closed-form", 3)
    assert found.summary["held_back_share"] == 1.0
    assert "held_back_share" not in known.summary
    np.testing.assert_array_equal(found.timeline["prefill_nodes"], known.timeline["prefill_nodes"])
    assert found.summary["ttft_mean_s"] == pytest.approx(known.summary["ttft_mean_s"], rel=1e-6)


def test_the_shipped_model_is_free_where_it_was_trained() -> None:
    assert simulate("paper-stationary-80", "learned", 510_000).summary["held_back_share"] == 0.0


def held(scenario: Scenario, waiting: np.ndarray, **others: float) -> np.ndarray:
    """On which steps of ten seconds a model is held back while so many requests wait, at 2 arrivals a second."""
    guard, state, acted = Guard(Constant(), card(), scenario), None, []
    values = {c.name: (c.low + c.high) / 2 for c in COMPONENTS}
    values |= {"arrivals": 2.0, "arrivals_window": 2.0, "lambda_max": 4.0, "load": 0.5, "control_step_s": 10.0}
    for each in waiting:
        seen = values | {"waiting": float(each)} | others
        actions, state = guard.predict(encode(np.array([seen[c.name] for c in COMPONENTS]))[None], state)
        acted.append(actions[0].tolist() == [0.0, 0.0])
    assert guard.held_back_steps(state) == sum(acted)
    return np.array(acted)


LATE = 2.0 * PATIENCE_S * 2.0
WATCH, HOLD, TURN = (round(seconds / 10) for seconds in (WATCH_S, HOLD_S, TURN_S))


def test_a_model_under_which_requests_wait_for_no_reason_is_held_for_a_while(scenario: Scenario) -> None:
    """The load could be sustained, and as many wait after the watch. Some steps more: the observation is rounded."""
    steps = held(scenario, np.where(np.arange(2 * HOLD) < WATCH + 3, LATE, 0.4 * LATE))
    assert not steps[:WATCH].any()
    assert steps[WATCH + 2 : WATCH + HOLD].all()
    assert not steps[WATCH + HOLD + 4 :].any()


@pytest.mark.parametrize(
    ("factor", "others"), [(0.4, {}), (1.0, {"load": 1.0}), (1.0, {"lambda_max": 2.0})], ids=["few", "load", "window"]
)
def test_few_that_wait_and_an_overload_are_nobody_s_fault(
    scenario: Scenario, factor: float, others: dict[str, float]
) -> None:
    assert not held(scenario, np.full(HOLD, factor * LATE), **others).any()


def test_a_queue_that_is_worked_off_is_left_to_the_model(scenario: Scenario) -> None:
    assert not held(scenario, np.linspace(3 * LATE, LATE, 2 * HOLD)).any()


def test_a_model_gets_its_turn_where_the_scheduler_does_no_better(scenario: Scenario) -> None:
    """As many wait after the hold as before it: the model is left alone for a while. Fewer, but too many: held."""
    as_many = held(scenario, np.full(WATCH + HOLD + TURN + 30, LATE))
    begins = int(np.flatnonzero(as_many)[0])
    assert as_many[begins : begins + HOLD].all()
    assert not as_many[begins + HOLD + 2 : begins + HOLD + TURN - 2].any()
    assert as_many[-8:].all()
    fewer = held(scenario, np.concatenate([np.full(WATCH + 3, LATE), np.linspace(LATE, 0.8 * LATE, 2 * HOLD)]))
    assert fewer[WATCH + 3 :].all()


class Wishing:
    """A model whose wishes for N_p, over N_p*, are given step by step."""

    action_mode: Any = "residual"

    def __init__(self, *wishes: int) -> None:
        self._wishes = list(wishes)

    def predict(self, observation: np.ndarray, state: Any = None, *_: Any) -> tuple[np.ndarray, Any]:
        return np.array([[0.0, self._wishes.pop(0) / 1.5]], dtype=np.float32), state


ROOMY = {
    "control_step_s": 10.0,
    "local_instances": 8.0,
    "prefill_nodes": 3.0,
    "advised_prefill": 3.0,
    "decode_present_split_rps": 5.0,
    "arrivals": 1.0,
    "arrivals_window": 1.0,
    "lambda_max": 3.0,
}


def shifts(scenario: Scenario, wishes: list[int], **others: float) -> list[int]:
    """What a guarded model sets N_p to, over N_p*, where three are in force and three are advised."""
    guard, state, taken = Guard(Wishing(*wishes), card(), scenario), None, []
    for _ in wishes:
        seen = ROOMY | others
        row = encode(np.array([seen.get(c.name, 0.0) for c in COMPONENTS]))[None]
        action, state = guard.predict(row, state)
        taken.append(round(1.5 * float(action[0, 1])))
    return taken


def test_n_p_moves_when_a_move_has_been_asked_for_long_enough(scenario: Scenario) -> None:
    assert round(DWELL_S / 10) == 3
    assert shifts(scenario, [1, -1, 1, -1, 0, 1, 1, 0]) == [0] * 8
    assert shifts(scenario, [1, 1, 1, 1]) == [0, 0, 1, 1]
    assert shifts(scenario, [-1, -2, -2, 1]) == [0, 0, -2, 0]
    assert shifts(scenario, [0, 0, 0], target_over_advised=2.0) == [2, 2, 0]


@pytest.mark.parametrize(("arrivals", "most"), [(1.0, 2), (3.5, 1), (4.4, 0), (9.0, 0)])
def test_n_p_leaves_a_tenth_of_decode_free(scenario: Scenario, arrivals: float, most: int) -> None:
    """Five decode instances do 5 requests a second; where N_p* itself is too much, it is not the model's doing."""
    assert shifts(scenario, [2] * 3, arrivals=arrivals)[-1] == most
    assert shifts(scenario, [-1] * 3, arrivals=arrivals)[-1] == -1


def test_the_leaderboard_says_how_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.guard.PATIENCE_S", 0.1)
    monkeypatch.setattr("agents.guard.WATCH_S", 10.0)
    for name, load in (("calm", 0.5), ("full", 1.5)):  # only the load of the first could be sustained
        (tmp_path / f"{name}.yaml").write_text(
            f"{{name: {name}, extends: paper-stationary, load: {load}, horizon_s: 300}}"
        )
    paths = [str(path) for path in sorted(tmp_path.glob("*.yaml"))]
    evaluation = evaluate(["learned", "static"], paths, range(510_000, 510_002), tmp_path / "out", engine="compiled")
    held_back = [r["held_back_share"] for r in evaluation.rows if r["policy"] == "learned" and r["scenario"] == "calm"]
    share = np.mean(held_back)
    (note,) = evaluation.notes
    assert note.startswith("policy learned: gave way to the scheduler it corrects, outside its training ranges: ")
    assert note.endswith(f": {share:.1%} of the steps on calm")
    assert f"**Note**: {note}" in (tmp_path / "out" / "leaderboard.md").read_text(encoding="utf-8")


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_ranges_leave_out_a_thousandth_at_each_end_and_no_more() -> None:
    rng = np.random.default_rng(0)
    middle = np.array([(c.low + c.high) / 2 for c in COMPONENTS])
    rows = np.tile(encode(middle), (20_000, 1))
    rows[:, LINK] = rng.uniform(-0.6, 0.4, len(rows))  # linear from 0 to 1
    rows[rng.choice(len(rows), 10, replace=False), LINK] = 1.0  # one in two thousand
    seen = Seen()
    assert seen.ranges() == {}
    for part in np.array_split(rows, 7):
        seen.add(part)
    ranges = seen.ranges()
    assert set(ranges) == {c.name for c in COMPONENTS}
    low, high = ranges["link_utilisation"]
    assert low == pytest.approx(0.2, abs=0.003)
    assert high == pytest.approx(0.7, abs=0.003)
    del ranges["link_utilisation"]
    same = decode(encode(middle))
    for name, (least, greatest) in ranges.items():  # of what never moved: a bin of the scale, rounded
        assert least <= same[name] * (1 + 1e-3) + 1e-3
        assert greatest >= same[name] * (1 - 1e-3) - 1e-3


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"link_utilization": (0, 1)}, "no component is called 'link_utilization'; did you mean 'link_utilisation'"),
        ({"load": (1, 0)}, r"ranges.load: expected \[least, greatest\], got \[1.0, 0.0\]"),
        ({"load": (1,)}, r"ranges.load: expected \[least, greatest\]"),
    ],
)
def test_a_card_with_other_ranges_is_refused(ranges: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        card(**ranges)


def test_a_card_without_ranges_leaves_the_model_alone(scenario: Scenario, tmp_path: Path) -> None:
    network, own = Network.load(SHIPPED)
    network.save(tmp_path / "free.npz", replace(own, ranges={}))
    assert isinstance(load_policy(SHIPPED, scenario), Guard)
    assert isinstance(load_policy(tmp_path / "free.npz", scenario), Portable)


def test_training_notes_what_it_has_met_also_when_it_is_resumed(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    pytest.importorskip("tensorboard", reason="needs the extra 'train'")
    from prfaas_env.training.run import train

    (tmp_path / "short.yaml").write_text("{name: short, extends: paper-stationary-80, horizon_s: 200}")
    settings = {
        "scenarios": [str(tmp_path / "short.yaml")],
        "timesteps": 160,
        "n_envs": 4,
        "rollout_steps": 20,
        "minibatches": 2,
        "checkpoint_every": 80,
        "validation_seeds": 1,
        "observation_groups": ["flow", "link", "size"],
    }
    folder = train(settings, tmp_path / "run", None)
    first = ModelCard.parse((folder / "checkpoints" / "000000160" / "model.json").read_text(), "card")
    assert first.ranges["local_instances"] == pytest.approx((8, 8), rel=0.02)
    assert first.ranges["arrivals"][1] > 0.5
    assert set(first.ranges) == {COMPONENTS[k].name for group in settings["observation_groups"] for k in GROUPS[group]}
    train({"timesteps": 240}, None, folder)
    then = ModelCard.parse((folder / "checkpoints" / "000000240" / "model.json").read_text(), "card")
    assert then.ranges["arrivals"][1] >= first.ranges["arrivals"][1]


def test_an_older_card_gets_its_ranges_from_episodes_of_its_training_scenarios(tmp_path: Path) -> None:
    from prfaas_env.training.ranges import played

    shipped = Portable(SHIPPED)
    scenario = load_scenario("paper-stationary-80").with_overrides(horizon_s=200.0)
    ranges = played(shipped, "residual", [scenario], 1_000_000, copies=4).ranges()
    assert ranges == played(shipped, "residual", [scenario], 1_000_000, copies=4).ranges()
    assert ranges["remote_instances"] == pytest.approx((4, 4), rel=0.02)
    low, high = ranges["link_utilisation"]
    assert 0.0 <= low < high < 0.5
