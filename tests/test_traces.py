"""Reading and replaying traces: the sample in the repository, broken files, and the real trace where there is one."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from prfaas_env.config import ConfigError, to_mapping
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.reference.cache import BlockCache
from prfaas_env.workload.fetch import public_trace
from prfaas_env.workload.prefixes import infinite_cache_hits
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces import Columns, TraceWarning, TraceWorkload, files, find_trace, read_trace
from prfaas_env.workload.traces.formats import FormatName
from prfaas_env.workload.traces.sessions import sessions_from_blocks

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
        (f'{{"timestamp": {"9" * 5000}}}', "a number of thousands of digits"),
        (f'{{"hash_ids": {"[" * 100_000}{"]" * 100_000}}}', "nested too deeply"),
        (
            '{"timestamp": 1e18, "input_length": 7, "output_length": 5, "hash_ids": []}',
            r"timestamp: expected a time in ms before the year 2200 \(another arrival_unit\?\)",
        ),
        (
            f'{{"timestamp": 0, "input_length": 7, "output_length": 5, "hash_ids": [{2**63}]}}',
            "hash_ids: expected a list of whole numbers",
        ),
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
        (gzip.compress(SAMPLE.read_bytes(), mtime=0)[:-20], "the trace is truncated: the gzip stream ends early"),
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
    with pytest.raises(ConfigError, match=r"trace 'nowhere/trace.jsonl' not found in .*PRFAAS_TRACES"):
        workload.draw(np.random.default_rng(0), 60.0)
    public = TraceWorkload(path=f"{public_trace('mooncake-toolagent').path}.gz", rate_scale=1.0, length_scale=1.0)
    monkeypatch.setattr("prfaas_env.workload.traces.find._REPOSITORY", tmp_path / "repository")
    monkeypatch.setenv("PRFAAS_CACHE", str(tmp_path / "cache"))
    assert "fetch mooncake-toolagent` downloads it" in (public.missing() or "")
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


# ---- other formats

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2225350,879,55
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-12 00:00:00+00:00,374,44
2024-05-12 00:00:04.314579+00:00,396,109
2024-05-12 02:00:04.541945+02:00,879,55
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,374,44,418,Conversation log
45,GPT-4,396,109,505,API log
118,ChatGPT,879,55,934,Conversation log
"""
BURSTGPT_3 = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,b-7,2.1,ChatGPT,374,44,418,Conversation log
45,,0.4,GPT-4,396,109,505,API log
118,b-7,1.5,ChatGPT,879,55,934,Conversation log
"""


def written(tmp_path: Path, content: str | bytes, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("form", "content", "times_s", "sessions"),
    [
        ("azure", AZURE_2023, [0.0, 4.314579, 4.541945], [-1, -1, -1]),
        ("azure", AZURE_2024, [0.0, 4.314579, 4.541945], [-1, -1, -1]),
        ("azure", AZURE_2023.replace("\n", "\r\n"), [0.0, 4.314579, 4.541945], [-1, -1, -1]),
        ("burstgpt", BURSTGPT, [5.0, 45.0, 118.0], [-1, -1, -1]),
        ("burstgpt", BURSTGPT_3, [5.0, 45.0, 118.0], [0, -1, 0]),
    ],
)
def test_published_formats(
    tmp_path: Path, form: FormatName, content: str, times_s: list[float], sessions: list
) -> None:
    for name, raw in (("trace.csv", content.encode()), ("trace.csv.gz", gzip.compress(content.encode()))):
        trace = read_trace(written(tmp_path, raw, name), form=form, strict=True)
        assert trace.timestamp_s == pytest.approx(times_s, abs=1e-9)
        assert trace.input_tokens.tolist() == [374, 396, 879]
        assert trace.output_tokens.tolist() == [44, 109, 55]
        assert trace.session_id.tolist() == sessions
        assert trace.remarks() == ()


COLUMNS = {
    "arrival": "at",
    "arrival_unit": "ms",
    "input": "prompt",
    "output": "answer",
    "session": "who",
    "service_class": "tier",
    "classes": ["gold", "free"],
    "hashes": "ids",
    "block_tokens": 256,
}
TABLE = [  # at, prompt, answer, who, tier, ids
    (1_700_000_000_000, 300, 5, "a", "free", [1, 2]),
    (1_700_000_000_500, 200, 6, None, "gold", [9]),
    (1_700_000_002_000, 520, 7, "a", "free", [1, 2, 3]),
    (1_700_000_002_000, 40, 8, "b", "gold", None),
]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.jsonl.gz", "t.parquet"])
def test_any_table_with_a_column_mapping(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame(TABLE, schema=["at", "prompt", "answer", "who", "tier", "ids"], orient="row")
    path = tmp_path / name
    if name == "t.parquet":
        frame.write_parquet(path)
    else:
        listed = frame.with_columns(pl.col("ids").cast(pl.List(pl.String)).list.join(" "))
        text = listed.write_csv() if "csv" in name else frame.write_ndjson()
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    stream = replay(path, format="table", columns=COLUMNS, strict=True)
    assert stream.arrival_s.tolist() == [0.0, 0.5, 2.0, 2.0]
    assert stream.input_tokens.tolist() == [300, 200, 520, 40]
    assert stream.output_tokens.tolist() == [5, 6, 7, 8]
    assert stream.session_id.tolist() == [0, -1, 0, 1]
    assert stream.turn.tolist() == [0, 0, 1, 0]
    assert stream.service_class.tolist() == [1, 0, 1, 0]
    assert [stream.hashes(i).tolist() for i in range(4)] == [[0, 1], [3], [0, 1, 2], []]
    assert stream.block_tokens == 256


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "table"}, "columns: missing key"),
        ({"columns": COLUMNS}, "columns: expected none, format 'mooncake' has its own"),
        ({"format": "table", "columns": {**COLUMNS, "classes": []}}, "classes: expected together with service_class"),
        ({"format": "azur"}, "did you mean 'azure'"),
        ({"start_s": 60.0, "end_s": 60.0}, "end_s: expected more than start_s 60"),
    ],
)
def test_keys_that_do_not_go_together(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replay(**fields)


SECONDS_AND_MS = "".join(["a,b,c\n", *(f"{i if i < 100 else 1000 * i},100,10\n" for i in range(200))])
PLAIN = {"arrival": "a", "input": "b", "output": "c"}
ISO = {**PLAIN, "arrival_unit": "datetime"}


@pytest.mark.parametrize(
    ("content", "columns", "line", "reason"),
    [
        ("a,b,c\n0,10,1\n1,10\n2,10,1\n", PLAIN, 3, "c: missing"),
        ("a,b,c\n0,10,1\n1,10,1,7\n2,10,1\n", PLAIN, 3, "more fields than the header has"),
        ("a,b,c\n0,10,1\n\n1,0,1\n2,10,1\n", PLAIN, 4, "b: expected a whole number ≥ 1, got 0"),
        ("a,b,c\n0,10,1\n1,10,-3\n2,10,1\n", PLAIN, 3, "c: expected a whole number ≥ 1, got -3"),
        ("a,b,c\n0,10,1\n1,1e30,1\n2,10,1\n", PLAIN, 3, "b: expected a whole number ≥ 1, got 1e30"),
        ("a,b,c\n0,10,1\n12ms,10,1\n2,10,1\n", PLAIN, 3, "a: expected a number ≥ 0, got 12ms"),
        ("a,b,c\n0,10,1\n2024-05-12 00:00:00,10,1\n2,10,1\n", PLAIN, 3, "a: expected a number ≥ 0, got 2024"),
        ('a,b,c\n0,10,1\n1,"10,1\n2,10,1\n', PLAIN, 3, "not a row of CSV (unexpected end of data)"),
        ("a,b,c\n2024-05-12 00:00:00,10,1\n99,10,1\n2024-05-12 00:00:02,10,1\n", ISO, 3, "a date and time, got 99"),
        (
            "a,b,c\n2024-05-12 00:00:00,10,1\n2024-02-30 00:00:00,10,1\n2024-05-12 00:00:02,10,1\n",
            ISO,
            3,
            "a date and time, got 2024-02-30",
        ),
        (
            "a,b,c\n2024-05-12 00:00:00,10,1\n2024-05-12 00:00:01Z,10,1\n2024-05-12 00:00:02,10,1\n",
            ISO,
            3,
            "expected times without a time zone as in the first row",
        ),
    ],
)
def test_unusable_rows_of_tables(tmp_path: Path, content: str, columns: dict, line: int, reason: str) -> None:
    path = written(tmp_path, content)
    trace = read_trace(path, form="table", columns=Columns(**columns))
    assert trace.timestamp_s.tolist() == [0.0, 2.0]
    assert [row.line for row in trace.unusable] == [line]
    assert reason in trace.unusable[0].reason
    assert sum(trace.left_out.values()) == 1
    with pytest.raises(ConfigError, match=f"line {line}: "):
        read_trace(path, strict=True, form="table", columns=Columns(**columns))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the trace is empty"),
        (b"a,b,c\n", "the trace is empty"),
        (b"a,bb,c\n0,10,1\n", "no column 'b' for input; did you mean 'bb'"),
        (b'a,"b,c\n0,10,1\n', "the header is not a row of CSV"),
        (b"a,b,b,c\n0,10,1,1\n", "column 'b' is there twice"),
        (b"a,b,c\n0,10,1\n1,10", "truncated: line 3 ends within a row"),
        (b"a,b,c\n0,10,1\n1,\xe9,1\n", "not a text file: line 3 is not UTF-8"),
        (b"a,b,c\n0,10,0\n", r"no usable row \(line 2: c: expected a whole number"),
        (gzip.compress(b"a,b,c\n" + b"0,10,1\n" * 5000, mtime=0)[:-12], "truncated: the gzip stream ends early"),
        (gzip.compress(b"a,b,c\n" + b"0" * (9 << 20), mtime=0), "line 2 is longer than 8 MiB"),
    ],
)
def test_broken_tables_are_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        read_trace(written(tmp_path, content), form="table", columns=Columns(**PLAIN))
    assert "\n" not in str(refusal.value)


def test_an_endless_line_costs_no_memory(tmp_path: Path) -> None:
    """A gzip of some kilobytes holds a line of a gigabyte: it is refused after the first megabytes."""
    squeezed = gzip.compress(b"0" * (1 << 20))
    path = written(tmp_path, squeezed * 1024, "bomb.csv.gz")
    tracemalloc.start()
    with pytest.raises(ConfigError, match="line 1 is longer than 8 MiB: not one request a line"):
        read_trace(path, form="table", columns=Columns(**PLAIN))
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


def test_names_and_files_that_no_table_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a name that ends with .csv, .jsonl or .parquet"):
        read_trace(written(tmp_path, "a,b,c\n", "trace.xlsx"), form="table", columns=Columns(**PLAIN))
    with pytest.raises(ConfigError, match="not a readable Parquet file"):
        read_trace(written(tmp_path, "a,b,c\n", "trace.parquet"), form="table", columns=Columns(**PLAIN))
    path = tmp_path / "times.parquet"
    pl.DataFrame({"a": [datetime(2024, 5, 12, second=s) for s in (0, 2)], "b": [3, 4], "c": [5, 6]}).write_parquet(path)
    with pytest.raises(ConfigError, match="holds dates and times: expected arrival_unit: datetime"):
        read_trace(path, form="table", columns=Columns(**PLAIN))
    assert read_trace(path, form="table", columns=Columns(**ISO)).timestamp_s.tolist() == [0.0, 2.0]


def test_without_polars_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match=r"needs polars: pip install 'prfaas_env\[traces\]'"):
        read_trace(SAMPLE)


def test_rows_out_of_order_are_sorted_and_told(tmp_path: Path) -> None:
    lines = AZURE_2023.splitlines()
    path = written(tmp_path, "\n".join([lines[0], lines[2], lines[1], lines[3]]) + "\n")
    trace = read_trace(path, form="azure")
    assert trace.timestamp_s == pytest.approx([0.0, 4.314579, 4.541945])  # counted from the earliest, not the first
    assert trace.remarks() == ("1 rows were out of order of time and have been sorted",)
    assert len(read_trace(path, form="azure", start_s=4.4)) == 1
    with pytest.raises(ConfigError, match="1 rows are out of order"):
        read_trace(path, form="azure", strict=True)
    with pytest.warns(TraceWarning, match="out of order"):
        replay(path, format="azure")


def test_mixed_units_and_equal_times_are_told(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, SECONDS_AND_MS), form="table", columns=Columns(**PLAIN))
    assert "mixed units of time?" in trace.remarks()[0]
    assert trace.equal_times == 0
    assert read_trace(SAMPLE).equal_times == 20 - len(np.unique(read_trace(SAMPLE).timestamp_s))


def test_many_bad_rows_are_counted_by_reason(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 2},{1 + i % 3 // 2 * -9}\n" for i in range(3000))
    trace = read_trace(written(tmp_path, "a,b,c\n" + rows), form="table", columns=Columns(**PLAIN))
    assert len(trace.unusable) == 100
    assert trace.left_out == {
        "b: expected a whole number ≥ 1": 1500,
        "c: expected a whole number ≥ 1": 500,
    }
    assert len(trace) + sum(trace.left_out.values()) == 3000


def test_a_long_trace_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many batches only the window is held; and a bad row among them keeps its own line number."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 4096)
    rows = [f"{i},{10 + i},1" for i in range(20_000)]
    rows[12_345] = "oops,1,1"
    path = written(tmp_path, "a,b,c\n" + "\n".join(rows) + "\n")
    whole = read_trace(path, form="table", columns=Columns(**PLAIN))
    assert len(whole) == whole.usable_rows == 19_999
    assert whole.unusable[0].line == 12_347
    part = read_trace(path, form="table", columns=Columns(**PLAIN), start_s=5000.0, end_s=5010.0)
    assert part.input_tokens.tolist() == list(range(5010, 5020))
    assert part.usable_rows == 19_999
    assert part.left_out == whole.left_out


# ---- windows, cuts and longer horizons


def test_a_window_of_the_trace() -> None:
    stamps = read_trace(SAMPLE).timestamp_s
    window = replay(start_s=12.0, end_s=48.0, batch_s=0.0)
    assert (window.arrival_s == stamps[(stamps >= 12.0) & (stamps < 48.0)] - 12.0).all()
    assert replay(max_output_tokens=50).output_tokens.max() == 50


def test_a_longer_horizon_keeps_sessions_whole() -> None:
    trace = read_trace(SAMPLE)
    session, span = sessions_from_blocks(trace), float(trace.timestamp_s[-1])
    known = {}
    for number in range(session.max() + 1):
        own = session == number
        since = trace.timestamp_s[own] - trace.timestamp_s[own][0]
        known[tuple(trace.input_tokens[own])] = since.tolist()
    stream = replay(resample=True, batch_s=0.0, horizon_s=50 * span)
    assert stream.arrival_s[-1] > 45 * span
    assert len(stream) == pytest.approx(50 * len(trace), rel=0.15)
    fresh_blocks: set[int] = set()
    system = int(np.bincount(stream.block_hashes).argmax())
    for number in np.unique(stream.session_id):
        own = np.flatnonzero(stream.session_id == number)
        assert stream.turn[own].tolist() == list(range(len(own)))
        since = (stream.arrival_s[own] - stream.arrival_s[own][0]).tolist()
        whole = [gaps for lengths, gaps in known.items() if lengths[: len(own)] == tuple(stream.input_tokens[own])]
        assert any(gaps[: len(own)] == pytest.approx(since, abs=1e-6) for gaps in whole)
        if stream.arrival_s[own][0] < 40 * span:  # not cut by the horizon: with every turn
            assert tuple(stream.input_tokens[own]) in known
        blocks = {int(b) for i in own for b in stream.hashes(i)} - {system}
        assert not blocks & fresh_blocks  # no copy finds the blocks of another in a cache
        fresh_blocks |= blocks
    with_system = sum(system in stream.hashes(i) for i in range(len(stream)))
    assert with_system == (stream.input_tokens != 400).sum()  # one prompt of the sample has no system block


def test_resampling_follows_the_seed() -> None:
    one, again, other = (replay(resample=True, seed=seed, horizon_s=900.0) for seed in (1, 1, 2))
    assert (one.arrival_s == again.arrival_s).all()
    assert (one.block_hashes == again.block_hashes).all()
    assert one.input_tokens.tolist() != other.input_tokens.tolist()
    assert replay(resample=True, rate_scale=2.0, horizon_s=900.0).arrival_s[-1] > 850.0


# ---- the real traces


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


@pytest.mark.parametrize(
    ("capacity_tokens", "hit_share"), [(1.5e6, 0.066), (5.1e6, 0.215), (15e6, 0.332), (51e6, 0.371)]
)
def test_mooncake_hits_in_the_engines_own_cache(
    real_trace: Callable[[str], Path], capacity_tokens: float, hit_share: float
) -> None:
    """The reference engine's LRU pool, full attention (a byte a token), against an independent measurement."""
    stream = replay(real_trace(REAL), strict=True)
    cache, hits = BlockCache(capacity_tokens, stream.block_tokens, float(stream.block_tokens), 0.0), 0
    ids, offsets, lengths = stream.block_hashes.tolist(), stream.hash_offsets.tolist(), stream.input_tokens.tolist()
    for i, tokens in enumerate(lengths):
        prompt = ids[offsets[i] : offsets[i] + tokens // stream.block_tokens]
        hits += cache.match(prompt, tokens)[1]
        cache.touch(prompt)
        cache.insert(prompt)
    assert hits / sum(lengths) == pytest.approx(hit_share, rel=0.10)


def test_mooncake_sessions(real_trace: Callable[[str], Path]) -> None:
    trace = read_trace(real_trace(REAL))
    session = sessions_from_blocks(trace)
    assert len(trace) / (session.max() + 1) == pytest.approx(1.63, abs=0.01)
    order = np.lexsort((trace.timestamp_s, session))
    gaps = np.diff(trace.timestamp_s[order])[np.diff(session[order]) == 0]
    assert np.percentile(gaps, [10, 50, 90]) == pytest.approx([42.0, 123.0, 480.0], rel=0.02)
    # Six hours made of one: the same traffic, with hits inside sessions as before.
    longer = replay(real_trace(REAL), resample=True, horizon_s=6 * 3600.0)
    uncached = longer.input_tokens - infinite_cache_hits(longer)
    assert len(longer) / 6 == pytest.approx(12_031 * 3600 / trace.timestamp_s[-1], rel=0.03)
    assert 1.0 - uncached.sum() / longer.input_tokens.sum() == pytest.approx(0.374, abs=0.015)
    assert (uncached > 19_400).mean() == pytest.approx(0.097, abs=0.005)


def test_azure_2023_conversation_in_figures(real_trace: Callable[[str], Path]) -> None:
    path = real_trace("azure-llm-2023/AzureLLMInferenceTrace_conv.csv.gz")
    stream = replay(path, format="azure", strict=True)
    assert len(stream) == 19_366
    assert stream.input_tokens.mean() == pytest.approx(1155, abs=1)
    assert np.median(stream.input_tokens) == 1020
    assert stream.output_tokens.mean() == pytest.approx(211, abs=1)
    assert (stream.input_tokens > 2000).mean() == pytest.approx(0.14, abs=0.005)
    per_minute = np.bincount((stream.arrival_s // 60).astype(int))[:58]
    assert per_minute.var() / per_minute.mean() == pytest.approx(16.4, abs=0.5)
    five_minutes_rps = np.bincount((stream.arrival_s // 300).astype(int)) / 300
    assert five_minutes_rps.max() == pytest.approx(7.5, abs=0.05)
    assert five_minutes_rps[:11].min() == pytest.approx(4.3, abs=0.05)  # of whole five minutes; the last is cut short


def test_a_scenario_of_ones_own_trace(tmp_path: Path) -> None:
    """A scenario file names a table beside it; the file's content counts in the scenario's hash."""
    table = written(tmp_path, "at,n\n0,100\n1,200\n3,300\n")
    scenario = tmp_path / "own.yaml"
    scenario.write_text(
        "extends: paper-stationary\nname: own\nload: null\nhorizon_s: 60\n"
        "nominal: {lengths: {kind: constant, tokens: 200}, output_tokens: {kind: constant, tokens: 200}}\n"
        "workload:\n  kind: trace\n  format: table\n  path: trace.csv\n"
        "  columns: {arrival: at, input: n, output: n}\n  rate_scale: 2.0\n  length_scale: 3.0\n"
    )
    own = load_scenario(scenario)
    stream = own.draw(0).stream
    assert stream.arrival_s.tolist() == [0.0, 0.5, 1.5]
    assert stream.input_tokens.tolist() == [300, 600, 900]
    before = own.hash
    table.write_text(table.read_text() + "4,400\n")
    assert load_scenario(scenario).hash != before
    assert len(load_scenario(scenario).draw(0).stream) == 4


def test_columns_of_another_type_and_classes_without_objectives(tmp_path: Path) -> None:
    import polars as pl

    columns = Columns("t", "i", "o", session="s", hashes="h")
    good = {"t": [1.0], "i": [600], "o": [5], "s": ["a"], "h": [[1, 2]]}
    path = tmp_path / "trace.parquet"
    others = {"t": [b"1"], "i": [{"a": 1}], "o": [[5]], "s": [[1]], "h": [1]}
    for name, values in others.items():
        pl.DataFrame({**good, name: values}).write_parquet(path)
        with pytest.raises(ConfigError, match=f"column '{name}' cannot hold"):
            read_trace(path, form="table", columns=columns)
    workload = {"kind": "trace", "path": "t.csv", "rate_scale": 1, "length_scale": 1, "format": "table"}
    workload["columns"] = {"arrival": "t", "input": "i", "output": "o", "service_class": "c", "classes": ["a", "b"]}
    paper = load_scenario("paper-stationary")
    own = {"load": None, "nominal": to_mapping(paper.nominal), "workload": workload}
    with pytest.raises(ConfigError, match="objectives: expected one for each of the trace's 2 service classes, got 1"):
        paper.with_overrides(own)
    two = paper.with_overrides({**own, "objectives": {"ttft_s": [1, 2], "tpot_s": [1, 2]}})
    assert isinstance(two.workload, TraceWorkload)
