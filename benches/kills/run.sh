#!/bin/sh
# Kills servers under file systems at work, as root: ext4, XFS and btrfs, in both modes, with plans, replicas and a
# trail. After each kill everything that was synced must be there, and the file system's own check finds nothing. Ten
# tests, each with KILLS kills: 100 make a thousand. Two run together.
#   benches/kills/run.sh [KILLS [TEST...]]
set -u
cd "$(dirname "$0")/../.."
kills=${1:-100}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- survives_kills
mkdir -p benches/kills/runs
out="benches/kills/runs/$(date +%Y-%m-%d-%H%M%S).txt"
{
    echo "$kills kills a test; Linux $(uname -r); load $(cut -d' ' -f1-3 /proc/loadavg)"
    SEEKLESS_LONG=1 SEEKLESS_KILLS=$kills cargo test -p seekless --test live "$@" -- --nocapture --test-threads 2 2>&1 |
        grep -E 'SEEKLESS_SEED|survived|panicked|FAILED|SKIPPED|test result'
    echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
} | tee "$out"
