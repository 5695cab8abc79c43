#!/usr/bin/env python3
"""What the adaptive policy brings, and where it loses: all simulated tables of docs/believing/adaptive-results.md, in Markdown.

    benches/policy/run.py [TABLE...] [--shared DIR] [--starts 0,10,100,1000] [--ram 16,32,64,128,256]

Tables: cold, policies, energy, ahead, think, ram. Traces: the two of sample/, and P3 and ajw in DIR/traces if they are there
(P3.lis.zst, ajw.1week.srt.xz). All is simulated: times and joules are modelled, and a busy machine changes nothing. `ram`
replays each trace several times without its first requests, because one run is one draw: mean [least, most]."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEKLESS = os.environ.get("SEEKLESS", ROOT / "target/release/seekless")
ADAPTIVE = ["adaptive", "adaptive:trail=off", "clairvoyant"]
ALL = ["vanilla", "fs2", "borg", "organ-pipe", "lazy", "adaptive", "clairvoyant"]
TABLES = ["cold", "policies", "energy", "ahead", "think", "ram"]


def traces(shared):
    """Name, path, and arguments of every trace that is here."""
    desktop, disk = ROOT / "sample/desktop.trace.zst", ["--disk", "wd800jb"]
    yield "sample, issue events", desktop, [*disk, "--event", "D"]
    yield "sample, queue events", desktop, disk
    yield "P3", shared / "traces/P3.lis.zst", disk
    yield "ajw", shared / "traces/ajw.1week.srt.xz", [*disk, "--free", "20%"]
    yield "nights", ROOT / "sample/nights.parquet", ["--disk", "exos-x20"]


def simulate(trace, policies, *more):
    _, path, args = trace
    command = [SEEKLESS, "simulate", path, *args, "--read-ahead", "64KiB", "--policy", ",".join(policies), "--json", "-", *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]


def cold(trace, *more):
    return simulate(trace, ["vanilla", *ADAPTIVE], "--train", "0%", *more)


def whole(run):
    return run["busy_s"] + run["background_busy_s"]


def saves(run, vanilla):
    return 100 * (1 - whole(run) / whole(vanilla))


def percent(number):
    return f"{number:.1f}%".replace("-", "−")


def change(run, vanilla, of):
    ratio = run["response_ms"][of] / vanilla["response_ms"][of]
    return f"{100 * (ratio - 1):+.1f}%".replace("-", "−")


def row(*cells):
    print("|", " | ".join(str(cell) for cell in cells), "|")


def head(*cells):
    print()
    row(*cells)
    print("|:--|" + "--:|" * (len(cells) - 1))


def table_cold(run_all, found):
    head("trace", "vanilla", "adaptive", "saves", "without a trail", "clairvoyant", "share of clairvoyant", "stood aside")
    for trace, (vanilla, adaptive, alone, knows) in run_all(found, cold):
        saved = [saves(run, vanilla) for run in (adaptive, alone, knows)]
        times = [f"{whole(run):.1f} s" for run in (vanilla, adaptive)]
        share = f"{100 * saved[0] / saved[2]:.0f}%"
        row(trace[0], *times, *map(percent, saved), share, f"{adaptive['guard_bypassed_s']:.1f} s")


def table_policies(run_all, found):
    for trace, runs in run_all(found, lambda trace: simulate(trace, ALL, "--train", "50%")):
        print(f"\n{trace[0]}:")
        head("policy", "busy", "background", "saves", "energy", "a request", "mean response")
        for run in runs:
            joules = run["energy_j"]["total"]
            row(f"`{run['policy']}`", f"{run['busy_s']:.1f} s", f"{run['background_busy_s']:.1f} s",
                "" if run is runs[0] else percent(saves(run, runs[0])), f"{joules:.0f} J",
                f"{1000 * joules / run['requests']:.1f} mJ", f"{run['response_ms']['mean']:.2f} ms")  # fmt: skip


def table_energy(run_all, found):
    head("trace", "vanilla", "adaptive", "without a trail", "clairvoyant")
    for trace, runs in run_all(found, cold):
        joules = [run["energy_j"]["total"] for run in runs]
        row(trace[0], *(f"{j:.0f} J, {1000 * j / run['requests']:.1f} mJ" for j, run in zip(joules, runs)))


def table_ahead(run_all, found):
    head("trace", "prefetched", "of it used", "trail reads", "trail writes")
    for trace, (_, run, *_) in run_all(found, cold):
        row(trace[0], f"{run['prefetched_bytes'] >> 20} MiB", f"{100 * run['prefetch_used_share']:.0f}%",
            f"{run['trail_reads']:,}", f"{run['trail_written_bytes'] >> 20} MiB")  # fmt: skip


def table_think(run_all, found):
    head("trace, think time", "mean: vanilla, adaptive", "", "99th percentile", "", "maximum", "disk time saved")
    pauses = [(trace, ms) for trace in found for ms in (0, 2, 5, 10, 20)]
    pauses += [(trace, "open loop") for trace in found if trace[0] in ("sample, issue events", "ajw")]

    def work(at):
        trace, ms = at
        more = ["--open-loop"] if ms == "open loop" else ["--think", f"{ms}ms"] if ms else []
        return simulate(trace, ["vanilla", "adaptive"], "--train", "0%", *more)

    for (trace, ms), (vanilla, run) in run_all(pauses, work):
        cells = [", ".join(f"{r['response_ms'][of]:.{n}f}" for r in (vanilla, run)) for of, n in (("mean", 2), ("p99", 1), ("max", 1))]
        name = f"{trace[0]}, {ms if isinstance(ms, str) else f'{ms} ms'}"
        row(name, cells[0], change(run, vanilla, "mean"), cells[1], change(run, vanilla, "p99"), cells[2], percent(saves(run, vanilla)))


def table_ram(run_all, found, starts, sizes):
    head("trace, RAM", "vanilla", "adaptive", "without a trail", "clairvoyant")
    with tempfile.TemporaryDirectory() as folder:
        draws = {}
        for n, (name, path, args) in enumerate(found):
            text = pathlib.Path(folder) / f"{n}.csv"
            subprocess.run([SEEKLESS, "convert", path, f"csv:{text}", *args[2:4][: 2 * ("--event" in args)]], check=True, capture_output=True)
            first, *lines = text.read_text().splitlines(keepends=True)
            for start in starts:
                cut = text.with_name(f"{n}-{start}.csv")
                cut.write_text(first + "".join(lines[start:]))
                draws[name, start] = (name, cut, args[:2])
        cells = [(name, size, start) for name, *_ in found for size in sizes for start in starts]
        work = lambda cell: cold(draws[cell[0], cell[2]], "--cache", f"{cell[1]}MiB")
        results = {}
        for (name, size, _), runs in run_all(cells, work):
            results.setdefault((name, size), []).append(runs)
    for (name, size), draws in results.items():
        spread = []
        for i in 1, 2, 3:
            saved = [saves(runs[i], runs[0]) for runs in draws]
            spread.append(f"{statistics.mean(saved):.1f} [{min(saved):.1f}, {max(saved):.1f}]".replace("-", "−"))
        row(f"{name}, {size} MiB", f"{whole(draws[0][0]):.1f} s", *spread)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=TABLES)
    parser.add_argument("--shared", type=pathlib.Path, default=os.environ.get("SEEKLESS_SHARED", ROOT.parent / "shared"))
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--starts", type=numbers, default="0,10,100,1000")
    parser.add_argument("--ram", type=numbers, default="16,32,64,128,256")
    args = parser.parse_args()
    found = [trace for trace in traces(pathlib.Path(args.shared)) if trace[1].exists()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        run_all = lambda cells, work: zip(cells, pool.map(work, cells))
        for table in args.tables:
            more = [args.starts, args.ram] if table == "ram" else []
            globals()[f"table_{table}"](run_all, found, *more)


if __name__ == "__main__":
    main()
