"""The generated pages of keys and columns are those of the code as it stands, and say something of everything."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from docs.reference_pages import COMMAND, FOLDER, PAGES
from prfaas_env.deployment import load_deployment
from prfaas_env.profiles import load_profile
from prfaas_env.resources import folder


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), f"run `{COMMAND}`"


@pytest.mark.parametrize("name", PAGES)
def test_every_row_has_a_meaning(name: str) -> None:
    rows = [line for line in PAGES[name]().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert [row for row in rows if row.split(" | ")[-1].strip(" |") == ""] == []


def test_the_deployment_that_the_page_shows_is_one(tmp_path: Path) -> None:
    shown, _ = re.findall(r"```yaml\n(.*?)```", PAGES["files.md"](), flags=re.DOTALL)
    (tmp_path / "mine.yaml").write_text(shown, encoding="utf-8")
    shutil.copy(folder("hardware_profiles") / "hybrid-1t-8xh20.yaml", tmp_path / "my-h20.yaml")
    mine = load_deployment(tmp_path / "mine.yaml")
    assert (mine.name, mine.local.prefill) == ("mine", 3)
    assert mine.link is not None
    assert mine.link.capacity_gbps == 25.0


def test_the_profile_that_the_page_shows_is_one(tmp_path: Path) -> None:
    _, shown = re.findall(r"```yaml\n(.*?)```", PAGES["files.md"](), flags=re.DOTALL)
    (tmp_path / "mine.yaml").write_text(shown, encoding="utf-8")
    mine, base = load_profile(tmp_path / "mine.yaml"), load_profile("hybrid-1t-8xh200")
    assert mine.name == "mine"
    assert mine.kv.bytes_per_token == 8 / 15 * base.kv.bytes_per_token
    assert float(mine.prefill.time_s(1024)) == pytest.approx(float(base.prefill.time_s(1024)) - 0.28, abs=1e-3)


def test_the_columns_that_the_page_reads_are_there() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGES["log.md"](), flags=re.DOTALL)
    found: dict[str, Any] = {}
    exec(shown, found)
    assert (found["wait_s"] >= 0).all()
    assert (found["egress_gbps"] <= 100.0 + 1e-6).all()
    run = found["run"]
    assert repr(run).startswith("RunResult(scenario='paper-stationary', policy='closed-form', seed=0, arrived=")
    assert repr(run).endswith(f"ttft_mean_s={run.summary['ttft_mean_s']:.3g})")
    assert len(repr(run)) < 160


def test_sections_of_the_model_that_the_code_cites_exist() -> None:
    text = (FOLDER / "model.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\d+)\. ", text, flags=re.MULTILINE)
    assert headings == [str(number) for number in range(1, len(headings) + 1)]
    code = "\n".join(path.read_text(encoding="utf-8") for path in (FOLDER.parent / "prfaas_env").rglob("*.py"))
    cited = re.findall(r"model\.md sections? ([\d.]*\d(?:(?:, |–| and )\d)*)", code)
    assert len(cited) > 20
    assert {number for group in cited for number in re.findall(r"(?<![.\d])\d", group)} <= set(headings)
    life = text.partition("## 2. ")[2].partition("## 3. ")[0]
    items = set(re.findall(r"^(\d)\. ", life, flags=re.MULTILINE))
    assert {group.partition(".")[2] for group in cited if "." in group} <= items
