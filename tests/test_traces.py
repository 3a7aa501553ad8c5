"""Reading and replaying traces: the sample in the repository, broken files, and the real trace where there is one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prfaas_env.config import ConfigError
from prfaas_env.workload.prefixes import infinite_cache_hits
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces import TraceWarning, TraceWorkload, find_trace, read_trace

SAMPLE = Path(__file__).parent / "data" / "mooncake_sample.jsonl"
REAL = "mooncake-fast25/conversation_trace.jsonl.gz"


def replay(path: Path | str = SAMPLE, seed: int = 0, horizon_s: float = 7200.0, **fields: object) -> RequestStream:
    workload = TraceWorkload(**{"path": str(path), "rate_scale": 1.0, "length_scale": 1.0, **fields})  # type: ignore[arg-type]
    return workload.draw(np.random.default_rng(seed), horizon_s)


def broken(tmp_path: Path, line: str) -> Path:
    """The sample with one line put in as its third."""
    lines = SAMPLE.read_text().splitlines()
    path = tmp_path / "broken.jsonl"
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    return path


def test_sample_is_read_whole() -> None:
    trace = read_trace(SAMPLE)
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    assert len(trace) == len(rows) == 20
    assert trace.unusable == ()
    assert trace.input_tokens.tolist() == [row["input_length"] for row in rows]
    assert trace.timestamp_s.tolist() == [row["timestamp"] / 1000 for row in rows]
    last = trace.block_hashes[trace.hash_offsets[12] : trace.hash_offsets[13]]
    first = trace.block_hashes[trace.hash_offsets[1] : trace.hash_offsets[2]]
    assert last[:12].tolist() == first[:12].tolist()  # session b comes back with its prefix


def test_gzip_is_read_like_plain(tmp_path: Path) -> None:
    path = tmp_path / "sample.jsonl.gz"
    path.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    assert read_trace(path).input_tokens.tolist() == read_trace(SAMPLE).input_tokens.tolist()


def test_batches_are_spread_by_the_seed() -> None:
    stamps = read_trace(SAMPLE).timestamp_s
    a, again, b = replay(seed=1), replay(seed=1), replay(seed=2)
    assert (a.arrival_s == again.arrival_s).all()
    assert (a.arrival_s != b.arrival_s).all()
    assert ((a.arrival_s - stamps >= 0.0) & (a.arrival_s - stamps < 3.0)).all()  # batches do not overtake each other
    assert (replay(batch_s=0.0).arrival_s == stamps).all()


def test_scales_are_explicit() -> None:
    plain, scaled = replay(), replay(rate_scale=2.0, length_scale=2.2)
    assert scaled.arrival_s * 2.0 == pytest.approx(plain.arrival_s)
    assert sorted(scaled.input_tokens) == [round(2.2 * tokens) for tokens in sorted(plain.input_tokens)]
    assert (scaled.output_tokens == plain.output_tokens).all()
    assert scaled.block_tokens == 1126
    assert (scaled.block_hashes == plain.block_hashes).all()
    share, scaled_share = (infinite_cache_hits(s).sum() / s.input_tokens.sum() for s in (plain, scaled))
    assert scaled_share == pytest.approx(share, rel=0.002)


def test_window_and_cut() -> None:
    window = replay(start_s=48.0, horizon_s=60.0)
    assert len(window) == 6
    assert window.arrival_s[0] < 3.0
    cut = replay(max_input_tokens=4096)
    assert cut.input_tokens.max() == 4096
    assert np.diff(cut.hash_offsets).max() == 8
    assert len(cut) == 20


def test_no_time_left_means_no_requests() -> None:
    assert len(replay(start_s=10_000.0)) == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 0, "input_length": 700', "not a JSON object"),
        ("[1, 2]", r"expected an object, got \[1, 2\]"),
        ('{"timestamp": 0, "output_length": 5, "hash_ids": []}', "input_length: missing"),
        (
            '{"timestamp": -1, "input_length": 7, "output_length": 5, "hash_ids": []}',
            r"timestamp: expected a number ≥ 0",
        ),
        ('{"timestamp": 0, "input_length": NaN, "output_length": 5, "hash_ids": []}', r"input_length: .*got NaN"),
        (
            '{"timestamp": 0, "input_length": 7.5, "output_length": 5, "hash_ids": []}',
            r"input_length: expected a whole number ≥ 1, got 7.5",
        ),
        ('{"timestamp": 0, "input_length": 7, "output_length": 0, "hash_ids": []}', r"output_length: .*≥ 1, got 0"),
        (
            '{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [1]}',
            "expected 2 blocks for 700 tokens",
        ),
        ('{"timestamp": 0, "input_length": 7, "output_length": 5, "hash_ids": ["a"]}', "hash_ids: expected a list"),
    ],
)
def test_unusable_rows_are_named(tmp_path: Path, line: str, reason: str) -> None:
    path = broken(tmp_path, line)
    trace = read_trace(path)
    assert len(trace) == 20
    assert [row.line for row in trace.unusable] == [3]
    with pytest.raises(ConfigError, match=f"line 3: .*{reason}"):
        read_trace(path, strict=True)
    with pytest.warns(TraceWarning, match="1 of 21 rows left out, the first is line 3"):
        assert len(replay(path)) == 20
    with pytest.raises(ConfigError, match="line 3"):
        replay(path, strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the trace is empty"),
        (b"\n\n", "the trace is empty"),
        (b"hello\n", r"no usable row \(line 1: not a JSON object\)"),
        (SAMPLE.read_bytes()[:-30], "the trace is truncated: line 20 ends within a row"),
        (gzip.compress(SAMPLE.read_bytes())[:-20], "the trace is truncated: the gzip stream ends early"),
        (b"\x1f\x8b\x00\x00 nonsense", "not a valid gzip file"),
        (b"\xff\xfe\x00\x01", "not a text file"),
    ],
)
def test_broken_files_are_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as refusal:
        read_trace(path)
    assert "\n" not in str(refusal.value)


def test_absent_and_wrong_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = TraceWorkload(path="nowhere/trace.jsonl", rate_scale=1.0, length_scale=1.0)
    assert "PRFAAS_TRACES" in (workload.missing() or "")
    with pytest.raises(ConfigError, match=r"trace 'nowhere/trace.jsonl' not found; .*fetch"):
        workload.draw(np.random.default_rng(0), 60.0)
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere" / "trace.jsonl").write_bytes(SAMPLE.read_bytes())
    monkeypatch.setenv("PRFAAS_TRACES", str(tmp_path))
    assert workload.missing() is None
    assert len(workload.draw(np.random.default_rng(0), 600.0)) == 20
    with pytest.raises(ConfigError, match="expected the file with sha256 000000000000"):
        replay(sha256="0" * 64)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(SAMPLE.read_bytes())
    assert len(replay(path)) == 20
    path.write_text("".join(line + "\n" for line in SAMPLE.read_text().splitlines()[:5]))
    assert len(replay(path)) == 5


# ---- the real trace


def test_mooncake_conversation_in_figures(real_trace: Callable[[str], Path]) -> None:
    stream = replay(real_trace(REAL), strict=True)
    lengths, uncached = stream.input_tokens, stream.input_tokens - infinite_cache_hits(stream)
    assert len(stream) == 12_031
    assert lengths.mean() == pytest.approx(12_035, abs=1)
    assert np.median(lengths) == 6_909
    assert stream.output_tokens.mean() == pytest.approx(343, abs=1)
    assert 1.0 - uncached.sum() / lengths.sum() == pytest.approx(0.374, abs=0.005)
    for tokens, total, share in ((2000, 0.77, 0.517), (8000, 0.46, 0.273), (19_400, 0.175, 0.097)):
        assert (lengths > tokens).mean() == pytest.approx(total, abs=0.006)
        assert (uncached > tokens).mean() == pytest.approx(share, abs=0.005)
    per_minute = np.bincount((stream.arrival_s // 60).astype(int))[:58]
    assert per_minute.var() / per_minute.mean() == pytest.approx(3.0, abs=0.6)
    assert (np.diff(stream.arrival_s) == 0).mean() < 0.001  # the 3 s steps are gone


def test_the_shared_copy_is_found_without_help(
    real_trace: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = real_trace(REAL)
    monkeypatch.setenv("PRFAAS_TRACES", str(expected.parents[1]))
    assert find_trace(REAL).samefile(expected)
