#!/usr/bin/python3
"""What a long trail costs a server: memory, time of a request, and time to attach after kill -9.

    benches/engine/trail.py [GiB...]

Each round makes a sparse volume of 19 TB and an area of so many GiB, and serves it with the defaults of `seekless serve` over an
emulated exos-x20 whose clock runs a thousand times faster. A client reads 20,000 random pages, and the same pages again in the same
order: so the trail pays. That goes on with other pages until the trail has gone around the area. Then the cost of another such
round is counted, and the server is killed and started again. Needs python3-libnbd.
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

PAGE = 4096
SIZE = 19 * 10**12
DEPTH = int(os.environ.get("DEPTH", "1"))
ROUND = 20_000
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
SEEKLESS = os.environ.get("SEEKLESS", os.path.join(TARGET, "dist", "seekless"))


def start(folder):
    """A server that is ready, and how long it took to get there."""
    begun = time.monotonic()
    command = [SEEKLESS, "serve", "disk", "--area", "area", "--disk", "exos-x20,speed=1000", "--nbd", "unix:socket"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if line.startswith("serving "):
            return server, time.monotonic() - begun
    raise SystemExit(f"the server ended with {server.wait()}")


def read(client, seed, times=2):
    """Reads random pages, the same ones so many times."""
    for _ in range(times):
        numbers = random.Random(seed)
        some(client, [numbers.randrange(SIZE // PAGE) for _ in range(ROUND)])


def some(client, pages):
    buffers = [nbd.Buffer(PAGE) for _ in range(DEPTH)]
    cookies = {}
    for i, page in enumerate(pages):
        slot = i % DEPTH
        if slot in cookies:
            while not client.aio_command_completed(cookies[slot]):
                client.poll(-1)
        cookies[slot] = client.aio_pread(buffers[slot], page * PAGE)
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


def measure(folder, memory, gib):
    # ext4 has no file of this length; a file in memory takes no space as long as nothing is written.
    with open(os.path.join(memory, "disk"), "wb") as disk:
        disk.truncate(SIZE)
    os.symlink(os.path.join(memory, "disk"), os.path.join(folder, "disk"))
    subprocess.run([SEEKLESS, "volume", "format", "disk", "--at", "area", "--optimized", f"{gib}GiB"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    server, _ = start(folder)
    client = nbd.NBD()
    client.connect_unix(os.path.join(folder, "socket"))
    rounds, begun = 0, time.monotonic()
    while status(folder)["moved_bytes"] < gib << 30 and time.monotonic() - begun < 1800:
        read(client, rounds)
        rounds += 1
    before = seconds(server)
    read(client, rounds)
    cost = (seconds(server) - before) / (2 * ROUND) * 1e6
    found = status(folder)
    row = {"area_gib": gib, "trail_gib": found["copied_bytes"] / 2**30, "written_gib": found["moved_bytes"] / 2**30}
    row |= {"peak_mib": of(server, "VmHWM"), "anonymous_mib": of(server, "RssAnon"), "us_a_request": cost}
    client.close()
    server.send_signal(signal.SIGKILL)
    server.wait()
    server, row["attach_s"] = start(folder)
    row["after_attach_mib"] = of(server, "VmHWM")
    server.terminate()
    server.wait()
    return row


def main():
    names = None
    for gib in [int(word) for word in sys.argv[1:]] or [1, 2, 4]:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            row = measure(folder, memory, gib)
        if names is None:
            names = list(row)
            print("  ".join(f"{name:>16}" for name in names))
        print("  ".join(f"{row[name]:16.2f}" for name in names), flush=True)


if __name__ == "__main__":
    main()
