#!/usr/bin/env python3
"""The cost of `seekless watch` for reads from the page cache. As root, with fio:

    benches/watch/run.py [--pairs N] [--dir FOLDER]

fio reads a cached file of an ext4 at random, in pieces of 4 KiB: without the daemon, beside an idle daemon, and beside a daemon that
runs ahead of a job, in turn. Then dd reads the file many times in order, at about a million hits a second. What is compared is the
processor time for the same number of reads, which other work on the machine changes less than the rate: fio's, and all and the median
of dd's. The daemon's own processor time is shown beside them, with that of its start."""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "startup"))
from host import SEEKLESS, archive_in, run
from programs import loop

CACHED_MIB, READ_MIB, FILES, SLICES = 256, 2048, 400, 100


def mount(device, root):
    run("blockdev", "--flushbufs", device)
    run("mount", "-o", "noatime", device, root)


def fio(file):
    """The processor time of one fio, its reads a second, and the load of the machine."""
    command = ["fio", "--name=cached", f"--filename={file}", "--rw=randread", "--bs=4k", "--ioengine=psync", "--invalidate=0",
               f"--size={CACHED_MIB}M", f"--io_size={READ_MIB}M", "--randrepeat=1", "--norandommap", "--output-format=json"]
    job = json.loads(run(*command))["jobs"][0]
    seconds = job["job_runtime"] / 1000
    return {"cpu_s": seconds * (job["usr_cpu"] + job["sys_cpu"]) / 100, "rate": job["read"]["iops"], "load": os.getloadavg()[0]}


def hits(file):
    """The processor time of each dd."""
    times = []
    for _ in range(SLICES):
        child = os.posix_spawn("/bin/dd", ["dd", f"if={file}", "of=/dev/null", "bs=4k", "status=none"], os.environ)
        used = os.wait4(child, 0)[2]
        times.append(used.ru_utime + used.ru_stime)
    return {"dd_s": sum(times), "dd_median_s": statistics.median(times)}


def processor_time(process):
    fields = pathlib.Path("/proc", str(process.pid), "stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def watching(root, state):
    process = subprocess.Popen([SEEKLESS, "watch", root, "--state", state], stdout=subprocess.PIPE, text=True)
    try:
        if not process.stdout.readline().startswith("watching "):
            raise RuntimeError("seekless watch does not start")
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def reader(root, pause):
    """A job that reads all small files, with a pause after each."""
    script = f"import pathlib, time\nfor f in sorted(pathlib.Path('{root}/small').iterdir()): f.read_bytes(), time.sleep({pause})"
    return subprocess.Popen([sys.executable, "-c", script], start_new_session=True)


def status(state):
    return json.loads(run(SEEKLESS, "watch", "status", "--json", "--state", state))["filesystems"][0]


def ahead(root, state):
    """Starts the job that the daemon knows, and waits until it is recognized."""
    before = status(state)["totals"]["recognized"]
    process = reader(root, 0.5)
    for _ in range(100):
        if status(state)["totals"]["recognized"] > before:
            return process
        time.sleep(0.1)
    raise RuntimeError("the job is not recognized")


def one(how, device, root, state):
    mount(device, root)
    job = None
    with contextlib.ExitStack() as stack:
        stack.callback(run, "umount", root)
        fio(root / "cached")  # The file comes into memory, and no daemon learns it.
        if how != "off":
            daemon = stack.enter_context(watching(root, state))
        if how == "ahead":
            job = ahead(root, state)
            stack.callback(lambda: (os.killpg(job.pid, signal.SIGKILL), job.wait()))
        found = {**fio(root / "cached"), **hits(root / "cached")}
        if how != "off":
            now = status(state)
            found |= {"busy": now["busy"], "totals": now["totals"], "daemon_s": processor_time(daemon)}
    return {"how": how, **found}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--dir", type=pathlib.Path, help="where the image is made")
    args = parser.parse_args()
    runs, kinds = [], ["off", "idle", "ahead"]
    with tempfile.TemporaryDirectory(prefix="watch-", dir=args.dir) as folder:
        image, root, state = (pathlib.Path(folder, n) for n in ("image", "root", "state"))
        root.mkdir()
        image.touch()
        os.truncate(image, 1 << 30)
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        with loop(image) as device:
            mount(device, root)
            (root / "cached").write_bytes(os.urandom(CACHED_MIB << 20))
            (root / "small").mkdir()
            for number in range(FILES):
                (root / "small" / f"{number:04}").write_bytes(os.urandom(8000))
            run("umount", root)
            mount(device, root)
            with watching(root, state):
                reader(root, 0).wait()
                time.sleep(2.5)
            run("umount", root)
            for number in range(args.pairs):
                for how in kinds[number % 3:] + kinds[:number % 3]:
                    found = one(how, device, root, state)
                    runs.append({"pair": number, **found})
                    print(f"{number:2} {how:6} fio {found['cpu_s']:.3f} s, {found['rate']:.0f} reads a second; dd {found['dd_s']:.3f} s, "
                          f"median {found['dd_median_s']:.4f} s; daemon {found.get('daemon_s', 0):.2f} s", flush=True)
    ratios = {}
    for how in kinds[1:]:
        for key in ("cpu_s", "dd_s", "dd_median_s"):
            by = [{r["how"]: r[key] for r in runs if r["pair"] == n} for n in range(args.pairs)]
            of = ratios[f"{how} {key}"] = sorted(b[how] / b["off"] for b in by)
            print(f"{how}: {key} {statistics.median(of):.3f} of that without ({of[0]:.3f} to {of[-1]:.3f})")
    archive_in("benches/watch", "fio", {"cached_mib": CACHED_MIB, "read_mib": READ_MIB, "slices": SLICES, "ratios": ratios}, runs)


if __name__ == "__main__":
    main()
