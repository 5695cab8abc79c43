"""What the tests share: the program, a made-up trace, and a disk worked out by hand."""

import json
import os
import subprocess
from pathlib import Path

import pytest

TOY = """
name = "toy"
title = "A disk worked out by hand"
capacity_sectors = 100000
[mechanics]
rpm = 6000
head_switch_ms = 0.0
[seek]
kind = "table"
points = [[1, 2.01], [999, 11.99]]
[power]
seek_w = 10.0
rotation_transfer_w = 5.0
idle_w = 3.0
[geometry]
heads = 1
[[geometry.zone]]
first_cylinder = 0
cylinders = 1000
sectors_per_track = 100
track_skew = 0
cylinder_skew = 0
[[source]]
fields = ["capacity_sectors", "mechanics", "seek", "geometry", "power"]
kind = "derived"
from = "made up"
"""


def requests(count):
    """Requests that look random and are the same on every run: ms, device, sector, is a read."""
    x, out = 1, []
    for i in range(count):
        x = (x * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        out.append((i * 20, 0, ((x >> 33) % 60) * 65_536, (x >> 20) % 5 != 0))
    return out


def disksim(path, rows):
    text = "".join(f"{ms}.0 {device} {at} 16 {int(reads)}\n" for ms, device, at, reads in rows)
    path.write_text(text)
    return path


@pytest.fixture
def trace(tmp_path):
    return disksim(tmp_path / "t.trace", requests(1500))


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.toml"
    path.write_text(TOY)
    return path


@pytest.fixture(scope="session")
def program():
    """The command line, run with arguments: the text of its standard output."""
    path = os.environ.get("SEEKLESS_PROGRAM", "")
    if not Path(path).is_file():
        print("SKIPPED: SEEKLESS_PROGRAM does not name the program seekless")
        pytest.skip("SEEKLESS_PROGRAM does not name the program seekless")

    def run(*args):
        done = subprocess.run([path, *map(str, args)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def document(program):
    return lambda *args: json.loads(program(*args, "--json", "-"))
