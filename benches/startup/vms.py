"""Boots of virtual machines from an emulated disk, before and after training (BORG, FAST'09, section 6.3).

    vms.py IMAGE [--repeats N] [--train N] [--nice N] [--accel kvm|tcg]

IMAGE is what vm_image.sh makes. See README.md."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from host import archive, between, prefer, serving

VMS = ["vm0", "vm1", "vm2", "vm3"]
BYTES = 915_527 * 4096
TIMEOUT = 600


def machine(args, server, number):
    """The command of a machine: its disk is its part of the volume, over NBD, past the host's page cache."""
    part = (f"driver=raw,offset={number * BYTES},size={BYTES},file.driver=nbd,file.server.type=unix,"
            f"file.server.path={server.nbd},cache.direct=on,discard=ignore")
    return ["qemu-system-x86_64", "-accel", args.accel, "-cpu", "max", "-m", str(args.memory), "-smp", "2", "-nodefaults", "-no-reboot",
            "-display", "none", "-serial", "stdio", "-nic", "none", "-kernel", f"{args.image}.vmlinuz", "-initrd", f"{args.image}.initrd",
            "-append", "root=/dev/vda rw console=ttyS0 quiet mitigations=off", "-drive", f"if=none,id=disk,{part}", "-device", "virtio-blk-pci,drive=disk"]


def boots(args, server, numbers):
    """Boots these machines at once and has them end; seconds until each said that it was up."""
    began = time.monotonic()
    running = {n: subprocess.Popen(machine(args, server, n), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
               for n in numbers}
    up = {}
    try:
        for number, process in running.items():
            os.set_blocking(process.stdout.fileno(), False)
        said = dict.fromkeys(numbers, b"")
        while any(p.poll() is None for p in running.values()) or len(up) < len(numbers):
            for number, process in running.items():
                said[number] += process.stdout.read() or b""
                if number not in up and b"SEEKLESS-BOOTED" in said[number]:
                    up[number] = (time.monotonic() - began, server.status())
            ended = all(p.poll() is not None for p in running.values())
            if time.monotonic() - began > TIMEOUT or (ended and len(up) < len(numbers)):
                last = {n: s[-2000:].decode(errors="replace") for n, s in said.items() if n not in up}
                raise RuntimeError(f"not up after {time.monotonic() - began:.0f} s: {last}")
            time.sleep(0.02)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return up


class Experiment:
    def __init__(self, args):
        self.args, self.runs, self.facts = args, [], {"servers": []}

    def boot(self, server, system, phase, number, numbers):
        before = server.settled()
        up = boots(self.args, server, numbers)
        after = server.settled()
        name = "+".join(VMS[n] for n in numbers)
        # Until the last was up: the books are put down four times a second, so it is at most a quarter of a second short.
        wall, then = max(up.values(), key=lambda u: u[0])
        one = {"name": name, "system": system, "phase": phase, "round": number, "wall_s": wall, **between(before, then),
               "with_shutdown": between(before, after)}
        self.runs.append(one)
        print(f"{system:8} {name} up after {wall:6.2f} s, disk {one['busy_s']:6.2f} s, {one['bytes'] >> 20} MiB in {one['ios']}, "
              f"late {one['late_s']:.2f} s, load {one['load']:.1f}", flush=True)

    def measure(self, server, system, rounds):
        for number in rounds:
            for vm in range(len(VMS)):
                self.boot(server, system, "measured", number, [vm])
            if self.args.together:
                self.boot(server, system, "measured", number, list(range(len(VMS))))

    def run(self):
        half = (self.args.repeats + 1) // 2
        with serving(self.args.image) as server:
            self.measure(server, "vanilla", range(half))
        self.facts["servers"].append(server.final)
        with serving(self.args.image, self.args.learn_with.split()) as server:
            for number in range(self.args.train):
                for vm in range(len(VMS)):
                    self.boot(server, "learning", "training", number, [vm])
            self.facts["learned"] = server.learn()
            print(self.facts["learned"], flush=True)
            self.measure(server, self.args.label, range(self.args.repeats))
            self.facts["copies_after"] = server.status()["copies"]
        self.facts["servers"].append(server.final)
        with serving(self.args.image) as server:
            self.measure(server, "vanilla", range(half, self.args.repeats))
        self.facts["servers"].append(server.final)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--train", type=int, default=2)
    parser.add_argument("--accel", default="tcg", help="tcg, or kvm where the host does not emulate it in turn")
    parser.add_argument("--memory", type=int, default=256, help="MiB of each machine")
    parser.add_argument("--together", action="store_true", help="boot all four at once as well")
    parser.add_argument("--learn-with", default="--optimized 2000000000", help="what serve is told when it learns")
    parser.add_argument("--label", default="trained", help="what the trained system is called in the results")
    parser.add_argument("--nice", type=int, default=0, help="niceness of server and machines")
    args = parser.parse_args()
    if not shutil.which("qemu-system-x86_64"):
        sys.exit("no program qemu-system-x86_64; see benches/startup/README.md")
    prefer(args.nice)
    # Cleaning up is what leaving the blocks below does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    experiment = Experiment(args)
    try:
        experiment.run()
    finally:
        if experiment.runs:
            facts = {"learn_with": args.learn_with, "accel": args.accel, "memory_mib": args.memory, **experiment.facts}
            archive("vms", facts, experiment.runs)


if __name__ == "__main__":
    main()
