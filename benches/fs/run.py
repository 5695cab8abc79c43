#!/usr/bin/env python3
"""Small files in groups beside ext4 and XFS, in one run. As root, on a machine at rest:

  benches/fs/run.py [--files 1000000] [--grouped 250000] [--cold 20000] [--sets 250] [--program target/release/seekless]
                    [--disk wd800jb] [--json FILE]

1. On the host's own disk: a million files, some of them in groups; time to mount, memory of the server for each file: when mounted,
   when every inode was looked at, and when every file was read; files looked up a second, through the mount and beneath it.
2. On one emulated disk (`seekless emulate`, real time) after the other, each new: ext4, XFS, and ext4 with its small files in
   groups, the store being a file of that same ext4. Sets of eight files are used together and lie in eight directories. With
   nothing in memory: files read a second, set by set, as many sets as `--sets`, in an order drawn at random; then the whole tree, in
   the order in which directories list it. What forming the groups cost is told beside.
"""
import argparse, json, os, random, shutil, signal, subprocess, sys, tempfile, time

SET = 8

def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True, **more).stdout

def drop():
    os.sync()
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('3')

CHILDREN = []

def started(command, line):
    """A server, once it has said that it serves."""
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    CHILDREN.append(child)
    begun = time.monotonic()
    for said in child.stdout:
        if said.startswith(line):
            return child, time.monotonic() - begun
    raise SystemExit(f'{command} ended with {child.wait()}')

def stop(child):
    child.send_signal(signal.SIGTERM)
    assert child.wait() == 0

def fs_mount(args, beneath, point, store, *more):
    return started([args.program, 'fs', 'mount', beneath, point, '--store', store, '--idle', 'none', '--every', 1 << 40, *more], 'mounted')

def state(args, point):
    return json.loads(run(args.program, 'fs', 'stat', '--json', point))

def name(i):
    """File i of set i // SET: the files of a set lie in as many directories."""
    return f'd{i % SET}_{(i // SET) // 1000}/f{i // SET}'

def make(root, count):
    made = set()
    for i in range(count):
        path = os.path.join(root, name(i))
        parent = os.path.dirname(path)
        if parent not in made:
            os.makedirs(parent, exist_ok=True)
            made.add(parent)
        with open(path, 'wb') as f:
            f.write(bytes([i % 251]) * (500 + i * 37 % 3000))

def use(root, order, rounds=1):
    """Reads sets; the time it took."""
    begun = time.monotonic()
    for s in order:
        for _ in range(rounds):
            for i in range(s * SET, (s + 1) * SET):
                with open(os.path.join(root, name(i)), 'rb') as f:
                    data = f.read()
                assert data and data[0] == i % 251, i
    return time.monotonic() - begun

def tree(root):
    begun = time.monotonic()
    for parent, _, files in os.walk(root):
        for f in files:
            with open(os.path.join(parent, f), 'rb') as f:
                f.read()
    return time.monotonic() - begun

def grouped(args, root, beneath, store, size, count):
    """Has files used by sets, and moved to groups; seconds of using, and of moving."""
    child, _ = fs_mount(args, beneath, root, store, '--create', size, '--needed', 1)
    begun = time.monotonic()
    use(root, range(count // SET), rounds=2)
    used = time.monotonic()
    came = -1
    # A shuffle moves so many files and no more.
    while (now := state(args, root))['came'] > came:
        came = now['came']
        run(args.program, 'fs', 'shuffle', root)
    took = (used - begun, time.monotonic() - used)
    stop(child)
    return took, now

def walk(root):
    """Looks at every inode; how many a second."""
    begun, seen = time.monotonic(), 0
    for parent, _, files in os.walk(root):
        for f in files:
            os.lstat(os.path.join(parent, f))
            seen += 1
    return seen / (time.monotonic() - begun)

def rss(pid):
    with open(f'/proc/{pid}/status') as f:
        return next(int(l.split()[1]) << 10 for l in f if l.startswith('VmRSS'))

def looked_up(root, count, seed):
    some = random.Random(seed).sample(range(count), min(count, 20_000))
    begun = time.monotonic()
    for i in some:
        os.stat(os.path.join(root, name(i)))
    return len(some) / (time.monotonic() - begun)

def million(args, place):
    beneath, point, store = (os.path.join(place, n) for n in ('beneath', 'point', 'store'))
    os.mkdir(beneath), os.mkdir(point)
    make(beneath, args.files)
    count = min(args.files, args.grouped)
    (used, moved), now = grouped(args, point, beneath, store, f'{max(1, count // 4_000)}GiB', count)
    found = {'files': args.files, 'grouped_files': now['grouped_files'], 'groups': now['groups'], 'used_s': used, 'moved_s': moved}
    drop()
    # A cache of groups takes what it is given: here next to nothing, as this is about what a file takes.
    child, found['mount_s'] = fs_mount(args, beneath, point, store, '--cache', '1MiB')
    found['rss_mounted'] = rss(child.pid)
    found['lookups_per_s'] = looked_up(point, args.files, 1)
    found['walked_per_s'] = walk(point)
    found['rss_walked'] = rss(child.pid)
    found['tree_s'] = tree(point)
    found['rss_read'] = rss(child.pid)
    now = state(args, point)
    found['inodes'], found['learned'] = now['inodes'], now['learned_files']
    found['rss_bytes_per_file'] = found['rss_read'] / args.files
    stop(child)
    drop()
    found['lookups_per_s_beneath'] = looked_up(beneath, args.files, 1)
    found['walked_per_s_beneath'] = walk(beneath)
    drop()
    found['tree_s_beneath'] = tree(beneath)
    return found

def cold(args, place, kind):
    at = os.path.join(place, kind)
    os.mkdir(at)
    image, volume, root = (os.path.join(at, n) for n in ('disk.img', 'volume', 'root'))
    os.mkdir(root)
    disk, _ = started([args.program, 'emulate', args.disk, image, '--size', '2GiB', '--fuse', volume], 'serving')
    device = run('losetup', '-f', '--show', '--direct-io=on', volume).strip()
    try:
        system = 'xfs' if kind == 'xfs' else 'ext4'
        run(f'mkfs.{system}', '-q', device)
        run('mount', '-o', 'relatime', device, root)
        files, point, store = os.path.join(root, 'files'), os.path.join(at, 'point'), os.path.join(root, 'store')
        os.mkdir(files), os.mkdir(point)
        make(files, args.cold)
        found = {}
        if kind == 'groups':
            (found['used_s'], found['moved_s']), now = grouped(args, point, files, store, '512MiB', args.cold)
            found['grouped_files'], found['groups'] = now['grouped_files'], now['groups']
        order = list(range(args.cold // SET))
        random.Random(2).shuffle(order)
        order = order[:args.sets]
        for what, act, count in (('sets', lambda r: use(r, order), len(order) * SET), ('tree', tree, args.cold)):
            run('umount', root)
            drop()
            run('mount', '-o', 'relatime', device, root)
            where = files
            if kind == 'groups':
                child, _ = fs_mount(args, files, point, store)
                where = point
            took = act(where)
            found[f'{what}_s'], found[f'{what}_files_per_s'] = took, count / took
            if kind == 'groups':
                stop(child)
        run('umount', root)
        return found
    finally:
        if os.path.ismount(root):
            subprocess.run(['umount', '-l', root])
        run('losetup', '-d', device)
        stop(disk)

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--files', type=int, default=1_000_000)
    parser.add_argument('--grouped', type=int, default=250_000)
    parser.add_argument('--cold', type=int, default=20_000)
    parser.add_argument('--sets', type=int, default=250)
    parser.add_argument('--program', default='target/release/seekless')
    parser.add_argument('--disk', default='wd800jb')
    parser.add_argument('--json')
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    place = tempfile.mkdtemp(prefix='seekless-fs-bench.')
    found = {'schema': 'seekless.bench.fs/1', 'disk': args.disk, 'load': os.getloadavg()[0]}
    try:
        if args.files:
            found['million'] = million(args, place)
            print(json.dumps(found['million'], indent=1), flush=True)
        if args.cold:
            found['cold'] = {}
            for kind in ('ext4', 'xfs', 'groups'):
                found['cold'][kind] = cold(args, place, kind)
                print(kind, json.dumps(found['cold'][kind]), flush=True)
    finally:
        # Only what is left when something failed: mounts last made go first.
        for child in reversed(CHILDREN):
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
        with open('/proc/self/mounts') as f:
            left = [l.split()[1] for l in f if l.split()[1].startswith(place)]
        for point in reversed(left):
            subprocess.run(['umount', '-l', point])
        shutil.rmtree(place, ignore_errors=True)
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(found, f, indent=1)

if __name__ == '__main__':
    main()
