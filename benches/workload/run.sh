#!/bin/sh
# The generator against fio on a tmpfs: the same flows, operations a second, in turn.
#
#   benches/workload/run.sh [SECONDS [ROUNDS]]
#
# Flow 1: read 4 KiB at random in one file of 64 MiB (pread). Flow 2: write 4 KiB at random. Four threads each. fio counts
# I/Os, and so do we here. Both run one after the other, ROUNDS times; the ratio of medians is what counts.
set -eu
seconds=${1:-3}
rounds=${2:-5}
program=${SEEKLESS:-target/release/seekless}
place=$(mktemp -d /dev/shm/seekless-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT INT TERM

flow() {
    cat > "$place/flow.toml" <<EOF
name = "flow"
title = "$1 at random"
[[set]]
name = "data"
files = 1
size = "64MiB"
width = 20
prealloc = 1.0
[[flow]]
name = "worker"
threads = 4
steps = [{ op = "$1", set = "data", fd = 1, io = "4KiB", random = true }]
EOF
    dd if=/dev/zero of="$place/fio.dat" bs=1M count=64 2>/dev/null
    for round in $(seq "$rounds"); do
        "$program" workload run "$place/flow.toml" --dir "$place/ours" --warm-up 0.5 --seconds "$seconds" --power none \
            --json "$place/ours.json"  >/dev/null 2>&1
        ours=$(python3 -c "import json;print(json.load(open('$place/ours.json'))['outcome']['ops_per_s'])")
        theirs=$(fio --name=flow --filename="$place/fio.dat" --rw="rand$1" --bs=4k --size=64m --ioengine=psync --thread \
            --numjobs=4 --group_reporting --time_based --runtime="$seconds" --ramp_time=0.5 --norandommap \
            --refill_buffers=0 --output-format=json 2>/dev/null |
            python3 -c "import json,sys;t=sys.stdin.read();print(json.loads(t[t.index('{'):])['jobs'][0]['$1']['iops'])")
        echo "$1 $round $ours $theirs"
    done | python3 -c "
import statistics,sys
rows=[l.split() for l in sys.stdin]
for r in rows: print('  round %s: %.0f against fio %.0f operations/s: %.2f' % (r[1],float(r[2]),float(r[3]),float(r[2])/float(r[3])))
m=lambda i: statistics.median(float(r[i]) for r in rows)
print('%s: median %.0f against fio %.0f: ratio %.2f' % (rows[0][0],m(2),m(3),m(2)/m(3)))"
}

flow read
flow write
