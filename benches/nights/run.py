#!/usr/bin/env python3
"""Nights of jobs on a real file system, with seekless and without. As root:

    benches/nights/run.py [--systems plain,watch,vanilla,adaptive,both] [--jobs A,B] [--quick]

Systems: `plain` is the disk alone, `watch` the disk with `seekless watch` on its mount.
`adaptive` is a volume with an area, `vanilla` one that learns nothing, with the same RAM and
read-ahead. `both` is the adaptive volume with `seekless watch`.

One tree of small files is made, and a copy of its image for each system. Each night does the same
jobs. Each job has a new server and a new mount: nothing is in the page cache or the server's RAM.
The disk is emulated, in real time. Wall time and disk time are printed and archived, by job and
night, background work included. All systems must read the same bytes.

Jobs that change each night: `diverge` begins as `tar` and goes on with another directory, `other`
reads another directory. `pair` is du and tar at once."""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "startup"))
import tree
from host import SEEKLESS, archive_in, between, prefer, run, serving_with
from programs import loop

SEED = 1
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}
MODULES = ("argparse,asyncio,csv,decimal,email.mime.text,http.client,json,logging.config,sqlite3,"
           "ssl,unittest,xml.dom.minidom,zipfile")
POSTGRES = pathlib.Path("/usr/lib/postgresql")
BY_NIGHT = ("diverge", "other")
SYSTEMS = ("plain", "watch", "vanilla", "adaptive", "both")
# The disk alone: no RAM, no read-ahead, no learning.
BARE = ["--policy", "vanilla", "--optimized", "0", "--cache", "0", "--read-ahead", "0", "--cluster", "0"]
# The size of an area by default.
AREA_MOST = 2 << 30
COUNTED = ("wall_s", "mount_s", "job_s", "busy_s", "moving_s", "ios", "bytes", "total",
           "ram_reads", "copy_reads", "home_reads", "late_s", "load")


def shell(script, **more):
    """The standard output of a script, which must succeed."""
    command = ["bash", "-o", "pipefail", "-ec", script]
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def programs_of_postgres():
    found = sorted(POSTGRES.glob("*/bin/initdb"))
    return found[-1].parent if found else None


class Postgres:
    """A cluster on the volume, run by the user postgres."""

    def __init__(self, root):
        self.data, self.programs = root / "postgres", programs_of_postgres()

    def by_postgres(self, *command):
        inside = " ".join(shlex.quote(str(c)) for c in command)
        return shell(f"cd / && setpriv --reuid=postgres --regid=postgres --clear-groups {inside}")

    def __enter__(self):
        options = ("-c listen_addresses= -c unix_socket_directories=/tmp -c shared_buffers=16MB "
                   "-c autovacuum=off -c port=54329")
        log = pathlib.Path(tempfile.gettempdir(), f"nights-postgres-{os.getpid()}.log")
        self.control("-o", options, "-l", log, "start")
        return self

    def __exit__(self, *_):
        self.control("-m", "fast", "stop")

    def control(self, *arguments):
        self.by_postgres(self.programs / "pg_ctl", "-D", self.data, "-w", "-t", "120", *arguments)

    def bench(self, *arguments):
        self.by_postgres(self.programs / "pgbench", "-h", "/tmp", "-p", "54329", *arguments, "postgres")

    def make(self, scale):
        self.data.mkdir()
        shutil.chown(self.data, "postgres", "postgres")
        self.by_postgres(self.programs / "initdb", "-D", self.data, "-A", "trust", "--no-sync")
        with self:
            self.bench("-i", "-q", "-s", scale)

    def night(self, transactions):
        with self:
            self.bench("-n", "-S", "-t", transactions, "--random-seed=1")
            self.bench("-n", "-t", transactions, "--random-seed=2")
            query = ("select md5(string_agg(format('%s %s', aid, delta), ',' order by aid, delta)) "
                     "from pgbench_history")
            psql = (self.programs / "psql", "-h", "/tmp", "-p", "54329", "-Atc", query, "postgres")
            return self.by_postgres(*psql)


def jobs(args):
    """Each job by name: what it does below a mounted root, returning what it has read."""
    folders = args.files // (tree.FILES_IN_A_DIRECTORY * tree.DIRECTORIES_IN_ONE)

    def by_night(root, night, first):
        # Not one of the directories of `tar`, if there are others.
        other = args.subset + night % max(folders - args.subset, 1)
        return shell(f"tar -C tree -cf - {first} t{other % max(folders, 1):03} | sha256sum", cwd=root)

    def queries(root):
        script = f"""
import hashlib, random, sqlite3
rng, base, found = random.Random(7), sqlite3.connect("file:{root}/base.sqlite?mode=ro", uri=True), hashlib.sha256()
for _ in range({args.queries}):
    found.update(repr(base.execute("select * from t where k = ?", (rng.randrange({args.rows}),)).fetchall()).encode())
print(found.hexdigest())"""
        return run(sys.executable, "-c", script)

    def started(root):
        script = f"import {MODULES}; print(len(__import__('sys').modules))"
        return run(root / "python/bin/python3", "-c", script, env=tree.python_environment(root / "python"))

    subset = " ".join(f"t{number:03}" for number in range(args.subset))
    return {
        "du": lambda root: shell("du -s tree", cwd=root),
        "find": lambda root: shell("find tree -size +1k | sort | sha256sum", cwd=root),
        "rsync": lambda root: shell("rsync -an --stats tree/ /nonexistent-nights/ | "
                                    "grep -E '^(Number of files|Total file size)'", cwd=root),
        "tar": lambda root: shell(f"tar -C tree -cf - {subset} | sha256sum", cwd=root),
        "status": lambda root: shell("git -C git status --porcelain | sha256sum", cwd=root),
        "grep": lambda root: shell("git -C git grep -c -e a5 -e f0 | sha256sum", cwd=root),
        "python": started,
        "sqlite": queries,
        "diverge": lambda root, night: by_night(root, night, "t000/d0000 t000/d0001"),
        "other": lambda root, night: by_night(root, night, ""),
        "pair": lambda root: shell(f"du -s tree & tar -C tree -cf - {subset} | sha256sum; wait", cwd=root),
        "pgbench": lambda root: Postgres(root).night(args.transactions),
    }


def possible(args):
    """The jobs that are asked for and whose programs are here."""
    git = shutil.which("git")
    needs = {"rsync": shutil.which("rsync"), "status": git, "grep": git,
             "pgbench": programs_of_postgres()}
    for name in args.jobs:
        if name in needs and not needs[name]:
            print(f"SKIPPED {name}: a program is missing")
    return [name for name in args.jobs if needs.get(name, True)]


@contextlib.contextmanager
def mounted(device, root=None):
    if root is None:
        root = pathlib.Path(tempfile.mkdtemp(prefix="nights-"))
        root.chmod(0o755)
        try:
            with mounted(device, root):
                yield root
        finally:
            root.rmdir()
        return
    run("mount", "-o", "noatime", device, root)
    try:
        yield root
    finally:
        run("umount", root)


class Watch:
    """`seekless watch` on a mount point where the device is mounted now."""

    def __init__(self, root, state):
        self.state = state
        command = [SEEKLESS, "watch", root, "--names", "--state", state]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("watching "):
            raise RuntimeError("seekless watch does not start")

    def totals(self):
        """What it did since its start, while the file system is mounted."""
        for _ in range(50):
            status = run(SEEKLESS, "watch", "status", "--json", "--state", self.state)
            found = json.loads(status)["filesystems"]
            if found:
                return found[0]["totals"]
            time.sleep(0.1)
        raise RuntimeError("seekless watch does not see the mount")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


@contextlib.contextmanager
def watching(wanted, image, folder):
    """A mount point for the jobs, and the watch of it if one is wanted."""
    root = pathlib.Path(folder, "root")
    root.mkdir(exist_ok=True)
    root.chmod(0o755)
    watch = None
    if wanted:
        with loop(image) as device, mounted(device, root):
            watch = Watch(root, pathlib.Path(folder, f"state-{time.monotonic_ns()}"))
    try:
        yield root, watch
    finally:
        if watch:
            watch.stop()


def make(image, args, names):
    image.touch()
    os.truncate(image, args.spread << 30)
    run(*MAKE[args.fs], image)
    with loop(image) as device, mounted(device) as root:
        tree.files(root / "tree", args.files, SEED, not args.dense)
        if {"status", "grep"} & set(names):
            tree.git(root / "git", args.files // 20, SEED + 1, not args.dense)
        if "python" in names:
            tree.python(root / "python")
        if "sqlite" in names:
            tree.sqlite(root / "base.sqlite", args.rows, SEED)
        if "pgbench" in names:
            Postgres(root).make(args.scale)


def digest_of_all(image):
    """All bytes that no job writes, as they stand at home once the server has ended."""
    with loop(image) as device, mounted(device) as root:
        here = [name for name in ("tree", "python", "base.sqlite") if (root / name).exists()]
        return shell(f"tar --sort=name -cf - {' '.join(here)} | sha256sum", cwd=root)


@contextlib.contextmanager
def recording(device, trace):
    if not trace:
        yield
        return
    command = [SEEKLESS, "record", device, "-o", trace, "--force", "--event", "D"]
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()


def job(server, device, root, watch, work):
    """One job from nothing in memory: the bytes read, and the disk's work. The job begins once the
    reads of the mount have ended: ext4 reads its bitmaps after a mount, and no job waits for these."""
    before = server.settled()
    with mounted(device, root):
        there = server.settled()
        began = time.monotonic()
        found = work()
        wall = time.monotonic() - began
        done = server.settled()
        if watch:
            time.sleep(2.3)  # A run ends after two idle seconds.
            watched = watch.totals()
    after = server.settled()
    took = {"wall_s": wall, "mount_s": between(before, there)["busy_s"],
            "job_s": between(there, done)["busy_s"],
            "moving_s": after["busy"]["moving_s"] - before["busy"]["moving_s"],
            **between(before, after)}
    return found, {**took, **({"watch": watched} if watch else {})}


def settings(name, image, args):
    """The arguments of a system's server, whose area is made where it has one."""
    disk = ["--disk", args.disk, "--scheduler", args.scheduler]
    if name in ("plain", "watch"):
        return [*disk, *BARE]
    if name == "vanilla":
        return [*disk, *args.cache, "--policy", "vanilla"]
    area = image.with_suffix(".area")
    size = min(image.stat().st_size // 8, AREA_MOST)
    run(SEEKLESS, "volume", "format", image, "--at", area, "--optimized", size)
    policy = ["--policy", args.policy] if args.policy else []
    return [*disk, *args.cache, "--area", area, *policy]


def system(name, image, args, names):
    """All nights of a system: what each job read, and the figures."""
    all_jobs, read, runs = jobs(args), [], []
    arguments = settings(name, image, args)
    with watching(name in ("watch", "both"), image, image.parent) as (root, watch):
        for night in range(1, args.nights + 1):
            for one in names:
                nightly = [night] if one in BY_NIGHT else []
                trace = f"{args.record}-{name}-{night}-{one}.parquet" if args.record else None
                with (serving_with(image, arguments) as server,
                      loop(server.file, "--direct-io=on") as device, recording(device, trace)):
                    found, took = job(server, device, root, watch, lambda: all_jobs[one](root, *nightly))
                    status = server.status()
                found = "".join(sorted(found.splitlines(True)))  # Two jobs at once end in any order.
                read.append((night, one, hashlib.sha256(found.encode()).hexdigest()))
                runs.append({"system": name, "night": night, "job": one, **took})
                print(f"{name:8} night {night} {one:8} {took['wall_s']:7.2f} s, disk "
                      f"{took['job_s']:7.2f} of {took['busy_s']:7.2f} s, {took['ios']:6} I/Os, "
                      f"{took['bytes'] >> 20} MiB", flush=True)
            if args.changed and night < args.nights:
                with loop(image) as device, mounted(device) as elsewhere:
                    tree.change(elsewhere / "tree", args.files, args.changed, SEED + night)
    shown = [a.name if isinstance(a, pathlib.Path) else str(a) for a in arguments]
    facts = {"adaptive": status["adaptive"], "copies": status["copies"], "serve": shown,
             "digest": digest_of_all(image)}
    return read, runs, facts


def table(runs, names, nights, systems):
    """The wall time of each job by night, its disk time in brackets. The last line has the disk's
    whole time, mounts and moving included. `N x`: the first system's figure is N times as long."""
    def of(system, night, which, key):
        return sum(r[key] for r in runs
                   if (r["system"], r["night"]) == (system, night) and r["job"] in which)

    def times(system, base, own):
        return f", {base / own:.1f}x" if system != systems[0] and own > 0.01 else ""

    def cell(system, night, name):
        wall, disk = (of(system, night, [name], key) for key in ("wall_s", "job_s"))
        base = of(systems[0], night, [name], "wall_s")
        return f"{wall:.2f} s ({disk:.2f})" + times(system, base, wall)

    def all_of(system, night):
        disk, base = (of(one, night, names, "busy_s") for one in (system, systems[0]))
        return f"{disk:.2f} s" + times(system, base, disk)

    columns = [(n, s) for n in range(1, nights + 1) for s in systems]
    head = ["job"] + [f"{s} {n}" for n, s in columns]
    lines = ["| " + " | ".join(head) + " |", "|:--|" + "--:|" * len(columns)]
    rows = [[name] + [cell(s, n, name) for n, s in columns] for name in names]
    rows.append(["**disk, all**"] + [all_of(s, n) for n, s in columns])
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--nights", type=int, default=4)
    parser.add_argument("--fs", choices=MAKE, default="ext4")
    parser.add_argument("--spread", type=int, default=200, help="size of the sparse volume, GiB")
    parser.add_argument("--dense", action="store_true", help="no ageing: files in the order of their names")
    parser.add_argument("--subset", type=int, default=4,
                        help="directories of 2,500 files that tar reads")
    parser.add_argument("--jobs", type=lambda text: text.split(","),
                        default="du,find,rsync,tar,status,grep,python,sqlite,pgbench".split(","))
    parser.add_argument("--disk", default="exos-x20",
                        help="NAME[,speed=X]; faster than real is for development")
    parser.add_argument("--scheduler", default="fcfs",
                        help="of the emulated drive; sptf is near to a drive with a queue")
    parser.add_argument("--policy", help="of the system beside vanilla; else serve's default")
    parser.add_argument("--cache", default=[], type=lambda size: ["--cache", size],
                        help="RAM of both systems; else serve's default")
    parser.add_argument("--quick", action="store_true", help="5,000 files on 20 GiB")
    parser.add_argument("--record", help="records both systems' requests to PREFIX-SYSTEM.parquet")
    parser.add_argument("--dir", type=pathlib.Path, help="where images are made")
    parser.add_argument("--keep", type=pathlib.Path, help="an image to make once, and to use again")
    parser.add_argument("--systems", type=lambda text: text.split(","),
                        default=["vanilla", "adaptive"],
                        help=f"of {', '.join(SYSTEMS)}; the first is the baseline; one alone is not archived")
    parser.add_argument("--changed", type=int, default=0,
                        help="percent of the tree's files that are replaced after each night")
    parser.add_argument("--nice", type=int, default=0)
    args = parser.parse_args()
    if unknown := set(args.systems) - set(SYSTEMS):
        parser.error(f"--systems: no system {', '.join(sorted(unknown))}; use {', '.join(SYSTEMS)}")
    if args.quick:
        args.files, args.spread = 5_000, 20
    folders = -(-args.files // (tree.FILES_IN_A_DIRECTORY * tree.DIRECTORIES_IN_ONE))
    args.subset = min(args.subset, folders)
    few, many = (20_000, 100, 1, 50), (200_000, 500, 5, 200)
    args.rows, args.queries, args.scale, args.transactions = few if args.quick else many
    return args


def main():
    args = arguments()
    prefer(args.nice)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    names = possible(args)
    read, runs = {}, []
    facts = {k: v for k, v in vars(args).items() if k not in ("dir", "keep", "record")}
    with tempfile.TemporaryDirectory(prefix="nights-", dir=args.dir) as folder:
        image = args.keep or pathlib.Path(folder, "made.img")
        if not image.exists():
            began = time.monotonic()
            make(image, args, names)
            took, mib = time.monotonic() - began, image.stat().st_blocks >> 11
            print(f"made {args.files} files in {took:.0f} s, {mib} MiB", flush=True)
        for name in args.systems:
            copy = pathlib.Path(folder, name)
            run("cp", "--sparse=always", image, copy)
            read[name], more, facts[name] = system(name, copy, args, names)
            runs += more
            copy.unlink()
            copy.with_suffix(".area").unlink(missing_ok=True)
    if len(args.systems) > 1:
        print("\n" + table(runs, names, args.nights, args.systems))
        seen = [(read[one], facts[one]["digest"]) for one in args.systems]
        facts["same_bytes"] = same = all(one == seen[0] for one in seen)
        kept = ("system", "night", "job", *COUNTED, "watch")
        rows = [{k: r[k] for k in kept if k in r} for r in runs]
        archive_in("benches/nights", args.fs, facts, rows)
        if not same:
            sys.exit("the systems read different bytes")


if __name__ == "__main__":
    main()
