#!/bin/sh
# What the engine itself costs a 4 KiB request: nanoseconds (median of 9), and instructions, counted by
# valgrind where there is one. Without an area (vanilla), with one that has nothing in it, and with a full map in which every
# request finds a copy; a write takes that copy out of use. Then with replicas in free space: where there are none at all
# (free), where as many others stand, and where there is one of what is asked for (hit).
#   benches/engine/run.sh
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p seekless-engine --example cost
cost="${CARGO_TARGET_DIR:-target}/dist/examples/cost"
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$cost" "$1" "$2" "$3" 2>&1 |
        sed -n 's/.*Collected : //p'
}
printf '%-8s %-6s %10s %16s\n' map op 'ns' instructions
for map in vanilla area map free replicas hit; do
    for op in read write; do
        ns=$(for _ in 1 2 3 4 5 6 7 8 9; do "$cost" $map $op 1000000; done | sort -n | sed -n 5p)
        if command -v valgrind >/dev/null; then
            few=$(instructions $map $op 10000)
            many=$(instructions $map $op 110000)
            count=$(((many - few) / 100000))
        else
            count='no valgrind'
        fi
        printf '%-8s %-6s %10s %16s\n' $map $op "$ns" "$count"
    done
done
