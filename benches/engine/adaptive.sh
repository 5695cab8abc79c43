#!/bin/sh
# What the adaptive policy costs a request beside vanilla, on a trace: nanoseconds of a read that RAM answers and of one that it does
# not, with all work that follows (three runs of each, in turn), and instructions a request, counted by valgrind where there is one.
#   benches/engine/adaptive.sh [TRACE [REQUESTS FOR VALGRIND]]
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p seekless-compare --example adaptive_cost
cost="${CARGO_TARGET_DIR:-target}/dist/examples/adaptive_cost"
trace=${1:-sample/desktop.trace.zst}
few=${2:-5000}
for _ in 1 2 3; do
    for policy in vanilla adaptive; do
        "$cost" $policy "$trace"
    done
done
command -v valgrind >/dev/null || exit 0
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$cost" "$1" "$trace" "$2" 2>&1 |
        sed -n 's/.*Collected : //p'
}
for policy in vanilla adaptive; do
    first=$(instructions $policy "$few")
    both=$(instructions $policy $((few * 2)))
    echo "$policy: $(((both - first) / few)) instructions a request, requests $few to $((few * 2))"
done
