"""What the nights read: an aged tree of small files, a git repository, Python, and databases, made on a mounted file system.

Everything follows from a seed. The ageing is synthetic: files of all directories are made in random order, a few neighbours at a time,
each behind another file of random size that is deleted later. So neighbours in a directory lie far apart, with free space between."""

import contextlib
import math
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys

FILES_IN_A_DIRECTORY = 100
DIRECTORIES_IN_ONE = 25
PYTHON = pathlib.Path(sys.base_prefix)


def name(number):
    directory = number // FILES_IN_A_DIRECTORY
    return f"t{directory // DIRECTORIES_IN_ONE:03}/d{directory:04}/f{number:06}.txt"


def content(seed, number):
    """Words, so that tools take it for text: log-normal sizes, median 4 KiB, at most 64 KiB."""
    rng = random.Random(seed << 32 | number)
    size = min(int(math.exp(rng.gauss(math.log(4096), 1.0))) + 1, 65536)
    line = b"%x\n" % rng.getrandbits(480)
    return (line * (size // len(line) + 1))[:size]


def fill(path, size):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


def in_bouts(count, rng):
    """One to eight neighbours at a time, in random order."""
    bouts, at = [], 0
    while at < count:
        end = min(at + rng.randrange(1, 9), count)
        bouts.append(range(at, end))
        at = end
    rng.shuffle(bouts)
    return [number for bout in bouts for number in bout]


def files(root, count, seed, aged):
    """`count` files below `root`; dense in the order of their names, or aged."""
    rng = random.Random(seed)
    numbers = range(count)
    for directory in sorted({os.path.dirname(name(n)) for n in numbers}):
        (root / directory).mkdir(parents=True)
    if aged:
        numbers = in_bouts(count, rng)
    gone = []
    for made, number in enumerate(numbers):
        path = root / name(number)
        if aged:
            gone.append(path.with_suffix(".gone"))
            fill(gone[-1], min(int(math.exp(rng.gauss(math.log(128 << 10), 1.5))) + 1, 16 << 20))
        path.write_bytes(content(seed, number))
        if aged and made % 5000 == 4999:
            os.sync()
            rng.shuffle(gone)
            # Some stay for a while.
            while len(gone) > 2000:
                gone.pop().unlink()
    for path in gone:
        path.unlink()


def change(root, count, percent, seed):
    """Replaces a share of the files. Times follow from the seed, so that every system has the same tree."""
    rng = random.Random(seed)
    for number in rng.sample(range(count), count * percent // 100):
        path = root / name(number)
        path.unlink()
        path.write_bytes(content(seed, number))
        for changed in (path, path.parent):
            os.utime(changed, (seed, seed))


def git(root, count, seed, aged):
    files(root, count, seed, aged)
    for command in (["init", "-q"], ["config", "gc.auto", "0"], ["add", "."],
                    ["-c", "user.name=n", "-c", "user.email=n@example.org", "commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-C", root, *command], check=True)


def python(root):
    """The interpreter that runs this, without its tests."""
    skip = shutil.ignore_patterns("test", "tests", "site-packages", "*.a", "idlelib", "config-*", "lib2to3", "ensurepip")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (root / "lib").mkdir(parents=True)
    (root / "bin").mkdir()
    shutil.copytree(f"{sys.base_prefix}/lib/{version}", root / "lib" / version, ignore=skip)
    for library in (PYTHON / "lib").glob("libpython3.*.so*"):
        shutil.copy(library, root / "lib", follow_symlinks=True)
    shutil.copy(pathlib.Path(sys.base_prefix, "bin", version), root / "bin/python3")
    subprocess.run([root / "bin/python3", "-c", ""], env=python_environment(root), check=True)


def python_environment(root):
    return {"PYTHONHOME": str(root), "LD_LIBRARY_PATH": str(root / "lib"), "PATH": "/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1"}


def sqlite(path, rows, seed):
    rng = random.Random(seed)
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute("create table t (id integer primary key, k integer, words text)")
        base.executemany("insert into t values (?, ?, ?)", ((i, rng.randrange(rows), f"{rng.getrandbits(480):x}") for i in range(rows)))
        base.execute("create index k on t (k)")
        base.commit()
