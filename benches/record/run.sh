#!/bin/sh
# What recording costs the recorded: fio on a loop device over a file in the page cache, 4 KiB random reads
# past the page cache of the device, turn by turn without and with `seekless record`. Needs root and fio.
#   benches/record/run.sh [ROUNDS]
# The shares of an unrecorded run stand beside: a ratio of runs that differ in nothing says how noisy the
# machine is. Raw numbers go to benches/record/runs/fio-DATE.json.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p seekless
exec python3 benches/record/run.py "${1:-10}"
