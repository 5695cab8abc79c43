"""Cold starts of desktop programs from an emulated disk, before and after training (BORG, FAST'09, section 6.4).

    programs.py IMAGE [--repeats N] [--train N] [--nice N]

IMAGE is what programs_image.sh makes. See README.md."""

import argparse
import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from host import archive, between, prefer, run, serving

DISPLAY = ":77"
DOCUMENTS = "/home/user/documents"
# What is started, what says that it is up (it ends, or shows a window), and whether training starts it.
PROGRAMS = {
    "firefox": (["firefox-esr", "--headless", "--screenshot", f"{DOCUMENTS}/page.png", f"file://{DOCUMENTS}/page.html"], None, True),
    "oowriter": (["soffice", "--headless", "--convert-to", "pdf", "--outdir", f"{DOCUMENTS}/out", f"{DOCUMENTS}/letter.fodt"], None, True),
    "xemacs": (["xemacs21", f"{DOCUMENTS}/notes.txt", "-eval", "(progn (sit-for 0) (kill-emacs))"], None, True),
    "evince": (["dbus-run-session", "evince", f"{DOCUMENTS}/letter.pdf"], "letter", True),
    "jedit": (["jedit", "-noserver", f"{DOCUMENTS}/notes.txt"], "jEdit - notes", True),
    "gimp": (["gimp", "--no-splash", "-b", "(gimp-quit 0)"], None, False),
    "ooimpress": (["soffice", "--headless", "--convert-to", "pdf", "--outdir", f"{DOCUMENTS}/out", f"{DOCUMENTS}/slides.fodp"], None, False),
}
# Other work of the training days, never measured.
CHORES = [
    ["sh", "-c", "find /usr -xdev -name '*.conf' > /dev/null"],
    ["sh", "-c", "tar -c /etc /var/lib/dpkg 2> /dev/null | wc -c > /dev/null"],
    ["sh", "-c", "grep -r copyright /usr/share/doc > /dev/null"],
]
TIMEOUT = 240


class StartError(Exception):
    """A program did not come up."""


@contextlib.contextmanager
def xvfb():
    """An X server of the host: its own reading is not the emulated disk's."""
    server = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", "1280x1024x24", "-nolisten", "tcp"], stderr=subprocess.DEVNULL)
    try:
        socket = pathlib.Path(f"/tmp/.X11-unix/X{DISPLAY[1:]}")
        while not socket.exists():
            if server.poll() is not None:
                sys.exit("Xvfb does not start")
            time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def loop(file, *how):
    device = run("losetup", "-f", "--show", *how, file).strip()
    try:
        pathlib.Path(f"/sys/block/{device[5:]}/queue/read_ahead_kb").write_text("128")
        yield device
    finally:
        run("losetup", "-d", device)


@contextlib.contextmanager
def mounted(device):
    """The file system, cold: a mount finds nothing of it in the page cache, since the last one was unmounted."""
    root = tempfile.mkdtemp(prefix="seekless-root-")
    try:
        run("mount", device, root)
        for what in (["--bind", "/dev"], ["-t", "tmpfs", "tmp"], ["-t", "tmpfs", "run"]):
            run("mount", *what, f"{root}/{what[-1].strip('/')}")
        for what in ("/dev/pts", "/dev/shm"):
            run("mount", "--bind", what, root + what)
        os.makedirs(f"{root}/tmp/.X11-unix")
        os.chmod(f"{root}/tmp", 0o1777)
        run("mount", "--bind", "/tmp/.X11-unix", f"{root}/tmp/.X11-unix")
        os.makedirs(f"{root}/run/user/1000", mode=0o700)
        os.chown(f"{root}/run/user/1000", 1000, 1000)
        yield root
    finally:
        for _ in range(100):
            if subprocess.run(["umount", "-R", root], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        else:
            run("umount", "-R", root)
        os.rmdir(root)
        # The name space of the program may hold the mount a little longer; then the next would not be cold.
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"{device} is still mounted somewhere")


def shows(title):
    found = subprocess.run(["xdotool", "search", "--onlyvisible", "--name", title], env={**os.environ, "DISPLAY": DISPLAY},
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return bool(found.stdout.strip())


def start(root, command, window):
    """Starts a program under the root and waits until it is up: seconds, and seconds of CPU where it ended."""
    inside = ["env", "-i", "HOME=/home/user", "USER=user", "PATH=/usr/bin:/bin:/usr/games", "LANG=C.UTF-8", f"DISPLAY={DISPLAY}",
              "XDG_RUNTIME_DIR=/run/user/1000", "NO_AT_BRIDGE=1", *command]
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    while window and shows(window):
        time.sleep(0.05)  # That of the start before is still being taken away.
    began = time.monotonic()
    process = subprocess.Popen(
        ["unshare", "--net", "--pid", "--fork", "--mount", f"--mount-proc={root}/proc", "chroot", "--userspec=1000:1000", root,
         *inside], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if window:
            while not shows(window):
                if process.poll() is not None or time.monotonic() - began > TIMEOUT:
                    raise StartError(f"{command} shows no window")
                time.sleep(0.03)
            return time.monotonic() - began, None
        if process.wait(TIMEOUT) != 0:
            raise StartError(f"{command} ended with {process.returncode}")
        took = time.monotonic() - began
    finally:
        # The first process of its own name space of processes: all others go with it.
        if process.poll() is None:
            for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        process.wait()
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime


def cold(server, device, command, window, forget):
    """One cold start, and what the disk did for it."""
    with mounted(device) as root:
        if forget:
            server.forget()
        before = server.settled()
        wall, cpu = start(root, command, window)
        after = server.settled()
    return {"wall_s": wall, "cpu_s": cpu, **between(before, after)}


class Experiment:
    def __init__(self, args):
        self.args, self.runs, self.facts = args, [], {"servers": []}
        self.rng = random.Random(args.seed)

    def measure(self, server, device, system, repeats):
        for number in range(repeats):
            for name in self.rng.sample(list(PROGRAMS), len(PROGRAMS)):
                command, window, _ = PROGRAMS[name]
                about = {"name": name, "system": system, "phase": "measured", "round": number}
                self.note(about, server, device, command, window, forget=True)

    def train(self, server, device):
        for number in range(self.args.train):
            work = [(n, p[0], p[1]) for n, p in PROGRAMS.items() if p[2]] + [("chore", c, None) for c in CHORES]
            self.rng.shuffle(work)
            for name, command, window in work:
                about = {"name": name, "system": "learning", "phase": "training", "round": number}
                self.note(about, server, device, command, window, forget=False)

    def note(self, about, server, device, command, window, forget):
        try:
            one = {**about, **cold(server, device, command, window, forget)}
        except StartError as error:
            # Now and then a program does not come up: told of, and left out.
            self.facts.setdefault("failed", []).append({**about, "why": str(error)})
            print(error, flush=True)
            return
        self.runs.append(one)
        print(f"{one['system']:8} {one['name']:10} {one['wall_s']:6.2f} s, disk {one['busy_s']:6.2f} s, {one['bytes'] >> 20} MiB in "
              f"{one['ios']}, late {one['late_s']:.2f} s, load {one['load']:.1f}", flush=True)

    @contextlib.contextmanager
    def served(self, learns):
        with serving(self.args.image, self.args.learn_with.split() if learns else None) as server:
            with loop(server.file, "--direct-io=on") as device:
                yield server, device
        self.facts["servers"].append(server.final)

    def run(self):
        half = (self.args.repeats + 1) // 2
        if self.args.only != "trained":
            with self.served(learns=False) as (server, device):
                self.measure(server, device, "vanilla", half)
        if self.args.only != "vanilla":
            with self.served(learns=True) as (server, device):
                self.train(server, device)
                self.facts["learned"] = server.learn()
                print(self.facts["learned"], flush=True)
                self.measure(server, device, self.args.label, self.args.repeats)
                self.facts["copies_after"] = server.status()["copies"]
        if self.args.only != "trained":
            with self.served(learns=False) as (server, device):
                self.measure(server, device, "vanilla", self.args.repeats - half)


def settle_in(image):
    """Starts every program once from the image itself, so that first-time set-up is not measured."""
    with loop(image) as device:
        for name, (command, window, _) in PROGRAMS.items():
            with mounted(device) as root:
                print(f"first start of {name}: {start(root, command, window)[0]:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--train", type=int, default=3)
    parser.add_argument("--label", default="trained", help="what the trained system is called in the results")
    parser.add_argument("--nice", type=int, default=0, help="niceness of server and programs")
    parser.add_argument("--learn-with", default="--optimized 2000000000", help="what serve is told when it learns")
    parser.add_argument("--only", choices=["vanilla", "trained"], help="one of the two systems, to add to earlier runs")
    parser.add_argument("--settled", action="store_true", help="every program has been started before")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for tool in ("losetup", "unshare", "Xvfb", "xdotool"):
        if not shutil.which(tool):
            sys.exit(f"no program {tool}; see benches/startup/README.md")
    prefer(args.nice)
    # Cleaning up is what leaving the blocks below does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    experiment = Experiment(args)
    with xvfb():
        if not args.settled:
            settle_in(args.image)
        try:
            experiment.run()
        finally:
            if experiment.runs:
                trained = {n: p[2] for n, p in PROGRAMS.items()}
                archive("programs", {"seed": args.seed, "learn_with": args.learn_with, "in_training": trained, **experiment.facts}, experiment.runs)


if __name__ == "__main__":
    main()
