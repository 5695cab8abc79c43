#!/bin/sh
# What a request costs with ever more replicas standing, in nanoseconds (median of 5 runs): a read and a write of what has none, of what
# has one, a write where one stands, and one replica more, which takes the place of the coldest; and the bytes of RAM that a page of
# replicas takes, measured. A page is 4 KiB: 262,144 of them are 1 GiB.
#   benches/engine/scale.sh [PAGES...]
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p seekless-engine --example cost
cost="${CARGO_TARGET_DIR:-target}/dist/examples/cost"
median() { for _ in 1 2 3 4 5; do "$cost" "$@"; done | sort -n | sed -n 3p; }
printf '%10s %12s %12s %9s %9s %11s %9s %12s\n' pages read-none write-none read-hit write-hit write-place one-more 'RAM a page'
for pages in ${*:-65536 262144 1000000 10000000}; do
    printf '%10s %12s %12s %9s %9s %11s %9s %10s B\n' "$pages" \
        "$(median replicas read 1000000 "$pages")" "$(median replicas write 100000 "$pages")" \
        "$(median hit read 1000000 "$pages")" "$(median hit write 50000 "$pages")" \
        "$(median replicas take 50000 "$pages")" "$(median replicas anew 10000 "$pages")" \
        "$("$cost" replicas memory 0 "$pages")"
done
