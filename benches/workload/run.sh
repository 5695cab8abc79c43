#!/bin/sh
# The generator against fio on a tmpfs: the same flows, one after the other, in turn.
#
#   benches/workload/run.sh [SECONDS [ROUNDS]]        # SEEKLESS=path of the program, else target/release/seekless
#
# Flows: four threads that read, and four that write, 4 KiB at random in one file of 64 MiB. Two numbers of each: operations a
# second, and operations for each second of the processors, which a host that has other things to do disturbs less.
set -eu
program=${SEEKLESS:-target/release/seekless} seconds=${1:-3} rounds=${2:-5}
place=$(mktemp -d /dev/shm/seekless-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT INT TERM
python3 - "$program" "$place" "$seconds" "$rounds" <<'PY'
import json, os, resource, statistics, subprocess, sys
program, place, seconds, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

def run(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

for kind in ('read', 'write'):
    flow, data, told = (os.path.join(place, n) for n in ('flow.toml', 'fio.dat', 'ours.json'))
    with open(flow, 'w') as f:
        f.write('name = "flow"\ntitle = "4 KiB at random"\n[[set]]\nname = "data"\nfiles = 1\nsize = "64MiB"\nwidth = 20\nprealloc = 1.0\n'
                f'[[flow]]\nname = "worker"\nthreads = 4\nsteps = [{{ op = "{kind}", set = "data", fd = 1, io = "4KiB", random = true }}]\n')
    with open(data, 'wb') as f:
        f.write(os.urandom(64 << 20))
    rows = []
    for n in range(rounds):
        _, cpu = run([program, 'workload', 'run', flow, '--dir', os.path.join(place, 'ours'), '--warm-up', '0', '--seconds', seconds,
                      '--power', 'none', '--json', told])
        outcome = json.load(open(told))['outcome']
        ours = outcome['ops_per_s'], outcome['operations'] / cpu
        out, cpu = run(['fio', '--name=flow', f'--filename={data}', f'--rw=rand{kind}', '--bs=4k', '--size=64m', '--ioengine=psync',
                        '--thread', '--numjobs=4', '--group_reporting', '--time_based', f'--runtime={seconds}', '--norandommap',
                        '--output-format=json'])
        job = json.loads(out[out.index('{'):])['jobs'][0][kind]
        theirs = job['iops'], job['total_ios'] / cpu
        rows.append((ours, theirs))
        print(f'{kind} {n + 1}: {ours[0]:9.0f} against fio {theirs[0]:9.0f} /s: {ours[0] / theirs[0]:.2f};'
              f'  {ours[1]:9.0f} against {theirs[1]:9.0f} per CPU-second: {ours[1] / theirs[1]:.2f}')
    for i, what in enumerate(('a second', 'per CPU-second')):
        ratio = statistics.median(r[0][i] / r[1][i] for r in rows)
        print(f'{kind}: median ratio of operations {what}: {ratio:.2f}')
PY
