"""Paired rounds of fio on a loop device: vanilla, again, recording Q, recording D. See run.sh."""

import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "startup"))
from host import SEEKLESS, archive_in
from programs import loop

SECONDS = float(os.environ.get("SECONDS_A_RUN", "4"))
WAYS = ["vanilla", "again", "Q", "D"]
# One reader that waits for each request, and one that keeps sixteen under way.
LOADS = {"psync": ["--ioengine=psync"], "libaio-16": ["--ioengine=libaio", "--iodepth=16"]}


def fio(device, engine, seed):
    out = subprocess.run(
        ["fio", "--name=r", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1", "--readonly",
         "--time_based", f"--runtime={SECONDS}", f"--randseed={seed}", "--output-format=json", *engine],
        check=True, capture_output=True, text=True).stdout
    job = json.loads(out)["jobs"][0]
    read = job["read"]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return {"iops": read["iops"], "asked": read["total_ios"], "fio_cpu_ns": cpu / read["total_ios"] * 1e9}


def run(way, device, directory, engine, seed):
    if way in ("vanilla", "again"):
        return fio(device, engine, seed)
    trace = directory / "t.parquet"
    recorder = subprocess.Popen(
        [SEEKLESS, "record", device, "-o", trace, "--force", "--event", way, "--json", directory / "c.json"],
        stderr=subprocess.PIPE, text=True)
    recorder.stderr.readline()
    try:
        told = fio(device, engine, seed)
    finally:
        recorder.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(recorder.pid, 0)
    assert status == 0, status
    counts = json.loads((directory / "c.json").read_text())
    return {**told, "seen": counts["requests"], "lost": counts["lost_events"],
            "bytes": counts["trace_bytes"], "cpu_s": usage.ru_utime + usage.ru_stime,
            "rss_kib": usage.ru_maxrss}


def main():
    rounds = int(sys.argv[1])
    runs = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        directory = pathlib.Path(name)
        image = directory / "image"
        with open(image, "wb") as f:
            for _ in range(64):
                f.write(os.urandom(1 << 20))
        with loop(image) as device:
            for number in range(rounds):
                for load, engine in LOADS.items():
                    for way in random.Random(number).sample(WAYS, len(WAYS)):
                        runs.append({"round": number, "load": load, "way": way,
                                     **run(way, device, directory, engine, number)})
    report(runs)
    archive_in("benches/record", "fio", {"load_average": os.getloadavg(), "seconds_a_run": SECONDS}, runs)


def report(runs):
    for load in LOADS:
        of = {way: {r["round"]: r for r in runs if r["load"] == load and r["way"] == way} for way in WAYS}
        plain = statistics.median(r["iops"] for r in of["vanilla"].values())
        print(f"{load}: {plain:,.0f} requests a second unrecorded, "
              f"{statistics.median(r['fio_cpu_ns'] for r in of['vanilla'].values()):,.0f} ns of fio's CPU each (medians)")
        for way in WAYS[1:]:
            ratios = sorted(of[way][n]["iops"] / of["vanilla"][n]["iops"] for n in of[way])
            quarter = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            more = statistics.median(of[way][n]["fio_cpu_ns"] - of["vanilla"][n]["fio_cpu_ns"] for n in of[way])
            line = f"  {way:8} throughput x {quarter[1]:.3f} (quartiles {quarter[0]:.3f} to {quarter[2]:.3f})"
            line += f", fio {more:+.0f} ns of CPU a request"
            rows = [r for r in of[way].values() if "seen" in r]
            if rows:
                seen = sum(r["seen"] for r in rows)
                line += (f", lost {sum(r['lost'] for r in rows)} of {seen}"
                         f", {sum(r['cpu_s'] for r in rows) / seen * 1e9:.0f} ns of the recorder's CPU a request"
                         f", {sum(r['bytes'] for r in rows) / seen:.1f} bytes a request"
                         f", {max(r['rss_kib'] for r in rows) / 1024:.0f} MiB resident")
            print(line)


if __name__ == "__main__":
    main()
