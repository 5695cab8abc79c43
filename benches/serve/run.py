"""Runs the servers in turn and prints the ratios to the first; see run.sh."""

import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(sys.argv[1])
PRIORITY = os.environ.get("PRIORITY", "").split()
SERVER = PRIORITY + ["taskset", "-c", os.environ.get("SERVER_CPU", "0")]
PIN = ["taskset", "-c", os.environ.get("CLIENT_CPU", "1")]
CLIENT = PRIORITY + PIN
# Processes of fio that share a core at a real-time priority run one after the other, and each counts its own time alone.
FAIR_CLIENT = (["nice", "-n", "-20"] if PRIORITY else []) + PIN
TARGET = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "dist", "examples")
SIZE_MIB = 256
# How much of it is asked for: with replicas the last quarter is their room.
SPAN_MIB = int(os.environ.get("SPAN_MIB", str(SIZE_MIB)))
# The file is put into the page cache by writes of so many bytes, anew for each server. ext4 keeps what is written at once as one
# folio where it can, and a later write of 4 KiB walks all buffers of its folio: with 1 MiB that walk is most of what a write
# costs, whoever serves it.
PIECE_BYTES = int(os.environ.get("PIECE_BYTES", "4096"))
LEAN_SECONDS = float(os.environ.get("LEAN_SECONDS", "0.5"))
FIO_SECONDS = float(os.environ.get("FIO_SECONDS", "1"))
TOOLS = {"nbdkit": "nbdkit", "qemu-nbd": "qemu-nbd", "nbd-server": "nbd-server"}
SERVERS = [s for s, tool in TOOLS.items() if shutil.which(tool)] + ["seekless", "seekless-learn"]
AREAS = ["seekless-area", "seekless-free", "seekless-replicas"]
POLICIES = ["seekless-vanilla", "seekless-adaptive"]
CEILINGS = ["ceiling", "ceiling-static"]
SERVERS = [s for s in SERVERS + AREAS + POLICIES + CEILINGS if s in os.environ.get("SERVERS", " ".join(SERVERS)).split()]
# Ratios are to the first.
BASE = SERVERS[0]
# What is asked, requests in flight on each connection, how replies are waited for, connections.
LOADS = [(1, "sleep", 1), (32, "sleep", 1), (1, "poll", 1), (32, "poll", 1), (1, "sleep", 4), (32, "sleep", 4)]
SEQUENTIAL = [(1, "sleep", 1), (4, "sleep", 1)]
FIO = [(1, 1), (32, 1), (32, 4)]
if os.environ.get("ONLY") == "lean":
    LOADS, SEQUENTIAL, FIO = [load for load in LOADS if load[2] == 1], [], []


def run(command, seconds):
    """Runs a client that should take so long, and ends it when it takes far longer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds + 20)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "timed out")


class Server:
    """One server, from its start to its end."""

    def __init__(self, kind, folder):
        self.kind, self.export, self.said = kind, "", ""
        self.socket = os.path.join(folder, kind + ".sock")
        disk, pid_file = os.path.join(folder, "disk"), os.path.join(folder, "pid")
        command = {
            "nbdkit": ["nbdkit", "-f", "-U", self.socket, "file", disk],
            "qemu-nbd": ["qemu-nbd", "-f", "raw", "-t", "-e", "8", "-k", self.socket, disk],
            "nbd-server": ["nbd-server", "-C", os.path.join(folder, "conf"), "-p", pid_file],
            "seekless": [os.path.join(TARGET, "serve"), disk, self.socket],
        }.get(kind) or [os.path.join(TARGET, "serve"), disk, self.socket, kind.removeprefix("seekless-")]
        if kind.startswith("ceiling"):
            command = [os.path.join(TARGET, "ceiling"), disk, self.socket] + kind.split("-")[1:]
        if kind == "nbd-server":
            self.export = "default"
            with open(os.path.join(folder, "conf"), "w") as conf:
                conf.write(f"[generic]\nunixsock = {self.socket}\nallowlist = true\n"
                           f"[default]\nexportname = {disk}\nflush = true\nfua = true\n")
        # nbd-server can spin in its parent process; at a real-time priority it would take the core with it.
        how = SERVER[len(PRIORITY):] if kind == "nbd-server" else SERVER
        self.process = subprocess.Popen(how + command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if kind.startswith(("seekless", "ceiling")):
            self.process.stdout.readline()
        while not os.path.exists(self.socket):
            time.sleep(0.02)
        time.sleep(0.1)
        self.pid = self.process.pid
        if PRIORITY and kind == "seekless-learn":
            # The learner is meant to give way to the volume's thread, whatever priority that was given.
            for task in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{task}/comm") as comm:
                    if comm.read().strip() == "seekless-learn":
                        subprocess.run(["chrt", "-o", "-p", "0", task], check=False)
        if kind == "nbd-server":
            self.process.wait()
            with open(pid_file) as f:
                self.pid = int(f.read())

    def stop(self):
        if self.kind.startswith(("seekless", "ceiling")):
            self.said = self.process.communicate("")[0].strip()
        elif self.kind == "nbd-server":
            os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.2)
        else:
            self.process.terminate()
            self.process.wait()
        if os.path.exists(self.socket):
            os.unlink(self.socket)

    def lean(self, op, depth, how, connections, seconds=LEAN_SECONDS):
        command = [os.path.join(TARGET, "lean"), self.socket, op, str(depth), str(seconds), how,
                   self.export, str(connections), str(SPAN_MIB)]
        done = run(CLIENT + command, seconds)
        return float(done.stdout) if done.returncode == 0 else None

    def fio(self, op, depth, jobs):
        command = ["fio", "--name=x", "--ioengine=nbd", f"--rw={op}", "--bs=4k", f"--size={SPAN_MIB}m",
                   f"--uri=nbd+unix:///{self.export}?socket={self.socket}", f"--iodepth={depth}",
                   f"--numjobs={jobs}", "--group_reporting", "--time_based", f"--runtime={FIO_SECONDS}",
                   "--randrepeat=0", "--norandommap", "--output-format=json"]
        done = run((CLIENT if jobs == 1 else FAIR_CLIENT) + command, FIO_SECONDS)
        if done.returncode != 0:
            return None
        # fio prints notices before its JSON.
        job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
        return job["read"]["iops"] + job["write"]["iops"]


def lay(disk, content):
    """Has the page cache hold the file in pieces, and the disk have all of it."""
    with open(disk, "r+b", buffering=0) as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for at in range(0, len(content), PIECE_BYTES):
            f.write(content[at:at + PIECE_BYTES])
        # What one server's writes left dirty is not for the next to wait for. The file alone: another file system may have
        # a server that is stopped just now.
        os.fsync(f.fileno())


def measure(server, what, rows):
    """All rows of reads, or of writes."""
    def note(row, value):
        rows.setdefault(row, {}).setdefault(server.kind, []).append(value)

    for op, loads in ((what, LOADS), ("seq" + what, SEQUENTIAL)):
        for load in loads:
            depth, how, connections = load
            note(f"lean {how:5} {op:8} depth {depth:2} x {connections}", server.lean(op, *load))
    for depth, jobs in FIO if shutil.which("fio") else []:
        note(f"fio        rand{what:5} depth {depth:2} x {jobs}", server.fio("rand" + what, depth, jobs))


def version(tool):
    done = subprocess.run([tool, "-V" if tool == "nbd-server" else "--version"], capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().split("\n")[0]


def main():
    rows = {}
    said = []
    with tempfile.TemporaryDirectory(prefix="seekless-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
        disk, content = os.path.join(folder, "disk"), memoryview(os.urandom(SIZE_MIB << 20))
        open(disk, "xb").close()
        for turn in range(ROUNDS):
            order = SERVERS[turn % len(SERVERS):] + SERVERS[:turn % len(SERVERS)]
            for kind in order:
                lay(disk, content)
                server = Server(kind, folder)
                try:
                    # Reads first: a write takes a copy out of use, and the map is to be full.
                    measure(server, "read", rows)
                    # The first writes to a clean page cost the file system more: they are made beforehand.
                    server.lean("write", 32, "sleep", 1, 1.5)
                    measure(server, "write", rows)
                finally:
                    server.stop()
                if kind == "seekless-learn":
                    said.append(server.said)
            print(f"round {turn + 1} of {ROUNDS}", file=sys.stderr)
    print(f"{'requests a second: median, and ratio to ' + BASE + ': median (least..most of the rounds)':>60}")
    print(f"{'':32}" + "".join(f"{kind:>28}" for kind in SERVERS))
    for row, kinds in rows.items():
        line = f"{row:32}"
        for kind in SERVERS:
            got = [v for v in kinds[kind] if v]
            pairs = [v / b for v, b in zip(kinds[kind], kinds.get(BASE, [])) if v and b]
            text = f"{statistics.median(got):9.0f}" if got else "failed"
            if pairs:
                text += f" {statistics.median(pairs):5.2f} ({min(pairs):.2f}..{max(pairs):.2f})"
            line += f"{text:>28}"
        print(line)
    print("learner:", "; ".join(said))
    date = time.strftime("%Y-%m-%d-%H%M%S", time.gmtime())
    with open(f"benches/serve/runs/{date}.json", "w") as out:
        facts = {"schema": "seekless.bench.serve/1", "date": date, "kernel": platform.release(),
                 "cpus": os.cpu_count(), "load_average": os.getloadavg(), "priority": PRIORITY,
                 "lean_seconds": LEAN_SECONDS, "fio_seconds": FIO_SECONDS, "size_mib": SIZE_MIB,
                 "span_mib": SPAN_MIB, "piece_bytes": PIECE_BYTES,
                 "versions": {t: version(t) for t in list(TOOLS.values()) + ["fio"] if shutil.which(t)},
                 "learner": said, "requests_per_second": rows}
        json.dump(facts, out, indent=1)
        out.write("\n")
    print(f"raw numbers: benches/serve/runs/{date}.json")


main()
