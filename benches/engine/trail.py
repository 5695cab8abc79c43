#!/usr/bin/python3
"""What a long trail costs a server: memory, time of a request, and time to attach after kill -9.

    sudo benches/engine/trail.py [GiB...]

Each round makes a sparse volume of 19 TB and an area of so many GiB, and serves it with the defaults of `seekless serve` over an
emulated exos-x20 whose clock runs 20 times faster. (Much faster is no use: then this computer's own time for a request counts as a
long one of the disk, and no trail pays.) A client reads random pieces of 256 KiB, and the same pieces again in the same order: so
the trail pays. That goes on with other pieces until the trail has gone around the area, or MINUTES are over. Then the cost of
another such round is counted, and the server is killed and started again. The area is a compressed device in memory (zram), because
all its pages are zeroes here. Needs root, zram and python3-libnbd. SEEKLESS names the program.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import nbd

PIECE = int(os.environ.get("PIECE_KIB", "256")) << 10
SIZE = 19 * 10**12
DEPTH = int(os.environ.get("DEPTH", "1"))
ROUND = int(os.environ.get("ROUND", "2000"))
SPEED = os.environ.get("SPEED", "20")
MINUTES = float(os.environ.get("MINUTES", "30"))
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
SEEKLESS = os.environ.get("SEEKLESS", os.path.join(TARGET, "dist", "seekless"))


class Compressed:
    """A block device of so many bytes in compressed memory."""

    def __init__(self, size):
        with open("/sys/class/zram-control/hot_add") as control:
            self.number = control.read().strip()
        self.path = f"/dev/zram{self.number}"
        with open(f"/sys/block/zram{self.number}/disksize", "w") as file:
            file.write(str(size))

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        with open(f"/sys/block/zram{self.number}/reset", "w") as file:
            file.write("1")
        with open("/sys/class/zram-control/hot_remove", "w") as control:
            control.write(self.number)


def start(folder, area):
    """A server that is ready, and how long it took to get there."""
    begun = time.monotonic()
    command = [SEEKLESS, "serve", "disk", "--area", area, "--disk", f"exos-x20,speed={SPEED}", "--nbd", "unix:socket"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if line.startswith("serving "):
            return server, time.monotonic() - begun
    raise SystemExit(f"the server ended with {server.wait()}")


def read(client, seed, times=2):
    """Reads random pieces, the same ones so many times."""
    for _ in range(times):
        numbers = random.Random(seed)
        some(client, [numbers.randrange(SIZE // PIECE) for _ in range(ROUND)])


def some(client, pieces):
    buffers = [nbd.Buffer(PIECE) for _ in range(DEPTH)]
    cookies = {}
    for i, piece in enumerate(pieces):
        slot = i % DEPTH
        if slot in cookies:
            while not client.aio_command_completed(cookies[slot]):
                client.poll(-1)
        cookies[slot] = client.aio_pread(buffers[slot], piece * PIECE)
    for cookie in cookies.values():
        while not client.aio_command_completed(cookie):
            client.poll(-1)


def of(server, field):
    with open(f"/proc/{server.pid}/status") as status:
        return int(next(line for line in status if line.startswith(field)).split()[1]) / 1024


def seconds(server):
    with open(f"/proc/{server.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(folder):
    out = subprocess.run([SEEKLESS, "volume", "status", "disk", "--json"], cwd=folder, capture_output=True, check=True)
    return json.loads(out.stdout)


def fill(server, client, folder, gib):
    """Reads until the trail has gone around. Returns the number of rounds."""
    rounds, begun = 0, time.monotonic()
    while status(folder)["moved_bytes"] < gib << 30 and time.monotonic() - begun < 60 * MINUTES:
        read(client, rounds)
        rounds += 1
    return rounds


def measure(folder, memory, gib, area):
    # ext4 has no file of this length; a file in memory takes no space as long as nothing is written.
    with open(os.path.join(memory, "disk"), "wb") as disk:
        disk.truncate(SIZE)
    os.symlink(os.path.join(memory, "disk"), os.path.join(folder, "disk"))
    subprocess.run([SEEKLESS, "volume", "format", "disk", "--at", area], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    server, _ = start(folder, area)
    try:
        client = nbd.NBD()
        client.connect_unix(os.path.join(folder, "socket"))
        rounds = fill(server, client, folder, gib)
        before = seconds(server)
        read(client, rounds)
        cost = (seconds(server) - before) / (2 * ROUND) * 1e6
        found = status(folder)
        row = {"area_gib": gib, "trail_gib": found["copied_bytes"] / 2**30, "written_gib": found["moved_bytes"] / 2**30}
        row |= {"peak_mib": of(server, "VmHWM"), "anonymous_mib": of(server, "RssAnon"), "us_a_request": cost}
        client.close()
        server.send_signal(signal.SIGKILL)
        server.wait()
        server, row["attach_s"] = start(folder, area)
        row["after_attach_mib"] = of(server, "VmHWM")
        return row
    finally:
        server.terminate()
        server.wait()


def main():
    names = None
    for gib in [int(word) for word in sys.argv[1:]] or [1, 2, 4]:
        with (
            tempfile.TemporaryDirectory() as folder,
            tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
            Compressed((gib << 30) + (4 << 20)) as area,
        ):
            row = measure(folder, memory, gib, area)
        if names is None:
            names = list(row)
            print("  ".join(f"{name:>16}" for name in names))
        print("  ".join(f"{row[name]:16.2f}" for name in names), flush=True)


if __name__ == "__main__":
    main()
