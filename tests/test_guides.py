"""What the pages show runs: blocks in order, in an empty folder; errors of the FAQ are raised, word for word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pytest

import prfaas_env
from prfaas_env.cli.app import main
from prfaas_env.environment.env import PrfaaSEnv

ROOT = Path(__file__).resolve().parent.parent
GUIDES = ["docs/quickstart.md", *(f"docs/guides/{name}.md" for name in ("profile", "trace", "policy", "mechanism"))]
PAGES = ["README.md", "docs/api.md", "docs/environment.md", *GUIDES]
LEAVES = {"docs/quickstart.md": ["results/leaderboard.md", "results/report.html", "results/learned-short-0.gif"]}
COMMAND = "python -m prfaas_env "


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page that are to be run: ``python``, ``sh``, and files, whose title is their name."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r'^```(python|sh|yaml)(?: title="(.*?)")?\n(.*?)^```', text, flags=re.MULTILINE | re.DOTALL)
    return [Block(*one) for one in found]


def command(line: str) -> None:
    assert line.startswith(COMMAND), f"{line}: not a command of the package"
    main.main(shlex.split(line.removeprefix(COMMAND)), prog_name=COMMAND.strip(), standalone_mode=False)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("PIL", "plotly", "polars"):
        pytest.importorskip(needed, reason="needs the extras 'render', 'report' and 'traces'")
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {"__name__": "__main__"}
    assert blocks(page)
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, page, "exec"), shown)
        elif block.language == "sh":
            for line in block.text.splitlines():
                command(line)
    assert set(LEAVES.get(page, [])) <= {str(path) for path in Path().rglob("*")}


# --- the FAQ --------------------------------------------------------------------------------------------------------

FILES = {
    "misspelt.yaml": "{extends: prfaas-pd, name: m, link: {capacity_gpbs: 10}}",
    "twice.yaml": "extends: drift-mix\nname: a\nname: b\n",
    "profile.yaml": "{extends: hybrid-1t-8xh20, name: m}",
    "nine.yaml": "{extends: prfaas-pd, name: m, local: {prefill: 9}}",
    "models.yaml": "{extends: prfaas-pd, name: m, local: {profile: qwen3-235b-8xh20}}",
    "sourceless.yaml": "{extends: hybrid-1t-8xh20, name: m, price_usd_per_hour: 9}",
    "aimless.yaml": "{extends: drift-mix, workload: {kind: trace, path: t.csv, rate_scale: 1, length_scale: 1}}",
    "traceless.yaml": "{extends: mooncake-conversation, name: m, workload: {path: nowhere.jsonl}}",
    "modeless.py": "class Mine:\n    def predict(self, observation, **_):\n        return [0, 0], None\n",
}


def ran(line: str) -> Callable[[], object]:
    return lambda: main.main(line.split(), standalone_mode=False)


def acted(*action: float) -> None:
    env = PrfaaSEnv()
    env.reset(seed=0)
    env.step(np.array(action))


EVALUATE = "evaluate --scenarios drift-mix --seeds 1 --out out"
PROVOKED: list[Callable[[], object]] = [
    ran("plan --deployment prfaas-dp"),
    ran("plan --deployment nowhere.yaml"),
    ran("plan --deployment misspelt.yaml"),
    ran("describe twice.yaml"),
    ran("plan --deployment profile.yaml"),
    ran("plan --deployment nine.yaml"),
    ran("plan --deployment models.yaml"),
    lambda: prfaas_env.load_profile("sourceless.yaml"),
    ran("describe aimless.yaml"),
    ran("describe traceless.yaml"),
    ran(f"{EVALUATE} --policies modeless.py"),
    ran(f"{EVALUATE} --policies static --seed-start 1000000"),
    ran("train --algo dqn --scenario train --out run"),
    ran("train --scenario drift-mix"),
    lambda: acted(float("nan"), 0.0),
    lambda: PrfaaSEnv().step(np.zeros(2)),
]


def faq() -> list[str]:
    return re.findall(r"^### `(.*)`$", (ROOT / "docs" / "faq.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize(("shown", "provoke"), list(zip(faq(), PROVOKED, strict=True)), ids=faq())
def test_an_error_of_the_faq_is_raised_word_for_word(
    shown: str, provoke: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    with pytest.raises((ValueError, RuntimeError, click.ClickException)) as refusal:
        provoke()
    said = refusal.value.format_message() if isinstance(refusal.value, click.ClickException) else str(refusal.value)
    pattern = ".+".join(map(re.escape, shown.split("…")))
    assert re.fullmatch(pattern, said), said
