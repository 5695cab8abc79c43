"""Calculates the statistics of a trace once more and compares: `check.py tracefs|lis|srt STAT.json < TRACE`.

Reads the trace, not compressed, by a parser of its own, and shares nothing with seekless but the definitions in
docs/using/stat.md. Says how many numbers it compared; exits with 1 and says which differ by more than they say they may.
Needs Python alone.
"""

import json
import math
import re
import struct
import sys
from bisect import bisect_right
from collections import Counter, OrderedDict, defaultdict

DATA = "RW"


def tracefs(raw):
    line = re.compile(r"^ *(.+)-(\d+) +\[\d+\] +\S+ +(\d+)\.(\d+): block_bio_queue: (\d+,\d+) (\w+) (\d+) \+ (\d+) \[(.*)\]$")
    for text in raw.decode().splitlines():
        m = line.match(text)
        if m:
            time = int(m[3]) * 10**9 + int(m[4]) * 1000
            op = "F" if m[8] == "0" else m[6].lstrip("F")[0]
            yield time, None, m[5], op, int(m[7]), int(m[8]), int(m[2]), m[9], None


def lis(raw):
    for text in raw.decode().splitlines():
        start, blocks, day, _ = map(int, text.split())
        yield None, day, "", "R", start, blocks, 0, "", None


def srt(raw):
    at = raw.index(b"\x0c") + 1
    while at < len(raw):
        size = struct.unpack_from(">I", raw, at)[0]
        word = struct.unpack_from(f">{size // 4}I", raw, at)
        at += size
        seconds, micros, start_us, stop_us, count, sector, device = word[2:9]
        flags = word[11]
        start, end = sector * 256, sector * 256 + count
        first, last = start // 512, -(-end // 512)
        time = (seconds * 10**6 + micros) * 1000
        yield time, None, device >> 8 & 255, "R" if flags & 1 else "W", first, last - first, 0, "", (stop_us - start_us) * 1000


class Check:
    def __init__(self):
        self.compared, self.wrong = 0, []

    def near(self, what, told, want, off=0.0):
        self.compared += 1
        if not abs(told - want) <= off + 1e-9 * max(abs(told), abs(want), 1e-9):
            self.wrong.append(f"{what}: told {told} +- {off}, calculated {want}")

    def estimate(self, what, told, want):
        assert told["exact"] == (told["plus_minus"] == 0), what
        self.near(what, told["value"], want, told["plus_minus"])

    def distribution(self, what, told, values, unit):
        values = sorted(values)
        self.near(what + " count", told["count"], len(values))
        if not values:
            return
        for name, want in (("mean", sum(values) / len(values)), ("min", values[0]), ("max", values[-1])):
            self.near(f"{what} {name}", told[name], want * unit)
        for name, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            want = values[max(math.ceil(p * len(values)), 1) - 1] * unit
            self.near(f"{what} {name}", told[name], want, told["plus_minus_share"] * want)
        for value, share in told["curve"]:
            near = told["plus_minus_share"] * value / unit + 1e-6
            low = bisect_right(values, value / unit - near) / len(values)
            high = bisect_right(values, value / unit + near) / len(values)
            self.near(f"{what} curve at {value}", share, (low + high) / 2, (high - low) / 2)


def share(part, whole):
    return part / whole if whole else 0.0


def hot(counts, part):
    """Which share of each page belongs to the hottest part of the pages: those of one count share it evenly."""
    classes = sorted(Counter(counts.values()).items(), reverse=True)
    left, of = part * len(counts), {}
    for count, pages in classes:
        of[count] = min(max(left / pages, 0.0), 1.0)
        left -= pages
    return of


def hottest(counts, part):
    of = hot(counts, part)
    return sum(of[n] * n for n in counts.values()) / sum(counts.values())


def touched(request):
    return range(request[4] // 8, (request[4] + request[5] - 1) // 8 + 1)


def lru(accesses, size):
    cache, misses = OrderedDict(), 0
    for page in accesses:
        if page in cache:
            cache.move_to_end(page)
        else:
            misses += 1
            cache[page] = None
            if len(cache) > size:
                cache.popitem(last=False)
    return misses / len(accesses)


def days(check, told, requests, clock):
    length = told["day_s"]
    of, latest = OrderedDict(), 0
    for at, r in zip(clock, requests):
        if r[3] in DATA:
            latest = max(latest, r[1] if length is None else at // int(length * 1e9))
            of.setdefault(latest, []).append(r)
    check.near("days", told["active"], len(of))
    pages = [Counter((r[2], p) for r in day for p in touched(r)) for day in of.values()]
    parts = [hot(day, 0.2) for day in pages]
    for i, (number, row) in enumerate(zip(of, told["rows"])):
        what = f"day {number}"
        check.near(what, row["day"], number)
        check.near(what + " requests", row["requests"], len(of[number]))
        check.near(what + " accesses", row["page_accesses"], sum(pages[i].values()))
        check.estimate(what + " pages", row["pages"], len(pages[i]))
        for other, name in ((0, "first_day"), (i - 1, "day_before")):
            if i:
                both = pages[i].keys() & pages[other].keys()
                check.estimate(f"{what} of {name}", row[f"of_{name}"], len(both) / len(pages[i]))
                top = sum(parts[i][pages[i][p]] * parts[other][pages[other][p]] for p in both)
                check.estimate(f"{what} top of {name}", row[f"top20_of_{name}"], top / (0.2 * len(pages[i])))
    for curve in told["persistence"]:
        pairs = list(zip(pages, pages[curve["days_later"]:]))
        check.near("pairs of days", curve["pairs"], len(pairs))
        for space, told_share in curve["curve"]:
            want = 0.0
            for ranked, later in pairs:
                of_count = hot(ranked, space)
                want += sum(of_count[ranked[p]] * n for p, n in later.items() if p in ranked) / sum(later.values())
            check.near(f"heat of {space} {curve['days_later']} days later", told_share, want / len(pairs), curve["plus_minus"])


def main():
    requests = list({"tracefs": tracefs, "lis": lis, "srt": srt}[sys.argv[1]](sys.stdin.buffer.read()))
    with open(sys.argv[2], encoding="utf-8") as file:
        s = json.load(file)
    check, table = Check(), s["table1"]
    data = [r for r in requests if r[3] in DATA]
    check.near("requests", s["trace"]["requests"], len(requests))
    sectors = {"R": set(), "W": set()}
    accesses, kinds = [], {"R": Counter(), "W": Counter()}
    for r in data:
        sectors[r[3]].update((r[2], n) for n in range(r[4], r[4] + r[5]))
        pages = [(r[2], p) for p in touched(r)]
        accesses += pages
        kinds[r[3]].update(pages)
    for op, n, total in (("R", "reads", "read_bytes"), ("W", "writes", "written_bytes")):
        check.near(n, table[n], sum(r[3] == op for r in data))
        check.near(total, table[total], 512 * sum(r[5] for r in data if r[3] == op))
    read, written = sectors["R"], sectors["W"]
    for name, want in (("read", read), ("written", written), ("both", read & written)):
        check.estimate("unique " + name, table[f"unique_{name}_bytes"], 512 * len(want))
    check.estimate("unique", table["unique_bytes"], 512 * len(read | written))
    counts = kinds["R"] + kinds["W"]
    check.estimate("pages", table["pages"], len(counts))
    check.near("page accesses", table["page_accesses"], len(accesses))
    check.estimate("top 20%", table["top20_share"], hottest(counts, 0.2))
    for point in s["temperature"]:
        check.estimate(f"temperature at {point['space']}", point["accesses"], hottest(counts, point["space"]))
    for name, of in (("all", counts), ("reads", kinds["R"]), ("writes", kinds["W"])):
        ranking = sorted(of.values(), reverse=True)
        for point in s["rank_frequency"][name]:
            if point["rank"]["exact"]:
                check.near(f"rank {point['rank']['value']} of {name}", point["accesses"], ranking[point["rank"]["value"] - 1])

    last, pairs, seeks, sequential, backward = {}, Counter(), [], 0, 0
    for r in data:
        if r[2] in last:
            start, end = last[r[2]]
            if end == r[4]:
                sequential += 1
            else:
                pairs[r[2], start, r[4]] += 1
                seeks.append(abs(end - r[4]))
                backward += r[4] < end
        last[r[2]] = (r[4], r[4] + r[5])
    told = table["determinism"]
    check.near("non-sequential", told["non_sequential"], len(seeks))
    check.estimate("determinism", told["share"], share(sum(n for n in pairs.values() if n > 1), len(seeks)))
    check.estimate("determinism, often", told["share_100"], share(sum(n for n in pairs.values() if n >= 100), len(seeks)))
    check.estimate("pairs", told["pairs"], len(pairs))

    shape = s["shape"]
    check.near("sequential", shape["sequential_share"], share(sequential, len(data)))
    check.near("backward", shape["backward_share"], share(backward, len(seeks)))
    check.near("starts", shape["aligned_start_share"], share(sum(r[4] % 8 == 0 for r in data), len(data)))
    check.near("lengths", shape["aligned_length_share"], share(sum(r[5] % 8 == 0 for r in data), len(data)))
    check.distribution("reads", shape["read_size_bytes"], [r[5] for r in data if r[3] == "R"], 512)
    check.distribution("writes", shape["write_size_bytes"], [r[5] for r in data if r[3] == "W"], 512)
    check.distribution("seeks", shape["seek_bytes"], seeks, 512)

    check.estimate("first accesses", s["reuse"]["first_share"], len(counts) / len(accesses))
    for point in s["reuse"]["curve"][::6] + s["reuse"]["curve"][-1:]:
        check.estimate(f"misses of {point['pages']} pages", point["miss_ratio"], lru(accesses, point["pages"]))

    clock = []
    if s["time"]:
        for r in requests:
            clock.append(max(clock[-1] if clock else 0, r[0] - requests[0][0]))
        check.near("span", s["trace"]["span_s"], clock[-1] / 1e9)
        between = [b - a for a, b in zip(clock, clock[1:])]
        check.distribution("between", s["time"]["interarrival_s"], between, 1e-9)
        for burst in s["time"]["bursts"]:
            length = round(burst["window_s"] * 1e9)
            windows = clock[-1] // length  # whole ones
            full = Counter(at // length for at in clock if at // length < windows)
            mean = sum(full.values()) / windows
            variance = sum(n * n for n in full.values()) / windows - mean * mean
            check.near("windows", burst["windows"], windows)
            check.near("dispersion", burst["dispersion"], variance / mean, 1e-6 * variance / mean)
            check.near("peak", burst["peak"], max(full.values()))
            check.near("peak to mean", burst["peak_to_mean"], max(full.values()) / mean)
    else:
        clock = range(len(requests))
    if s["service"]:
        for name, op in (("read_s", "R"), ("write_s", "W")):
            check.distribution(name, s["service"][name], [r[8] for r in data if r[3] == op], 1e-9)
    if s["days"]:
        days(check, s["days"], requests, clock)

    if s["processes"]:
        name = {}
        for r in requests:
            name[r[6]] = r[7]
        of = defaultdict(list)
        for r in requests:
            of[name[r[6]]].append(r)
        check.near("names", len(s["processes"]), len(of))
        for row in s["processes"]:
            mine = of[row["name"]]
            what = f"process {row['name']}"
            check.near(what, row["requests"], len(mine))
            check.near(what + " how many", row["processes"], len({r[6] for r in mine}))
            check.near(what + " read", row["read_bytes"], 512 * sum(r[5] for r in mine if r[3] == "R"))
            check.near(what + " written", row["written_bytes"], 512 * sum(r[5] for r in mine if r[3] == "W"))
            check.estimate(what + " pages", row["pages"], len({(r[2], p) for r in mine if r[3] in DATA for p in touched(r)}))
    for grid in s["heat"]:
        check.near("cells", sum(grid["cells"]), sum(len(s["heat"]) == 1 or str(r[2]) == grid["device"] for r in data))
    check.near("devices", len(s["devices"]), len(last))
    for text in check.wrong[:40]:
        print(text)
    print(f"{check.compared} numbers compared, {len(check.wrong)} differ")
    return 1 if check.wrong else 0


sys.exit(main())
