"""The documentation site: builds without a warning, loads nothing from a network, and holds what its pages link to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prfaas_env

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", ".mkdocs.yml", "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_loaded_from_a_network(site: Path) -> None:
    tags = re.compile(r"<(?:script|img|iframe|link)[^>]*>")
    loads = re.compile(r'\b(?:src|href)="(?:https?:)?//')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    assert [str(page) for page in pages if any(map(loads.search, tags.findall(page.read_text(encoding="utf-8"))))] == []


def test_files_outside_the_folder_are_pages(site: Path) -> None:
    assert "make demo" in (site / "index.html").read_text(encoding="utf-8")  # the README
    link = 'href="sources/agents/index.html#a-policy-of-ones-own"'
    assert link in (site / "leaderboard.html").read_text(encoding="utf-8")
    assert 'id="a-policy-of-ones-own"' in (site / "sources" / "agents" / "index.html").read_text(encoding="utf-8")
    profile = (site / "sources" / "hardware_profiles" / "hybrid-1t-8xh20.yaml.html").read_text(encoding="utf-8")
    assert "17280" in profile


def test_the_api_page_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    ids = {found.rpartition(".")[2] for found in re.findall(r'id="(prfaas_env\.[\w.]+)"', page)}
    assert set(prfaas_env.__all__) - {"__version__"} <= ids
    assert {"RunResult", "Plan", "Scenario", "reset", "step", "render", "PrfaaSVectorEnv"} <= ids
    assert ":class:<code>" not in page
