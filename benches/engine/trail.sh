#!/bin/bash
# What a long trail costs the engine: memory, processor time of an attach in order and of one after a
# kill, and a request of 256 KiB in processor time and in instructions (counted by valgrind). Half of
# the requests read what is on the trail; all of them go on writing it. Each area is a sparse file in
# DIR, where only metadata is written: 64 GiB take 0.8 GB there.
#   benches/engine/trail.sh DIR [GIB...]
set -eu
dir=$(realpath "$1")
shift
cd "$(dirname "$0")/../.."
cargo build --quiet --profile dist -p seekless-engine --example long_trail
trail="${CARGO_TARGET_DIR:-target}/dist/examples/long_trail"

# Instructions of so many requests.
instructions() {
    cp --sparse=always "$dir/full" "$dir/area"
    coproc counted {
        exec valgrind --tool=callgrind --callgrind-out-file=/dev/null --instr-atstart=no \
            "$trail" attach "$dir/area" "$1" wait 2>&1
    }
    local counter=$counted_PID in=${counted[1]} out=${counted[0]} line
    while read -r -u "$out" line && [[ $line != attach:* ]]; do :; done
    callgrind_control -i on "$counter" >/dev/null
    echo >&"$in"
    sed -n 's/.*Collected : //p' <&"$out"
    wait "$counter"
}

for gib in "${@:-1}"; do
    "$trail" fill "$dir/full" "$gib"
    cp --sparse=always "$dir/full" "$dir/area"
    "$trail" attach "$dir/area" 1000
    "$trail" attach "$dir/area" 0
    if command -v valgrind >/dev/null; then
        few=$(instructions 200)
        many=$(instructions 600)
        echo "$gib GiB: $(((many - few) / 400)) instructions a request"
    fi
    rm "$dir/full" "$dir/area"
done
