"""Executors: the same results wherever they are made; workers that die, errors, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from prfaas_env.config import ConfigError
from prfaas_env.parallel.choice import make_executor
from prfaas_env.parallel.cluster import RayCluster, check_cluster
from prfaas_env.parallel.executor import RETRIES, Executor, Serial, WorkersLost
from prfaas_env.parallel.local import LocalPool

ROOT = Path(__file__).resolve().parent.parent

# Workers import functions by their module, and cannot import that of a test: these are Python's own.
SLEEP = time.sleep


def outcome_of(executor: Executor, function: Any, items: Any) -> list[Any]:
    return [result for _, result in sorted(executor.run(function, items))]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_comes_back_once_with_its_number(workers: int) -> None:
    with make_executor(workers, None, pytest.fail) as executor:
        for batch in (range(30), range(30, 33)):
            assert outcome_of(executor, hex, batch) == [hex(i) for i in batch]
        assert outcome_of(executor, hex, []) == []
    assert not [child for child in active_children() if child.name == "prfaas_env worker"]


def test_items_are_taken_when_there_is_room_for_them() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for i in range(10):
            taken.append(i)
            yield i

    with LocalPool(2, pytest.fail) as pool:
        results = pool.run(hex, items())
        next(results)
        assert len(taken) <= 4


@pytest.mark.parametrize("make", [Serial, lambda: LocalPool(2, pytest.fail)], ids=["serial", "pool"])
def test_errors_come_as_they_are_and_are_not_tried_again(make: Any) -> None:
    with make() as executor, pytest.raises(ValueError, match="invalid literal for int"):
        list(executor.run(int, ["1", "x"]))
    with make() as executor, pytest.raises(ConfigError, match=r"^cluster: expected ray"):
        list(executor.run(check_cluster, ["ray", "no"]))


def test_the_item_of_a_killed_worker_is_given_to_another() -> None:
    said: list[str] = []
    with LocalPool(2, said.append) as pool:
        results = pool.run(SLEEP, [0.0, *[0.2] * 8])
        found = dict([next(results)])
        os.kill(active_children()[0].pid or 0, signal.SIGKILL)
        found.update(results)
    assert sorted(found) == list(range(9))
    assert len(said) == 1
    assert said[0].startswith("a worker died (by signal 9): 0.")
    assert said[0].endswith(f"is tried again (1 of {RETRIES})")


def test_an_item_that_kills_its_workers_is_given_up() -> None:
    said: list[str] = []
    with LocalPool(2, said.append) as pool, pytest.raises(WorkersLost, match=r"^3: 3 workers in turn died of it"):
        list(pool.run(os._exit, [3]))
    assert said == [f"a worker died (with exit code 3): 3 is tried again ({i} of {RETRIES})" for i in (1, 2)]


def test_leaving_a_run_ends_what_is_under_way() -> None:
    with LocalPool(2, pytest.fail) as pool:
        results = pool.run(SLEEP, [0.0, 60.0, 60.0])
        next(results)
        workers = active_children()
        assert len(workers) == 2
        begin_s = time.monotonic()
        results.close()  # type: ignore[attr-defined]
        assert not set(active_children()) & set(workers)
        assert time.monotonic() - begin_s < 5.0
        assert {worker.exitcode for worker in workers} == {-signal.SIGTERM}  # ended, not waited for
        assert outcome_of(pool, hex, [5]) == ["0x5"]  # and the next run has workers again


def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import multiprocessing, time\n"
        "from prfaas_env.parallel.local import LocalPool\n"
        "if __name__ == '__main__':\n"
        "    with LocalPool(2, print) as pool:\n"
        "        results = pool.run(time.sleep, [0.0, 300.0, 300.0])\n"
        "        next(results)\n"
        "        print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "        list(results)\n",
        encoding="utf-8",
    )
    with subprocess.Popen(
        [sys.executable, program], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(workers) == 2
    deadline_s = time.monotonic() + 20.0
    while (alive := [pid for pid in workers if _runs(pid)]) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert not alive


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- Ray ------------------------------------------------------------------------------------------------------------


def test_addresses_of_clusters() -> None:
    assert check_cluster("ray") is None
    assert check_cluster("ray://head") == ("head", 10001)
    assert check_cluster("ray://10.0.0.1:99") == ("10.0.0.1", 99)
    assert check_cluster("ray://[::1]:99") == ("::1", 99)
    for wrong in ("", "Ray", "ray://", "ray://a:b", "dask://head", "ray://head:1:2"):
        with pytest.raises(ConfigError, match="expected ray or ray://host:port"):
            check_cluster(wrong)


def test_without_ray_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"^cluster: needs Ray: pip install 'prfaas_env\[cluster\]'$"):
        RayCluster("ray", 2, print).__enter__()


def test_a_cluster_does_the_same_work() -> None:
    """Results, errors, workers that die and evaluations, in one Ray: starting one takes seconds."""
    pytest.importorskip("ray", reason="needs the extra 'cluster'")
    from prfaas_env.evaluation.runner import plan_cells, run_cells
    from prfaas_env.scenario import load_scenario

    short = load_scenario("drift-mix").with_overrides(name="short", horizon_s=300.0, control_step_s=30.0)
    cells = plan_cells(["static", "least-completion"], [short], [3], "compiled")
    alone = dict(run_cells(cells, Serial()))
    said: list[str] = []
    with RayCluster("ray", 2, said.append) as cluster:
        assert outcome_of(cluster, hex, range(20)) == [hex(i) for i in range(20)]
        for i, result in run_cells(cells, cluster):
            assert result.row == alone[i].row
            assert result.ttft_s.tobytes() == alone[i].ttft_s.tobytes()
            assert result.timeline.tobytes() == alone[i].timeline.tobytes()
        with pytest.raises(ConfigError, match=r"^cluster: expected ray"):
            list(cluster.run(check_cluster, ["ray", "no"]))
        assert said == []
        with pytest.raises(WorkersLost, match=r"^3: 3 workers in turn died of it"):
            list(cluster.run(os._exit, [3]))
    assert said == [f"a worker died (WorkerCrashedError): 3 is tried again ({i} of {RETRIES})" for i in (1, 2)]
