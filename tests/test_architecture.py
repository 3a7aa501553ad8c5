"""The order of the layers, read from the imports: each layer is ignorant of those after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from prfaas_env.evaluation.fingerprint import hashed_sources

ROOT = Path(__file__).resolve().parent.parent

# A module belongs to the longest prefix that fits. Layers on one line may use each other.
LAYERS = [
    ["prfaas_env.config"],
    [
        "prfaas_env.resources",
        "prfaas_env.extending",
        "prfaas_env.seeds",
        "prfaas_env.processes",
        "prfaas_env.parallel",
        "prfaas_env.profiles",
        "prfaas_env.attention",
        "prfaas_env.profile_files",
        "prfaas_env.deployment",
    ],
    # What is said to an engine and heard from it: plain data, which the closed form and scenarios share.
    ["prfaas_env.simulator.conditions", "prfaas_env.simulator.control"],
    ["prfaas_env.simulator.signals", "prfaas_env.simulator.log"],
    ["prfaas_env.workload", "prfaas_env.link_process", "prfaas_env.faults"],
    ["prfaas_env.theory"],
    ["prfaas_env.scenario"],
    ["prfaas_env.planning"],
    ["prfaas_env.simulator"],
    ["prfaas_env.environment"],
    ["prfaas_env.search"],
    ["prfaas_env.study"],
    ["prfaas_env.policies", "agents"],
    ["prfaas_env.pages"],
    ["prfaas_env.evaluation", "prfaas_env.training", "prfaas_env.tuning"],
    ["prfaas_env.leaderboard"],
    ["prfaas_env.describe"],
    ["prfaas_env.planner"],
    ["prfaas_env.cli", "prfaas_env.__main__"],
]
RANK = {prefix: rank for rank, layer in enumerate(LAYERS) for prefix in layer}

# Who may import a library; whatever is not named here is free.
ONLY_IN = {
    "gymnasium": ("prfaas_env.environment", "prfaas_env.training", "agents"),
    "simpy": ("prfaas_env.simulator.reference",),
    "click": ("prfaas_env.cli", "prfaas_env.__main__"),
    "stable_baselines3": ("prfaas_env.environment", "prfaas_env.training", "agents"),
    "torch": ("prfaas_env.training", "agents"),
    "onnx": ("agents",),
    "onnxruntime": ("agents",),
    "plotly": ("prfaas_env.pages",),
    "ray": ("prfaas_env.parallel.cluster",),
    "optuna": ("prfaas_env.tuning",),
}

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in ("prfaas_env", "agents")
    for path in (ROOT / folder).rglob("*.py")
}


def imports(module: str, path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports, at the top or inside a function."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in MODULES else base


def prefix_of(module: str) -> str | None:
    return max((p for p in RANK if module == p or module.startswith(f"{p}.")), key=len, default=None)


def test_every_module_has_a_layer() -> None:
    assert [name for name in MODULES if name != "prfaas_env" and prefix_of(name) is None] == []


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"prfaas_env"}))
def test_imports_point_backwards(module: str) -> None:
    own = prefix_of(module)
    for line, imported in imports(module, MODULES[module]):
        where = f"{MODULES[module].relative_to(ROOT)}:{line} imports {imported}"
        owners = ONLY_IN.get(imported.partition(".")[0])
        assert owners is None or module.startswith(owners), f"{where}, which only {' and '.join(owners)} may"
        layer = prefix_of(imported)
        if own and layer:
            assert RANK[layer] <= RANK[own], f"{where}, a layer after {own}"


def test_the_code_behind_a_cell_is_in_its_hash() -> None:
    """All that running a cell imports, but for what carries it to a worker: results of other code are never mixed."""
    left, reached = ["prfaas_env.evaluation.runner", *(name for name in MODULES if name.startswith("agents"))], set()
    while left:
        if (module := left.pop()) not in reached and not module.startswith("prfaas_env.parallel"):
            reached.add(module)
            left += [imported for _, imported in imports(module, MODULES[module]) if imported in MODULES]
    hashed = set(hashed_sources())
    assert [name for name in sorted(reached) if MODULES[name] not in hashed] == []
    assert {f"prfaas_env.{name}" for name in ("simulator.reference.engine", "workload.lengths", "scenario")} <= reached
    assert not any(path.is_relative_to(ROOT / "prfaas_env" / "pages") for path in hashed)
