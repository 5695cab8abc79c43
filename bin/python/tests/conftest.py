"""What the tests share: the program, a made-up trace, and a disk worked out by hand."""

import json
import os
import subprocess
from pathlib import Path

import pytest

TOY = (Path(__file__).parents[3] / "base/disk/tests/fixtures/toy.toml").read_text()


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
