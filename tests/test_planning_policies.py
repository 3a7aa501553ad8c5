"""`hindsight` and `mpc`: their rollouts are the engine itself, and the search finds what there is to find."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from prfaas_env import load_scenario, simulate
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import ControlLoop
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario
from prfaas_env.search.branch import branch, compiled_engine
from prfaas_env.search.improve import improve
from prfaas_env.search.rollout import Rollouts, as_control, as_knobs
from prfaas_env.simulator.conditions import CapacityTimeline
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.signals import SIGNAL
from prfaas_env.workload.stream import RequestStream

BY_PRICE = Control(3, law="price")


def short(name: str, horizon_s: float = 300.0, **more: object) -> Scenario:
    return load_scenario(name).with_overrides(horizon_s=horizon_s, **more)


def begun(scenario: Scenario, seed: int = 0) -> ControlLoop:
    loop = ControlLoop(scenario)
    loop.reset(seed)
    return loop


def rollouts(loop: ControlLoop, **more: float) -> Rollouts:
    engine = compiled_engine(loop.episode.engine, "test")
    return Rollouts(engine, loop.scenario.control_step_s, loop.scenario.horizon_s, cache_rule=loop.cache_rule, **more)


def random_controls(scenario: Scenario, steps: int, rng: np.random.Generator) -> np.ndarray:
    low, high = scenario.deployment.prefill_bounds
    columns = rng.integers(low, high + 1, steps), rng.random(steps) < 0.5
    return np.column_stack([*columns, rng.uniform(0.0, 60_000.0, steps), rng.normal(0.0, 5.0, steps)]).astype(float)


@pytest.mark.parametrize("name", ["paper-stationary-95", "agentic-sessions", "link-shared", "node-failures"])
def test_a_sequence_costs_what_it_costs_step_by_step(name: str) -> None:
    scenario = short(name, horizon_s=305.0)  # the last step is a short one
    knobs = random_controls(scenario, 31, np.random.default_rng(1))
    loop = begun(scenario)
    for row in knobs:
        ended = loop.step_under(as_control(row)).ended
    assert ended
    log = loop.finish()

    played = rollouts(begun(scenario))
    cost = played.cost(played.engine.snapshot(), knobs, 0)
    assert cost.ttft_s == pytest.approx(np.nansum(log["ttft_s"]), rel=1e-12)
    start = played.engine.snapshot()  # where it has ended: nothing is left to play
    assert played.cost(start, knobs, len(knobs)) == (0.0, 0.0)


def test_a_sequence_can_be_taken_up_half_way() -> None:
    scenario = short("paper-stationary-95")
    knobs = random_controls(scenario, 30, np.random.default_rng(2))
    run = rollouts(begun(scenario))
    start = run.engine.snapshot()
    whole = run.cost(start, knobs, 0)
    run.engine.restore(start)
    spent = run.advance(knobs, 0, 17)
    rest = run.cost(run.engine.snapshot(), knobs, 17)
    assert spent.ttft_s + rest.ttft_s == pytest.approx(whole.ttft_s, rel=1e-12)


def test_a_twin_with_the_same_future_goes_on_as_the_run_does() -> None:
    scenario = short("paper-stationary-95")
    loop = begun(scenario)
    for _ in range(15):
        loop.step_under(BY_PRICE)
    stream, now_s = loop.episode.draw.stream, loop.episode.engine.now_s
    later = stream.arrival_s >= now_s
    fields = (stream.arrival_s, stream.input_tokens, stream.output_tokens)
    twin = branch(compiled_engine(loop.episode.engine, "test"), RequestStream(*(field[later] for field in fields)))
    assert twin.now_s == now_s
    knobs = np.tile(as_knobs(BY_PRICE), (15, 1))
    apart = Rollouts(twin, scenario.control_step_s, scenario.horizon_s, start_s=now_s)
    cost = apart.cost(twin.snapshot(), knobs, 0)
    for _ in range(15):
        loop.step_under(BY_PRICE)
    before = loop.timeline[:15, SIGNAL["ttft_sum_s"]].sum()
    assert cost.ttft_s + before == pytest.approx(np.nansum(loop.finish()["ttft_s"]), rel=1e-12)


def test_what_waits_for_ever_is_dearer_than_any_wait() -> None:
    """The twin's link stays down: what is sent there has no TTFT, and must not therefore be free."""
    scenario = short("paper-stationary-50", 60.0, load=0.3)
    draw = scenario.draw(0)
    loop = ControlLoop(scenario)
    loop.begin(replace(draw, capacity=CapacityTimeline(np.array([0.0, 30.0]), np.array([0.0, 100.0]))))
    run = Rollouts(branch(compiled_engine(loop.episode.engine, "test"), draw.stream), 10.0, 60.0)
    start, local = run.engine.snapshot(), np.tile(as_knobs(Control(3, 1e9)), (6, 1))
    sent = run.cost(start, np.tile(as_knobs(Control(3, 0.0)), (6, 1)), 0)
    assert sent == (len(draw.stream), 0.0)
    assert run.cost(start, local, 0).unserved == 0
    policy = load_policy("mpc", scenario, futures=2, horizon_s=60.0, stretches_s=(30.0,))
    for _ in range(3):
        loop.step_under(policy.control(loop))
    assert loop.timeline[:3, SIGNAL["routed_remote"]].sum() == 0


def test_only_snapshots_of_the_compiled_engine_can_be_searched() -> None:
    with pytest.raises(ConfigError, match="mpc: plans on snapshots, which only the engine 'compiled' has"):
        simulate(short("paper-stationary", 30.0), "mpc", engine="reference")


CHOICES = [Control(n, law="price", price_s=price) for n in (2, 4) for price in (0.0, 8.0)]
CHOICES += [Control(n, 16384.0) for n in (2, 4)]


@pytest.mark.parametrize("seed", range(2))
def test_the_search_comes_close_to_the_best_of_all_sequences(seed: int) -> None:
    """Six controls in each of four steps, every sequence tried: the search, which is free to choose others, must end
    within two per cent of the best of them."""
    scenario = load_scenario("drift-mix").with_overrides(
        horizon_s=240.0, control_step_s=60.0, load=1.3, deployment={"conversion_s": 5.0}
    )
    loop = begun(scenario, seed)
    run = rollouts(loop)
    start = run.engine.snapshot()
    every = (np.array([as_knobs(c) for c in chosen]) for chosen in itertools.product(CHOICES, repeat=4))
    optimum = min(run.cost(start, knobs, 0) for knobs in every)
    run.engine.restore(start)
    begin = np.tile(as_knobs(BY_PRICE), (4, 1))
    found, cost = improve([run], begin, [4, 2, 1, 2, 1], scenario.deployment.prefill_bounds)
    assert cost.ttft_s <= 1.02 * optimum.ttft_s
    assert cost < run.cost(start, begin, 0)
    assert run.cost(start, found, 0) == cost


def test_hindsight_is_no_worse_than_any_policy_it_begins_with_and_its_plan_can_be_put_in_force() -> None:
    scenario = short("drift-mix", 600.0, load=1.0)
    hindsight = load_policy("hindsight", scenario, stretches_s=(300.0, 100.0))
    bound = simulate(scenario, hindsight, seed=3).summary
    others = {name: simulate(scenario, name, seed=3).summary for name in hindsight.parameters.starts}
    assert {other["completed"] for other in others.values()} == {bound["completed"]}
    assert bound["ttft_mean_s"] < min(other["ttft_mean_s"] for other in others.values())


def test_hindsight_of_one_routing_law_keeps_to_it() -> None:
    scenario = short("drift-mix", 300.0, load=1.0)
    found = {}
    for law, start, other in (("threshold", "load-aware", "price"), ("price", "least-completion", "threshold")):
        hindsight = load_policy("hindsight", scenario, stretches_s=(150.0, 50.0), laws=(law,))
        run = simulate(scenario, hindsight, seed=3)
        found[law] = run.summary["ttft_mean_s"]
        assert (run.controls["by_price"] == (law == "price")).all()
        assert found[law] <= simulate(scenario, start, seed=3).summary["ttft_mean_s"]
        with pytest.raises(ConfigError, match=f"starts: expected a policy that routes by {other}"):
            simulate(scenario, load_policy("hindsight", scenario, laws=(other,), starts=(start,)), seed=3)
    assert found["threshold"] != found["price"]


def test_mpc_plans_on_what_has_been_seen_and_on_nothing_that_is_to_come() -> None:
    scenario = short("paper-stationary", 120.0, load=1.6)
    controls = []
    for cut_s in (120.0, 60.0):  # the same episode, and one in which nothing arrives in the second half
        loop = ControlLoop(scenario)
        draw = scenario.draw(5)
        loop.begin(type(draw)(draw.stream.before(cut_s), draw.capacity, draw.faults, draw.clock, draw.rate_rps))
        policy = load_policy("mpc", scenario, futures=2, horizon_s=60.0, stretches_s=(30.0,))
        taken = []
        for _ in range(6):
            taken.append(policy.control(loop))
            loop.step_under(taken[-1])
        controls.append(taken)
    assert controls[0] == controls[1]
    assert len(set(controls[0])) > 1


@pytest.mark.parametrize("path", ["/", "./"])
def test_a_folder_is_no_policy(path: str) -> None:
    with pytest.raises(ConfigError, match=f"^{path}: is a folder, expected a model"):
        load_policy(path, load_scenario("paper-stationary"))


def test_planning_takes_sensible_parameters_only() -> None:
    scenario = short("paper-stationary")
    for parameters, said in (
        ({"stretches_s": ()}, "stretches_s: expected at least one"),
        ({"starts": ("mpc",)}, "starts: expected at least one policy, none that plans"),
        ({"finalist": 2}, "finalist: unknown key; did you mean .finalists"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_policy("hindsight", scenario, **parameters)
    with pytest.raises(ConfigError, match="horizon_s: expected at least replan_s 90, got 60"):
        load_policy("mpc", scenario, horizon_s=60.0, replan_s=90.0)
