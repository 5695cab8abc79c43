"""Traces as Arrow tables, and tables as traces."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

import seekless
from conftest import disksim, requests


def runs(trace):
    result = seekless.simulate(trace, "wd800jb", ["vanilla", "borg"], train=0.3)
    return [run.row() for run in result.runs]


def test_a_trace_becomes_a_table(tmp_path):
    path = disksim(tmp_path / "t.trace", [(5, 3, 8, True), (7, 4, 64, False)])
    table = seekless.read_trace(path)
    assert table.column("time_ns").to_pylist() == [0, 2_000_000]
    assert table.column("op").to_pylist() == ["read", "write"]
    assert table.column("sector").to_pylist() == [8, 64]
    assert table.column("sectors").to_pylist() == [16, 16]
    assert table.column("device").to_pylist() == [0, 1]
    assert table.column("device_name").to_pylist() == ["3", "4"]
    assert table.column("process").to_pylist() == [None, None]


def test_there_and_back_nothing_changes(trace):
    table = seekless.read_trace(trace)
    assert len(table) == 1500
    expected = runs(trace)
    assert runs(table) == expected
    assert runs(seekless.Trace.from_arrow(table)) == expected
    assert runs(seekless.Trace(trace).hold()) == expected


def test_many_batches(tmp_path):
    rows = requests(140_000)
    table = seekless.read_trace(disksim(tmp_path / "t.trace", rows))
    assert table.column("sector").num_chunks == 3
    assert table.column("sector").to_pylist() == [row[2] for row in rows]
    assert seekless.Trace.from_arrow(table).to_arrow().equals(table)


def test_the_store_is_such_a_table(trace, program, tmp_path):
    store = tmp_path / "t.parquet"
    program("convert", trace, store)
    assert runs(pa.parquet.read_table(store)) == runs(trace)


def test_a_file_of_such_a_table_is_a_store(trace, program, tmp_path):
    table = seekless.read_trace(trace)
    store = tmp_path / "t.parquet"
    pa.parquet.write_table(table, store)
    assert runs(store) == runs(trace)
    assert seekless.read_trace(store).equals(table)
    assert json.loads(program("stat", store, "--json", "-"))["trace"]["requests"] == len(table)


def test_columns_are_named_with_units(trace):
    rows = requests(1500)
    table = pa.table({
        "ts": [ms / 1000 + 1e6 for ms, *_ in rows],
        "kind": ["R" if reads else "write" for *_, reads in rows],
        "at": [at * 512 for _, _, at, _ in rows],
        "len": [16 for _ in rows],
        "is_read": [int(reads) for *_, reads in rows],
    })
    trace_of = seekless.Trace.from_arrow
    for op in ("kind", "is_read:read1"):
        named = trace_of(table, time="ts", op=op, offset="at", size="len:sectors")
        read = named.to_arrow()
        assert read.column("time_ns").to_pylist() == [ms * 1_000_000 for ms, *_ in rows]
        assert read.column("sector").to_pylist() == [at for _, _, at, _ in rows]
        assert read.column("op").to_pylist() == seekless.read_trace(trace).column("op").to_pylist()
    whole = pa.array([ms // 1000 for ms, *_ in rows]).cast(pa.timestamp("s"))
    stamps = table.set_column(0, "ts", whole)
    named = trace_of(stamps, time="ts", offset="at", size="len:sectors")
    assert named.to_arrow().column("time_ns").to_pylist()[-1] == 29_000_000_000
    # Bytes that begin and end within sectors touch both.
    odd = pa.table({"at": [1000], "len": [100]})
    read = trace_of(odd, offset="at", size="len").to_arrow()
    assert (read["sector"][0].as_py(), read["sectors"][0].as_py()) == (1, 2)


@pytest.mark.parametrize(
    ("table", "named", "words"),
    [
        ({"a": [1]}, dict(offset="a", size="b"), "no column 'b' for size; there are a"),
        ({"a": [1]}, dict(offset="a:miles", size="a"), "unit 'miles'"),
        ({"a": [1]}, dict(offset="a"), "offset and size"),
        ({"a": [1]}, {}, "no column 'sector'"),
        ({"a": ["x"]}, dict(offset="a", size="a"), "t: offset:"),
        ({"a": [-5]}, dict(offset="a", size="a"), "row 0: sector"),
        ({"a": [None, 5]}, dict(offset="a:sectors", size="a"), "row 0: sector is null"),
        ({"a": [1 << 60]}, dict(offset="a:pages", size="a"), "overflow"),
        ({"a": [512], "o": ["eat"]}, dict(offset="a", size="a", op="o"), "row 0: op is 'eat'"),
        ({"a": [512], "o": [7]}, dict(offset="a", size="a", op="o:read0"), "row 0: op is '7'"),
        ({"a": [8, 8], "t": [2, 1]}, dict(offset="a", size="a", time="t:s"), "row 1: not in order"),
        ({"a": pa.array([], pa.int64())}, dict(offset="a", size="a"), "empty"),
    ],
)
def test_wrong_tables_are_refused_with_what_is_wrong(table, named, words):
    with pytest.raises(seekless.SeeklessError, match=".*") as caught:
        seekless.Trace.from_arrow(pa.table(table), name="t", **named)
    assert words in str(caught.value)
    assert str(caught.value).startswith("t:")
