"""Markdown tables of runs: report.py RUN.json ... puts the systems of several files side by side."""

import json
import pathlib
import statistics
import sys

# Two-sided 95 % of Student's t by degrees of freedom, from 1.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]


def interval(values):
    """Mean and half of its 95 % interval."""
    if len(values) < 2:
        return statistics.mean(values), float("nan")
    t = STUDENT[min(len(values) - 1, len(STUDENT)) - 1]
    return statistics.mean(values), t * statistics.stdev(values) / len(values) ** 0.5


def measured(runs):
    """Runs by what was started and by system. One that read less than half of what its like read (the median) was not
    cold, and is left out and told of."""
    groups = {}
    for r in runs:
        if r["phase"] == "measured":
            groups.setdefault(r["name"], {}).setdefault(r["system"], []).append(r)
    for name, systems in groups.items():
        for system, of in systems.items():
            least = statistics.median(r["bytes"] for r in of) / 2
            warm = [r for r in of if r["bytes"] < least]
            if warm:
                print(f"left out, not cold: {name}, {system}, {len(warm)} of {len(of)}\n")
            systems[system] = [r for r in of if r["bytes"] >= least]
    return groups


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n|:--|" + "--:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def tables(runs):
    groups = measured(runs)
    systems = list(dict.fromkeys(s for of in groups.values() for s in of))
    systems.sort(key=lambda s: s != "vanilla")
    for key, what in (("wall_s", "start (s)"), ("busy_s", "disk busy (s)")):
        rows = []
        for name, of in groups.items():
            row = [name]
            for system in systems:
                if system not in of:
                    row.append("")
                    continue
                mean, half = interval([r[key] for r in of[system]])
                cell = f"{mean:.2f} ± {half:.2f} ({len(of[system])})"
                if system != "vanilla" and "vanilla" in of:
                    cell += f", {100 * (mean / statistics.mean(r[key] for r in of['vanilla']) - 1):+.0f} %"
                row.append(cell)
            rows.append(row)
        print_table([what] + systems, rows)
    rows = []
    for name, of in groups.items():
        row = [name]
        for system in (s for s in systems if s in of):
            total = {k: sum(r[k] for r in of[system]) for k in of[system][0] if isinstance(of[system][0][k], (int, float))}
            n = len(of[system])
            row += [f"{total['bytes'] / n / 2**20:.0f}", f"{total['ios'] / n:.0f}", f"{100 * total['nonsequential'] / (total['bytes'] / 4096):.1f}",
                    f"{total['seek_cylinders'] / total['ios']:,.0f}", f"{100 * total['copy_reads'] / max(1, total['copy_reads'] + total['home_reads']):.0f}",
                    f"{total['late_s'] / n:.1f}"]
        rows.append(row)
    print_table(["per start"] + [f"{s}: {w}" for s in systems
                                 for w in ("MiB", "I/Os", "seeks/block (%)", "mean seek (cyl)", "from copies (%)", "late (s)")], rows)


if __name__ == "__main__":
    tables([r for name in sys.argv[1:] for r in json.loads(pathlib.Path(name).read_text())["runs"]])
