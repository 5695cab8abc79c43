#!/usr/bin/env python3
"""Flushes of the disk for synced writes to grouped files, counted by the kernel. As root:

  benches/fs/flushes.py [--program target/dist/seekless] [--json FILE]

An image with ext4 has a directory and its store: eight files of 4,000 bytes in one group. The
store's file is new, or has all of its blocks. For each action the script prints the disk's flushes, writes and KiB. "next": the same action again, with a new open.
"""
import argparse, json, os, subprocess, tempfile, time

FILES, MIB = 8, 1 << 20


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True).stdout


def write(path, flags, sync, data=b'x' * 100):
    fd = os.open(path, os.O_WRONLY | flags)
    os.write(fd, data)
    if sync:
        sync(fd)
    os.close(fd)


def actions(point, program):
    def use():
        for name in list(range(FILES)) * 6:
            with open(f'{point}/{name}', 'rb') as file:
                file.read()

    def shuffle():
        run(program, 'files', 'shuffle', point)

    yield 'open for writing', lambda: os.close(os.open(f'{point}/0', os.O_WRONLY))
    for name, (what, flags, sync) in enumerate([
            ('write and fdatasync', 0, os.fdatasync), ('write and fsync', 0, os.fsync),
            ('O_TRUNC, write and fdatasync', os.O_TRUNC, os.fdatasync),
            ('O_TRUNC, write and fsync', os.O_TRUNC, os.fsync), ('write with O_DSYNC', os.O_DSYNC, None)], start=1):
        yield what, lambda: write(f'{point}/{name}', flags, sync)
        yield what + ', next', lambda: write(f'{point}/{name}', flags, sync)
        use()
        yield 'the shuffle after it', shuffle


def measure(program, sparse):
    temp = tempfile.mkdtemp(prefix='seekless-flushes-')
    image, disk, point = (f'{temp}/{name}' for name in ('image', 'disk', 'point'))
    store, files = f'{disk}/store', f'{disk}/files'
    os.mkdir(disk), os.mkdir(point)
    with open(image, 'wb') as file:
        file.truncate(200 * MIB)
    run('mkfs.ext4', '-q', '-E', 'lazy_itable_init=0,lazy_journal_init=0', image)
    loop = run('losetup', '-f', '--show', image).strip()
    try:
        run('mount', '-o', 'noatime,commit=1000', loop, disk)
        os.mkdir(files)
        for name in range(FILES):
            with open(f'{files}/{name}', 'wb') as file:
                file.write(bytes([name]) * 4000)
        if not sparse:
            with open(store, 'wb') as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(bytes(64 * MIB))
            run(program, 'files', 'format', store)
        server = subprocess.Popen([program, 'files', 'mount', files, point, '--store', store, '--create', '64MiB', '--idle', 'none',
                                   '--every', '1000000000'], stdout=subprocess.DEVNULL)
        while not os.path.ismount(point):
            time.sleep(0.05)
        for name in list(range(FILES)) * 6:
            with open(f'{point}/{name}', 'rb') as file:
                file.read()
        run(program, 'files', 'shuffle', point)

        def counts():
            with open(f'/sys/block/{os.path.basename(loop)}/stat') as file:
                fields = [int(field) for field in file.read().split()]
            return fields[15], fields[4], fields[6] // 2

        found = []
        for what, act in actions(point, program):
            os.sync()
            time.sleep(0.3)
            before = counts()
            act()
            found.append([what, *(now - then for now, then in zip(counts(), before))])
        run(program, 'files', 'unmount', point)
        server.wait()
        return found
    finally:
        subprocess.run(['umount', '-l', point], capture_output=True)
        subprocess.run(['umount', disk], capture_output=True)
        run('losetup', '-d', loop)
        run('rm', '-rf', temp)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--program', default='target/dist/seekless')
    parser.add_argument('--json')
    options = parser.parse_args()
    all_found = {}
    for name, sparse in [('a store with all blocks', False), ('a sparse store', True)]:
        all_found[name] = measure(options.program, sparse)
        print(name)
        for what, flushes, writes, kib in all_found[name]:
            print(f'  {what:32} {flushes:3} flushes {writes:3} writes {kib:5} KiB')
    if options.json:
        with open(options.json, 'w') as file:
            json.dump({'version': run(options.program, '--version').strip(), 'columns': ['action', 'flushes', 'writes', 'KiB'], **all_found}, file, indent=1)


main()
