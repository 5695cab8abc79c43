"""Fleets on Spark's local mode: each disk has the numbers that it has alone."""

import os
import shutil
import signal
import sys
import threading
import time

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
    # A task may fail three times.
    builder = sql.SparkSession.builder.master("local[2,4]").appName("seekless")
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


def test_a_file_that_is_not_in_order_of_time_says_so(session, tmp_path):
    from seekless import spark

    head = "time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n"
    lines = [f"{i}.0,a,R,{i * 800},8,,,,\n" for i in range(600)]
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text(head + "".join(lines))
    bad.write_text(head + "".join(lines[:500] + lines[400:]))
    paths = [good, bad]
    for rows in (
        spark.simulate_files(session, paths, "wd800jb", "vanilla", train="0").collect(),
        spark.advise_files(session, paths, "wd800jb", "borg").collect(),
    ):
        found = {row["trace"]: row for row in rows}
        assert found[str(good)]["notes"] is None, found
        assert "not in order of time: 99 requests" in found[str(bad)]["notes"], found
        assert "first request 501" in found[str(bad)]["notes"], found


def workers():
    """The processes in which Spark runs Python tasks: children of its daemon."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/stat") as stat:
                if b"pyspark.daemon" in line.read():
                    found[int(pid)] = int(stat.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    return [pid for pid, parent in found.items() if parent in found]


def test_a_killed_task_is_tried_again_and_the_others_finish(session):
    from seekless import spark

    sample = os.path.join(os.path.dirname(__file__), "../../../sample/desktop.trace.zst")
    killed, ended = [], threading.Event()

    def kill():
        before = set(workers())
        while not killed and not ended.wait(0.05):
            for pid in sorted(set(workers()) - before) or sorted(before):
                time.sleep(0.2)
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    break
                except ProcessLookupError:
                    continue

    killer = threading.Thread(target=kill)
    killer.start()
    paths = [sample] * 8
    policies = ["vanilla", "adaptive"]
    rows = spark.simulate_files(session, paths, "wd800jb", policies, tasks=8).collect()
    ended.set()
    killer.join()
    assert killed, "no worker was seen"
    assert len(rows) == 16 and all(row["error"] is None for row in rows)
