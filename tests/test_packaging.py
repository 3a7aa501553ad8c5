"""What is shipped: a light import, exact pins, and a wheel and an sdist that hold all that they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import prfaas_env

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {"numba", "optuna", "plotly", "polars", "ray", "scipy", "simpy", "stable_baselines3", "torch"}


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """What a command prints; a failure shows its own words."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    split = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in split}


def test_import_is_light() -> None:
    code = """if True:
        import json, sys, time
        start = time.perf_counter()
        import prfaas_env
        print(json.dumps([time.perf_counter() - start, sorted({name.partition(".")[0] for name in sys.modules})]))
    """
    runs = [json.loads(run(sys.executable, "-c", code)) for _ in range(3)]
    assert not HEAVY & set(runs[0][1])
    assert min(seconds for seconds, _ in runs) < 1.0


def test_version_has_one_home() -> None:
    assert prfaas_env.__version__ == metadata.version("prfaas_env") == PROJECT["version"]


@pytest.mark.parametrize("name", prfaas_env.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(prfaas_env, name) is not None
    assert name in dir(prfaas_env)


def test_requirements_are_pinned_and_installed_as_pinned() -> None:
    pinned = pins()
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in map(Requirement, (line for group in groups for line in group)):
        name = canonicalize_name(requirement.name)
        if name == canonicalize_name(PROJECT["name"]):
            continue
        assert name in pinned, f"{name} is missing in constraints.txt"
        assert pinned[name] in requirement.specifier, f"constraints.txt pins {name} outside {requirement.specifier}"
    installed = {name: Version(metadata.version(name)) for name in pinned}
    # A local part (+cpu) names the build, not the release.
    assert {name: Version(version.public) for name, version in installed.items()} == pinned


def test_core_works_without_the_extras() -> None:
    """Someone who installed no extra can import every module that is not made for one."""
    code = """if True:
        import importlib, pkgutil, sys
        extras = "PIL onnx onnxruntime optuna plotly polars ray sb3_contrib stable_baselines3 tensorboard torch"
        for name in extras.split():
            sys.modules[name] = None
        import prfaas_env
        skipped = ("prfaas_env.__main__", "prfaas_env.environment.sb3", "prfaas_env.training.")
        for module in pkgutil.walk_packages(prfaas_env.__path__, "prfaas_env."):
            if not module.name.startswith(skipped):
                importlib.import_module(module.name)
                print(module.name)
    """
    assert "prfaas_env.config" in run(sys.executable, "-c", code).split()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it: so the sdist is complete."""
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder, "-t")
    run(*build, "sdist")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    run(*build, "wheel", cwd=source)
    return folder


def tracked(*folders: str) -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of files to compare with")
    return set(run("git", "ls-files", *folders).splitlines())


def test_wheel_holds_all_code_and_data(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        inside = set(wheel.namelist())
    assert tracked("prfaas_env") <= inside
    assert {f"prfaas_env/{path}" for path in tracked("agents", "hardware_profiles")} <= inside
    assert {PurePosixPath(path).parts[0] for path in inside} == {
        "prfaas_env",
        f"prfaas_env-{PROJECT['version']}.dist-info",
    }


def test_sdist_holds_every_tracked_file(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    assert tracked(".") <= inside


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, to be put in front of everything else."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def test_wheel_works_away_from_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    """The package finds its own profiles, deployments and policies."""
    code = """if True:
        import prfaas_env
        from prfaas_env.resources import names
        print(prfaas_env.__file__)
        for name in names("hardware_profiles"):
            prfaas_env.load_profile(name)
        print(prfaas_env.load_deployment("prfaas-pd").name)
    """
    home, deployment = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(unpacked)).split()
    assert Path(home).is_relative_to(unpacked)
    assert deployment == "prfaas-pd"


SHORT = "{name: short, extends: paper-stationary-80, horizon_s: 300, control_step_s: 30}"
EVALUATE = (
    "evaluate --policies dual-timescale,load-aware,learned --scenarios short.yaml --seeds 1 --workers 1 --out out"
)


def evaluated(interpreter: Path | str, folder: Path, *more: str, **environment: str) -> dict[str, float]:
    """Mean TTFT of each policy, from an evaluation in a folder that has nothing of the project."""
    (folder / "short.yaml").write_text(SHORT)
    run(interpreter, "-m", "prfaas_env", *EVALUATE.split(), *more, cwd=folder, **environment)
    results = json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["command"].startswith("python -m prfaas_env evaluate --policies dual-timescale,")
    return {row["policy"]: row["ttft_mean_s"] for row in results["rows"]}


def test_wheel_evaluates_away_from_the_checkout_as_in_it(unpacked: Path, tmp_path: Path) -> None:
    """``evaluate.py`` is not in the wheel; the command is, with tuned parameters and the shipped model.
    (The reference engine, because kernels in a new place are compiled anew, for a minute.)"""
    found = evaluated(sys.executable, tmp_path, "--engine", "reference", PYTHONPATH=str(unpacked))
    scenario = prfaas_env.load_scenario(tmp_path / "short.yaml")
    here = {name: prfaas_env.simulate(scenario, name, 0, "reference").summary["ttft_mean_s"] for name in found}
    assert found == here
    assert len(found) == 3


@pytest.mark.slow
def test_wheel_installs_with_its_dependencies(built: Path, tmp_path: Path) -> None:
    """A user's first minutes: a new environment, the wheel from the network's index, no extra, a few commands."""
    venv.create(tmp_path / "venv", with_pip=True)
    interpreter = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(interpreter, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", next(built.glob("*.whl")))
    plan = json.loads(run(interpreter, "-m", "prfaas_env", "plan", "--json", cwd=tmp_path))
    assert plan["n_prefill"] >= 1
    listed = json.loads(run(interpreter, "-m", "prfaas_env", "list", "--json", cwd=tmp_path))
    assert {"deployments", "profiles", "scenarios", "policies"} <= set(listed)
    found = evaluated(interpreter, tmp_path, PRFAAS_CACHE_DIR=str(tmp_path / "kernels"))
    assert all(ttft_s > 0 for ttft_s in found.values())
    refused = subprocess.run(
        [interpreter, "-m", "prfaas_env", "train", "--scenario", "drift-mix", "--out", "runs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stderr.splitlines()) == (
        2,
        ["error: training needs stable_baselines3: pip install 'prfaas_env[train]'"],
    )
