#!/bin/sh
# The generator against fio on a tmpfs: the same flows, one after the other, in turn.
#
#   benches/workload/run.sh [SECONDS [ROUNDS]]        # SEEKLESS=path of the program, else target/dist/seekless-lab
#
# Flows: four threads that read, and four that write, 4 KiB at random, all in one file of 64 MiB or each in one of 16 MiB: writers of one
# file wait for its lock, so that there who does less in between waits more. Two numbers of each: operations a second, and operations
# for each second of the processors, which a host that has other things to do disturbs less.
set -eu
program=${SEEKLESS:-target/dist/seekless-lab} seconds=${1:-3} rounds=${2:-5}
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

FLOWS = [(kind, files) for kind in ('read', 'write') for files in (1, 4)]
for kind, files in FLOWS:
    flow, data, told = (os.path.join(place, n) for n in ('flow.toml', 'fio.dat', 'ours.json'))
    size, threads = 64 // files, 4 // files
    with open(flow, 'w') as f:
        f.write('name = "flow"\ntitle = "4 KiB at random"\n')
        for n in range(files):
            f.write(f'[[set]]\nname = "data{n}"\nfiles = 1\nsize = "{size}MiB"\nwidth = 20\nprealloc = 1.0\n'
                    f'[[flow]]\nname = "worker{n}"\nthreads = {threads}\n'
                    f'steps = [{{ op = "{kind}", set = "data{n}", fd = 1, io = "4KiB", random = true }}]\n')
    names = [f'{data}.{n}' for n in range(files)]
    for name in names:
        with open(name, 'wb') as f:
            f.write(os.urandom(size << 20))
    where = [f'--filename={names[0]}'] if files == 1 else ['--filename_format=' + data + '.$jobnum']
    kind_files = f'{kind}, {files} file{"s" * (files > 1)}'
    rows = []
    for n in range(rounds):
        _, cpu = run([program, 'workload', 'run', flow, '--dir', os.path.join(place, 'ours'), '--warm-up', '0', '--seconds', seconds,
                      '--power', 'none', '--json', told])
        outcome = json.load(open(told))['outcome']
        ours = outcome['ops_per_s'], outcome['operations'] / cpu
        out, cpu = run(['fio', '--name=flow', *where, f'--rw=rand{kind}', '--bs=4k', f'--size={size}m', '--ioengine=psync',
                        '--thread', '--numjobs=4', '--group_reporting', '--time_based', f'--runtime={seconds}', '--norandommap',
                        '--output-format=json'])
        job = json.loads(out[out.index('{'):])['jobs'][0][kind]
        theirs = job['iops'], job['total_ios'] / cpu
        rows.append((ours, theirs))
        print(f'{kind_files} {n + 1}: {ours[0]:9.0f} against fio {theirs[0]:9.0f} /s: {ours[0] / theirs[0]:.2f};'
              f'  {ours[1]:9.0f} against {theirs[1]:9.0f} per CPU-second: {ours[1] / theirs[1]:.2f}')
    for i, what in enumerate(('a second', 'per CPU-second')):
        ratio = statistics.median(r[0][i] / r[1][i] for r in rows)
        print(f'{kind_files}: median ratio of operations {what}: {ratio:.2f}')
PY
