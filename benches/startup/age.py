"""Ages a file system: fills it with files of no content up to a share, then removes some at random.

    age.py DIR --seed N --full SHARE --keep SHARE

Sizes are log-normal (median 64 KiB), as they are on desktops, up to 256 MiB. The blocks are allocated and
not written (fallocate), so a sparse image does not grow."""

import argparse
import math
import os
import pathlib
import random


def used(path):
    stat = os.statvfs(path)
    return 1 - stat.f_bavail / stat.f_blocks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--full", type=float, required=True)
    parser.add_argument("--keep", type=float, required=True)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    args.dir.mkdir(exist_ok=True)
    number = 0
    while used(args.dir) < args.full:
        for _ in range(500):
            folder = args.dir / f"{args.seed}-{rng.randrange(200)}"
            folder.mkdir(exist_ok=True)
            size = min(int(math.exp(rng.gauss(math.log(64 << 10), 2.2))) + 1, 256 << 20)
            fd = os.open(folder / f"{number}", os.O_CREAT | os.O_WRONLY)
            try:
                os.posix_fallocate(fd, 0, size)
            finally:
                os.close(fd)
            number += 1
    for file in sorted(p for p in args.dir.rglob("*") if p.is_file()):
        if rng.random() > args.keep:
            file.unlink()
    print(f"aged: {number} files made, the file system is {used(args.dir):.0%} full")


if __name__ == "__main__":
    main()
