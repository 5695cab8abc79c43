#!/bin/sh
# Emulated disks in real time beside the model: fio through NBD and through FUSE and a loop device (4 KiB random
# and 64 KiB in order, 1 and 16 at a time; a line each, in milliseconds), and a disk probed while it is emulated.
#   benches/emulate/run.sh [fio|probe]
# Best as root, on a machine at rest: loop devices need root, and processes come first (chrt) only where allowed.
# What the numbers mean is in docs/using/disk.md.
set -eu
cd "$(dirname "$0")/../.."
exec cargo test --quiet --package seekless --test realtime "${1:-}" -- --nocapture --test-threads=1
