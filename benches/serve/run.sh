#!/bin/sh
# Paired measurement of NBD servers on one file in the page cache, over a unix socket, 4 KiB random and
# 1 MiB sequential requests, one and four connections: nbdkit's file plugin, qemu-nbd, nbd-server, and
# seekless as a pass-through and with a full map while it learns. Server on one core, client on the other;
# servers take turns in every round.
#   benches/serve/run.sh [ROUNDS]
# SERVERS="seekless-vanilla seekless-adaptive" compares two policies with the defaults of `seekless serve`.
# SERVERS names some of them, the first being what ratios are to. With SPAN_MIB=192 there are also seekless-area (an area with
# nothing in it), seekless-free and seekless-replicas (replicas in free space: none, and as many as there may be);
# `ceiling` is the least that any server of files can do, `ceiling-static` touches no file either: volume/serve/examples/ceiling.rs.
# ONLY=lean leaves out what is not 4 KiB on one connection. PIECE_BYTES says how the page cache holds the file.
# PRIORITY="chrt -f 5" shields both from whatever else the machine does. Raw numbers go to
# benches/serve/runs/DATE.json.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p seekless-serve --examples
exec python3 benches/serve/run.py "${1:-5}"
