#!/usr/bin/env python3
"""Small files in groups beside ext4 and XFS, in one run. As root, on a machine at rest:

  benches/fs/run.py [--files 1000000] [--grouped 250000] [--sets 250] [--singles 1000] [--lookups 1000] [--tries 3]
                    [--program target/dist/seekless] [--disk wd800jb] [--kinds ext4,groups,xfs] [--json FILE]

One image with ext4 and one with XFS, each with the same files; then the files of the first are used by sets of eight that lie in
eight directories, and moved to groups in a store that is a file of that same ext4 (`groups`). What is measured, each time with
nothing in memory:

1. At the host's speed: files looked up a second, at random, and inodes looked at, in order of directories; for `groups` the time to
   mount, and the server's memory: when mounted, when every inode was looked at, and when every file was read.
2. On a modelled disk in real time (`seekless disk emulate`), by samples drawn at random, with their interval at 95%, each from nothing in memory:
   files looked up, single files of all read, sets of eight of those that are grouped read; the time to mount. And how many reads the kernel
   sent to the disk for each file, and the disk's time for all of them where nobody waits for it (`--speed inf`): these do not depend on what
   else the host has to do, which rates do. A host that forgets what it has
   cached (some forget what was not used for a minute) costs reads that no system is to blame for: samples should take less than that, and
   one in which somebody dropped all caches is drawn anew, up to `--tries` times.
3. The whole tree read in the order in which directories list it, on the modelled disk without waiting for it (`--speed inf`). The time is
   the disk's, by the model, and the host's, which is real: as long as it would take if neither worked while the other does.
"""
import argparse, json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time

SET = 8

def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True, **more).stdout

def drop():
    os.sync()
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('3')

def dropped():
    """How often anybody has had this host forget what it had cached."""
    with open('/proc/vmstat') as f:
        return sum(int(l.split()[1]) for l in f if l.startswith('drop_'))

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
    return started([args.program, 'files', 'mount', beneath, point, '--store', store, '--idle', 'none', '--every', 1 << 40, *more], 'mounted')

def state(args, point):
    return json.loads(run(args.program, 'files', 'status', '--json', point))

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

def read(root, i):
    with open(os.path.join(root, name(i)), 'rb') as f:
        data = f.read()
    assert data and data[0] == i % 251, i

def use(root, s):
    for i in range(s * SET, (s + 1) * SET):
        read(root, i)

def tree(root):
    begun = time.monotonic()
    for parent, _, files in os.walk(root):
        for f in files:
            with open(os.path.join(parent, f), 'rb') as f:
                f.read()
    return time.monotonic() - begun

class Disk:
    """An image under a modelled disk, mounted: as fast as the host is (speed 0), or as that disk is, or not waited for (inf)."""
    def __init__(self, args, image, root, speed):
        self.args, self.root, self.speed, self.emulation = args, root, speed, None
        volume = image
        if speed:
            volume, self.said = image + '.volume', image + '.json'
            self.emulation, _ = started([args.program, 'disk', 'emulate', args.disk, image, '--fuse', volume, '--speed', speed, '--json', self.said], 'serving')
        self.device = run('losetup', '-f', '--show', '--direct-io=on', volume).strip()

    def __enter__(self):
        drop()
        run('mount', '-o', 'relatime', self.device, self.root)
        return self

    def reads(self):
        """Requests to read that the kernel has sent to it."""
        with open(f'/sys/block/{os.path.basename(self.device)}/stat') as f:
            return int(f.read().split()[0])

    def __exit__(self, *_):
        run('umount', self.root)
        run('losetup', '-d', self.device)
        if self.emulation:
            stop(self.emulation)
            with open(self.said) as f:
                self.busy_s = json.load(f)['disk']['busy_s']

class Beneath:
    """Files as they are."""
    def __init__(self, args, root):
        self.at, self.found = os.path.join(root, 'files'), {}
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass

class Grouped(Beneath):
    """The same through a mount with groups. Its cache holds a 25th of what is grouped."""
    def __init__(self, args, root):
        self.args, self.files, self.store, self.at = args, os.path.join(root, 'files'), os.path.join(root, 'store'), root + '.point'
        self.found = {}
    def __enter__(self):
        self.child, self.found['mount_s'] = fs_mount(self.args, self.files, self.at, self.store, '--cache', self.args.cache)
        self.found['rss_mounted'] = rss(self.child.pid)
        return self
    def __exit__(self, *_):
        now = state(self.args, self.at)
        self.found |= {'inodes': now['inodes'], 'learned': now['learned_files'], 'rss': rss(self.child.pid)}
        stop(self.child)

def spread(times, files):
    """Files a second, and its interval at 95%: of so many, each as long as it took."""
    mean, dev = statistics.fmean(times), statistics.stdev(times) / len(times) ** 0.5
    return {'samples': len(times), 'files_per_s': files / mean, 'from': files / (mean + 1.96 * dev), 'to': files / (mean - 1.96 * dev)}

def each(disk, order, act, files=1):
    """How `act` fares with each of these, which takes so many files."""
    times, reads = [], disk.reads()
    for i in order:
        begun = time.monotonic()
        act(i)
        times.append(time.monotonic() - begun)
    return spread(times, files) | {'reads_per_file': (disk.reads() - reads) / len(times) / files}

def form(args, grouped):
    """Has files used by sets, and moved to groups."""
    child, _ = fs_mount(args, grouped.files, grouped.at, grouped.store, '--create', f'{max(1, args.grouped // 4_000)}GiB', '--needed', 1)
    begun = time.monotonic()
    for s in range(args.grouped // SET):
        use(grouped.at, s), use(grouped.at, s)
    used = time.monotonic()
    came = -1
    # A shuffle moves so many files and no more.
    while (now := state(args, grouped.at))['came'] > came:
        came = now['came']
        run(args.program, 'files', 'shuffle', grouped.at)
    stop(child)
    return {'used_s': used - begun, 'moved_s': time.monotonic() - used, 'grouped_files': now['grouped_files'], 'groups': now['groups']}

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

def measure(args, image, root, make_view, told):
    """What one system gives, piece by piece."""
    draw = random.Random(2)
    some = lambda of, count: draw.sample(range(of), min(of, count))
    look = lambda at: lambda i: os.stat(os.path.join(at, name(i)))
    found = {}
    def add(**more):
        found.update(more)
        told(found)
    with Disk(args, image, root, 0) as disk:
        with make_view() as view:
            add(lookups=each(disk, some(args.files, 20_000), look(view.at)), walked_per_s=walk(view.at))
        add(host=view.found)
    cold = {}
    with Disk(args, image, root, 'inf') as disk, make_view():
        pass
    mounting_s = disk.busy_s
    for part, order, act, files in (
        ('lookups', some(args.files, args.lookups), look, 1),
        ('singles', some(args.files, args.singles), lambda at: lambda i: read(at, i), 1),
        ('sets', some(args.grouped // SET, args.sets), lambda at: lambda s: use(at, s), SET),
    ):
        for _ in range(args.tries):
            with Disk(args, image, root, 1) as disk, make_view() as view:
                before = dropped()
                cold[part] = each(disk, order, act(view.at), files) | {'dropped_by_others': dropped() - before}
            if not cold[part]['dropped_by_others']:
                break
        with Disk(args, image, root, 'inf') as disk, make_view() as view:
            model = each(disk, order, act(view.at), files)
        cold[part] |= {'disk_s': disk.busy_s - mounting_s, 'disk_reads_per_file': model['reads_per_file']}
        add(cold=cold | view.found)
    with Disk(args, image, root, 'inf') as disk:
        with make_view() as view:
            before, reads = dropped(), disk.reads()
            took = tree(view.at)
            reads, drops = disk.reads() - reads, dropped() - before
    add(tree={'disk_s': disk.busy_s, 'host_s': took, 's': disk.busy_s + took, 'files_per_s': args.files / (disk.busy_s + took), 'reads': reads, 'dropped_by_others': drops} | view.found)

def system(args, place, kind, told):
    image, root = (os.path.join(place, n) for n in (kind + '.img', kind))
    os.mkdir(root), os.mkdir(root + '.point')
    with open(image, 'wb') as f:
        f.truncate(max(2 << 30, args.files << 14))
    # What it would do later, by itself, is done now.
    run('mkfs.xfs', '-q', image) if kind == 'xfs' else run('mkfs.ext4', '-q', '-N', args.files * 5 // 4 + 10_000, '-E', 'lazy_itable_init=0,lazy_journal_init=0', image)
    view = Grouped(args, root)
    with Disk(args, image, root, 0):
        os.mkdir(view.files)
        begun = time.monotonic()
        make(view.files, args.files)
        made_s = time.monotonic() - begun
    if kind in args.kinds:
        measure(args, image, root, lambda: Beneath(args, root), lambda f: told(kind, {'made_s': made_s} | f))
    if kind == 'ext4' and 'groups' in args.kinds:
        with Disk(args, image, root, 0):
            formed = form(args, view)
        measure(args, image, root, lambda: Grouped(args, root), lambda f: told('groups', formed | f))
    os.remove(image)

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--files', type=int, default=1_000_000)
    parser.add_argument('--grouped', type=int, default=250_000)
    parser.add_argument('--sets', type=int, default=250)
    parser.add_argument('--singles', type=int, default=1_000)
    parser.add_argument('--lookups', type=int, default=1_000)
    parser.add_argument('--tries', type=int, default=3)
    parser.add_argument('--cache', default='64MiB')
    parser.add_argument('--program', default='target/dist/seekless')
    parser.add_argument('--disk', default='wd800jb')
    parser.add_argument('--kinds', default='ext4,groups,xfs')
    parser.add_argument('--json')
    args = parser.parse_args()
    args.program, args.grouped, args.kinds = os.path.abspath(args.program), min(args.files, args.grouped), args.kinds.split(',')
    place = tempfile.mkdtemp(prefix='seekless-store-bench.')
    about = ('files', 'grouped', 'disk', 'cache')
    found = {'schema': 'seekless.bench.fs/3', 'load': [os.getloadavg()[0]]} | {a: vars(args)[a] for a in about}
    def told(kind, what):
        found[kind] = what
        found['load'].append(os.getloadavg()[0])
        print(kind, json.dumps(what), flush=True)
        if args.json:
            with open(args.json, 'w') as f:
                json.dump(found, f, indent=1)
    try:
        for kind in ('ext4', 'xfs'):
            if kind in args.kinds or kind == 'ext4' and 'groups' in args.kinds:
                system(args, place, kind, told)
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
        for line in run('losetup', '-l', '-n', '-O', 'NAME,BACK-FILE').splitlines():
            if place in line:
                subprocess.run(['losetup', '-d', line.split()[0]])
        shutil.rmtree(place, ignore_errors=True)

if __name__ == '__main__':
    main()
