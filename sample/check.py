"""Reads a recorded trace back and says what it holds: `check.py [FILE [GAP_SECONDS]]`, as a Markdown table.

It refuses to call a trace good whose rounds cannot be told apart, or whose later rounds have nothing, or
everything, in common with the earlier ones. A round begins after a silence longer than GAP_SECONDS.
"""

import re
import subprocess
import sys
from collections import Counter

path = sys.argv[1] if len(sys.argv) > 1 else __file__.rsplit("/", 1)[0] + "/desktop.trace.zst"
gap = float(sys.argv[2]) if len(sys.argv) > 2 else 15.0
LINE = re.compile(r"^ *(.+)-(\d+) +\[\d+\] +\S+ +([\d.]+): (block_bio_queue|block_rq_issue): \d+,\d+ (\w+) "
                  r"(?:\d+ \(.*?\) )?(\d+) \+ (\d+) (?:\S+ )?\[(.*)\]$")

rounds = []  # lists of (time, read, sector, sectors, pid, comm), as queued
issued = []  # the same, as they reach the disk
last, backwards, other = None, 0, Counter()
for line in subprocess.run(["zstd", "-dc", path], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
    if line.startswith("#") or not line:
        continue
    m = LINE.match(line)
    if not m:
        sys.exit(f"{path}: neither a queue nor an issue event: {line!r}")
    time, rwbs, sector, sectors = float(m[3]), m[5], int(m[6]), int(m[7])
    if last is None or time - last > gap:
        rounds.append([])
        issued.append([])
    backwards += last is not None and time < last
    last = time
    if not sectors or rwbs.lstrip("F")[:1] not in ("R", "W"):
        other[rwbs] += m[4] == "block_bio_queue"
        continue
    to = rounds if m[4] == "block_bio_queue" else issued
    to[-1].append((time, rwbs.lstrip("F")[0] == "R", sector, sectors, int(m[2]), m[8]))


def pages(requests, read):
    return {p for _, r, s, n, _, _ in requests if r == read for p in range(s // 8, (s + n + 7) // 8)}


start = rounds[0][0][0]
print("| round | starts at s | lasts s | queued | issued | reads | writes | MiB read | MiB written | issued reads not sequential | pages read, MiB "
      "| of these read in an earlier round |\n|" + "--:|" * 12)
seen, everything = set(), []
for i, requests in enumerate(rounds, 1):
    everything += requests
    reads = [q for q in requests if q[1]]
    writes = [q for q in requests if not q[1]]
    disk_reads = [q for q in issued[i - 1] if q[1]]
    jumps = sum(1 for a, b in zip(disk_reads, disk_reads[1:]) if b[2] != a[2] + a[3])
    now = pages(requests, True)
    print(f"| {i} | {requests[0][0] - start:.0f} | {requests[-1][0] - requests[0][0]:.0f} | {len(requests)} | {len(issued[i - 1])} | {len(reads)} | {len(writes)} "
          f"| {sum(q[3] for q in reads) / 2048:.0f} | {sum(q[3] for q in writes) / 2048:.0f} | {jumps / len(disk_reads):.0%} "
          f"| {len(now) / 256:.0f} | {len(now & seen) / len(now):.0%} |")
    seen |= now
half = len(everything) // 2
early, late = pages(everything[:half], True), pages(everything[half:], True)
late_reads = [q for q in everything[half:] if q[1]]
known = sum(1 for q in late_reads if all(p in early for p in range(q[2] // 8, (q[2] + q[3] + 7) // 8)))
touched = pages(everything, True) | pages(everything, False)
reads = sum(q[1] for q in everything)
comms = Counter(q[5] for q in everything)
print(f"\n{len(everything)} requests queued, {sum(map(len, issued))} issued. Of the queued: {reads} reads, {len(everything) - reads} writes, "
      f"{sum(q[3] for q in everything) / 2048:.0f} MiB moved, footprint {len(touched) / 256:.0f} MiB "
      f"in sectors {min(q[2] for q in everything)}..{max(q[2] + q[3] for q in everything)}, {last - start:.0f} s.")
print(f"Other events (flush, discard): {dict(other)}. Times going backwards: {backwards}.")
print(f"Halves by request count: {len(late & early) / len(late):.0%} of the pages that the second half reads, and {known / len(late_reads):.0%} "
      f"of its reads in full, were read in the first half.")
written = pages(everything[half:], False)
print(f"Pages of the first half's reads that the second half writes: {len(written & early) / len(early):.1%}.")
print(f"{len({q[4] for q in everything})} processes of {len(comms)} names: "
      + ", ".join(f"{c} {n}" for c, n in comms.most_common(24)) + ", ...")
assert len(rounds) > 1, "one round only: is the gap too short?"
assert 0.2 < len(late & early) / len(late) < 0.98, "the later rounds are no honest test"
