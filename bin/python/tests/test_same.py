"""The numbers are those of the command line, to the last digit."""

import csv
import io

import pytest
import seekless

POLICIES = ["vanilla", "adaptive", "borg", "clairvoyant"]
REAL_TIME = ("wall_s", "requests_per_wall_s")


def timeless(run):
    return {name: value for name, value in run.items() if name not in REAL_TIME}


def test_simulate(document, trace):
    told = document(
        "simulate", trace, "--disk", "wd800jb", "--policy", ",".join(POLICIES), "--cache", "64KiB",
        "--train", "30%", "--queue-depth", "2",
    )
    ours = seekless.simulate(
        trace, "wd800jb", POLICIES, cache=64 << 10, train=0.3, queue_depth=2
    )
    assert [timeless(run.document) for run in ours.runs] == [timeless(r) for r in told["runs"]]
    assert (ours.trace, ours.split, ours.notes) == (told["trace"], told["split"], told["notes"])
    assert ours["borg"].busy_s == told["runs"][2]["busy_s"] > 0


def test_simulate_with_defaults(document, trace):
    told = document("simulate", trace, "--disk", "exos-x20")
    ours = seekless.simulate(trace, "exos-x20")
    assert [timeless(run.document) for run in ours.runs] == [timeless(r) for r in told["runs"]]


def test_sweep(program, trace):
    args = ["--sweep", "cluster=0,64KiB", "--sweep", "cache=64KiB,1MiB"]
    text = program("simulate", trace, "--disk", "wd800jb", "--policy", "vanilla,borg", *args)
    told = list(csv.DictReader(io.StringIO(text)))
    grid = dict(cluster=["0", "64KiB"], cache=["64KiB", "1MiB"])
    for workers in (1, 3):
        ours = seekless.sweep(trace, "wd800jb", grid, ["vanilla", "borg"], workers=workers)
        rows = ours.rows()
        assert len(rows) == len(told) == 8
        for row, expected in zip(rows, told):
            for name, value in expected.items():
                mine = row.get(name)
                if isinstance(mine, (int, float)):
                    assert type(mine)(value) == mine, name
                else:
                    assert value == (mine or ""), name


@pytest.mark.parametrize("disk, by", [("wd800jb", "time"), ("object-store", "money")])
def test_advise(document, trace, disk, by):
    told = document("advise", trace, "--disk", disk, "--cache", "64KiB")
    ours = seekless.advise(trace, disk, cache="64KiB")
    assert [t.document for t in ours.tried] == told["tried"]
    assert [t.saves_usd for t in ours.tried] == [t.get("saves_usd") for t in told["tried"]]
    assert [t.saves_energy for t in ours.tried] == [t["saves_energy"] for t in told["tried"]]
    assert (ours.tried[0].saves_energy is None) == (disk == "object-store")
    assert ours.ranked_by == told["ranked_by"] == by
    assert (ours.verdict, ours.choice) == (told["verdict"], told["choice"])
    assert ours.sentences == told["sentences"]


def test_stat(document, trace):
    told = document("stat", trace)
    ours = seekless.stat(trace)
    for name, value in ours.document.items():
        if name != "notes":
            assert value == told[name], name


def test_a_disk_of_a_file(document, toy, tmp_path):
    path = tmp_path / "small.trace"
    path.write_text("".join(f"{i * 20}.0 0 {i * 7919 % 90000} 8 1\n" for i in range(300)))
    args = ["--policy", "vanilla", "--train", "0"]
    told = document("simulate", path, "--disk", toy, *args)
    disk = seekless.Disk.from_toml(toy)
    assert (disk.name, disk.capacity_bytes) == ("toy", 51_200_000)
    for named in (disk, toy, str(toy)):
        ours = seekless.simulate(path, named, "vanilla", train=0)
        assert timeless(ours.runs[0].document) == timeless(told["runs"][0])
