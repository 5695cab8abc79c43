"""Fleets on Spark's local mode: each disk has the numbers that it has alone."""

import os
import shutil
import sys

import pyarrow as pa
import pytest

import seekless
from conftest import requests


@pytest.fixture(scope="module")
def session():
    if not os.environ.get("SEEKLESS_LONG"):
        pytest.skip("Spark takes minutes: SEEKLESS_LONG is not set")
    if not shutil.which("java"):
        pytest.skip("no java")
    sql = pytest.importorskip("pyspark.sql")
    if not hasattr(sql.GroupedData, "applyInArrow"):
        pytest.skip("pyspark before 4 has no applyInArrow")
    # Spark's workers must be of the environment that has the wheel.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]").appName("seekless")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def fleet():
    """Rows of three disks, the last request first; the third disk has a wrong row."""
    out = []
    for disk, count in (("a", 900), ("b", 600)):
        for ms, _, at, reads in requests(count):
            out.append((disk, ms * 1_000_000, "read" if reads else "write", at, 16))
    out.append(("c", 0, "eat", 8, 8))
    return out[::-1]


NAMES = ["disk", "time_ns", "op", "sector", "sectors"]


def alone(name):
    rows = [row[1:] for row in fleet()[::-1] if row[0] == name]
    return seekless.Trace.from_arrow(pa.table(dict(zip(NAMES[1:], map(list, zip(*rows))))))


def test_a_fleet_has_the_numbers_of_each_disk(session):
    from seekless import spark

    df = session.createDataFrame(fleet(), NAMES)
    advice = {row["disk"]: row for row in spark.advise(df, "wd800jb", "borg").collect()}
    runs = spark.simulate(df, "wd800jb", ["vanilla", "borg"], cache="1MiB").collect()
    assert sorted(advice) == ["a", "b", "c"]
    for disk in "ab":
        expected = seekless.advise(alone(disk), "wd800jb", "borg")
        assert advice[disk]["verdict"] == expected.verdict and advice[disk]["error"] is None
        assert advice[disk]["busy_s"] == expected.tried[0].document["total"]["busy_s"]
        single = seekless.simulate(alone(disk), "wd800jb", ["vanilla", "borg"], cache="1MiB")
        for run in single.runs:
            row = next(r for r in runs if (r["disk"], r["policy"]) == (disk, run.policy))
            assert (row["busy_s"], row["requests"]) == (run.busy_s, run.requests)
            assert row["response_ms_p99"] == run.response_ms["p99"]
    wrong = advice["c"]
    assert "disk c: row 0: op is 'eat'" in wrong["error"] and wrong["verdict"] is None


def test_files_are_studied_where_they_are(session, tmp_path):
    """A file that is damaged, or of a disk that is too large, has its error in its row."""
    import pyarrow.parquet as pq

    from seekless import spark

    sample = os.path.join(os.path.dirname(__file__), "../../../sample/desktop.trace.zst")
    store = tmp_path / "good.parquet"
    pq.write_table(seekless.read_trace(sample), store)
    whole = store.read_bytes()
    (tmp_path / "short.parquet").write_bytes(whole[: len(whole) // 2])
    paths = [sample, store, tmp_path / "short.parquet", tmp_path / "none.parquet"]
    rows = spark.simulate_files(session, paths, "wd800jb", "vanilla").collect()
    found = {row["trace"]: row for row in rows}
    assert sorted(found) == sorted(map(str, paths))
    alone = seekless.simulate(sample, "wd800jb", "vanilla")["vanilla"]
    assert found[sample]["busy_s"] == alone.busy_s and found[sample]["error"] is None
    for path in paths[2:]:
        row = found[str(path)]
        assert row["requests"] is None and path.name in row["error"]
    small = spark.advise_files(session, [sample], "rz55", "borg").collect()[0]
    assert small["verdict"] is None and "Choose a larger disk" in small["error"]
