"""What these experiments and benches/nights share: an emulated disk served by seekless, its books, and a machine left as it
was found."""

import contextlib
import datetime
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEKLESS = pathlib.Path(os.environ.get("SEEKLESS", ROOT / "target/dist/seekless"))
# The disk of hosts O3 and O5 of BORG's Table 3.
DISK = "maxtor-6l020"
# Linux 2.6.22 sorted what waited for this disk, which has no queue of its own; C-LOOK does here. RAM and read-ahead are
# serve's own settings, for both systems.
SETTINGS = ["--scheduler", "clook", "--cache", "16MiB", "--read-ahead", "64KiB", "--cluster", "64KiB"]

def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def prefer(nice):
    """Gives this process, and what it starts, its niceness: also as a group, where the kernel groups by session."""
    os.nice(nice)
    group = pathlib.Path("/proc/self/autogroup")
    if nice and group.exists():
        with contextlib.suppress(PermissionError):
            os.setsid()  # Refused to who leads a group already: then that one's session it is.
        group.write_text(str(nice))


class Unix(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(self.path))


class Server:
    """`seekless serve` of an image over an emulated disk, with these arguments."""

    def __init__(self, image, arguments):
        self.dir = tempfile.TemporaryDirectory(prefix="seekless-startup-")
        folder = pathlib.Path(self.dir.name)
        self.file, self.nbd, self.page, self.counts = (folder / n for n in ("volume", "nbd", "page", "counts.json"))
        self.process = subprocess.Popen(
            [SEEKLESS, "serve", image, "--fuse", self.file, "--nbd", f"unix:{self.nbd}", "--http", f"unix:{self.page}",
             "--json", self.counts, *arguments], stdout=subprocess.PIPE, text=True)
        self.expect("http ")

    def expect(self, beginning):
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line.strip()
        raise RuntimeError(f"seekless ended without saying '{beginning}'")

    def status(self):
        connection = Unix(self.page)
        connection.request("GET", "/api/status")
        status = json.loads(connection.getresponse().read())
        connection.close()
        return status

    def settled(self):
        """The books once nothing is asked for any more; the watcher looks four times a second."""
        before = None
        for _ in range(60):
            time.sleep(0.6)
            status = self.status()
            now = (status["requests"]["total"], status["busy"]["head"]["ios"])
            if now == before:
                return status
            before = now
        raise RuntimeError("the disk does not come to rest")

    def learn(self):
        """Plans, moves, and waits for the end of it: what was said, and how long the disk was busy with it."""
        self.process.send_signal(signal.SIGUSR1)
        said = self.expect("learned: ")
        status = self.settled()
        return {"said": said, "moving_s": status["busy"]["moving_s"], "plan": status["plan"], "copies": status["copies"]}

    def forget(self):
        """Pushes everything out of the volume's RAM by reading something else."""
        fd = os.open(self.file, os.O_RDONLY)
        try:
            for i in range(20):
                os.pread(fd, 1 << 20, (7 << 30) + (i << 20))
        finally:
            os.close(fd)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            # A second signal has it go though its mount is in use.
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=60)
        counts = json.loads(self.counts.read_text()) if self.counts.exists() else None
        self.dir.cleanup()
        return counts


@contextlib.contextmanager
def serving_with(image, arguments):
    server = Server(image, arguments)
    try:
        yield server
    finally:
        server.final = server.stop()


def serving(image, learn_with=None):
    """A server that is told how to learn, or the vanilla system."""
    # It plans when it is told to, and moves without a limit: nobody waits for the disk meanwhile.
    how = [*learn_with, "--learn-every", "30d", "--background-rate", "0"] if learn_with else ["--policy", "vanilla"]
    return serving_with(image, ["--disk", DISK, *SETTINGS, *how])


def between(before, after):
    """What the disk did between two readings of the books."""
    head = {k: after["busy"]["head"][k] - before["busy"]["head"][k] for k in after["busy"]["head"]}
    phases = {k: after["busy"]["now"][k] - before["busy"]["now"][k] for k in after["busy"]["now"]}
    reads = {k: after["requests"][k] - before["requests"][k] for k in after["requests"]}
    beside = None
    if before["busy"]["vanilla"] and after["busy"]["vanilla"]:
        beside = sum(v - before["busy"]["vanilla"][k] for k, v in after["busy"]["vanilla"].items() if k != "energy_j")
    return {**reads, **head, **phases, "busy_s": sum(v for k, v in phases.items() if k != "energy_j"),
            "vanilla_beside_s": beside, "load": os.getloadavg()[0]}


def archive_in(folder, kind, facts, runs):
    folder = ROOT / folder / "runs"
    folder.mkdir(exist_ok=True)
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    machine = {"cpus": os.cpu_count(), "cpu": cpu and cpu[1], "kernel": os.uname().release, "nice": os.nice(0)}
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d-%H%M%S")
    body = {"machine": machine, **facts}
    text = json.dumps(body, indent=1)[:-2] + ',\n "runs": [\n  ' + ",\n  ".join(json.dumps(r) for r in runs) + "\n ]\n}\n"
    path = folder / f"{kind}-{date}.json"
    path.write_text(text)
    print(f"raw numbers: {path.relative_to(ROOT)}")


def archive(kind, facts, runs):
    archive_in("benches/startup", kind, {"disk": DISK, "settings": SETTINGS, **facts}, runs)
    report.tables(runs)
