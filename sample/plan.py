"""Plans one day: `plan.py SEED DAY DAYS [HABITS]` prints activities, one a line; an empty line ends a session.

Every day holds nearly all of the daily habits and a few things done now and then, in another order, split
into sessions in another way, and with other arguments: some constant (the project at hand), some drawn
again each day. In the second half of the days come activities that no earlier day had.

HABITS is `regular` (the default) or `loose`: a day then holds half of the daily habits and nine other things,
and most of the files, modules and words that they work on are drawn again.
"""

import random
import sys

MODULES = ("argparse json re datetime collections pathlib subprocess logging sqlite3 csv urllib.request email.message "
           "http.client xml.etree.ElementTree asyncio ssl decimal unittest tarfile configparser ctypes multiprocessing "
           "concurrent.futures difflib html.parser ipaddress pickle zipfile curses yaml statistics").split()
MANUALS = ("ls bash gcc git-log printf open.2 read.2 socket.2 grep find tar perlre regcomp.3 mmap.2 ext4.5 signal.7 "
           "proc.5 sed git-rebase awk vim malloc.3 tcp.7 dpkg xargs epoll.7 sqlite3 dot").split()
PODS = "Data::Dumper File::Find Getopt::Long Text::Wrap Time::Local File::Temp Pod::Usage IO::Socket Encode Storable".split()
WORDS = "return import class include static error while buffer length handle parse string default".split()
FOLDERS = "python/asyncio python/email python/json include/linux perl/CPAN perl/File vim docutils include/net perl/Test python/xml".split()
PACKAGES = "git vim gcc-12 python3-numpy imagemagick-6.q16 perl ruby3.1 libc6 coreutils emacs-common graphviz".split()
FILES = ["/usr/bin/git", "/usr/bin/perl", "/lib/x86_64-linux-gnu/libm.so.6", "/usr/bin/convert", "/usr/share/man/man1/ls.1.gz"]
WIDE = ["python/asyncio/base_events.py", "python/argparse.py", "include/stdio.h", "perl/CPAN.pm", "python/inspect.py"]

seed, day, days = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
habits_are = sys.argv[4] if len(sys.argv) > 4 else "regular"
if habits_are not in ("regular", "loose"):
    sys.exit(f"plan.py: habits are regular or loose, not {habits_are}")
loose = habits_are == "loose"
rng = random.Random(f"{seed} day {day}")
late = day > days // 2


def manual(n):
    return " ".join(a.split(".")[0] for a in rng.sample(MANUALS, n))


def mine(n):
    """Of the project's files the first few are the ones at hand; any may come up."""
    files = [rng.randrange(24) if loose else min(int(rng.expovariate(0.25)), 23) for _ in range(n)]
    return " ".join(f"m{m:02}" for m in files)


def pictures(n):
    return " ".join(f"p{rng.randrange(40):02}" for _ in range(n))


daily = [
    "status",
    "script " + (" ".join(rng.sample(MODULES, 7)) if loose else "argparse json re datetime pathlib subprocess logging"),
    f"compile {mine(2)}",
    f"edit /home/dev/proj/m{rng.randrange(24 if loose else 4):02}.c",
    f"database {rng.choice('cdefghjlmnopqrstw')} {rng.randrange(1, 90000)}",
    f"mail {rng.randint(3, 12)}",
    f"man {manual(2)}" if loose else f"man ls {manual(1)}",
    f"commit {rng.choice(FOLDERS if loose else FOLDERS[:6])} {rng.randint(3, 9)} {day * 3}",
]
sometimes = [
    f"log {rng.randint(20, 60)}",
    f"grep {rng.choice(WORDS)} python/asyncio",
    "script asyncio json ssl urllib.request email.message " + rng.choice(MODULES[10:]),
    "status", "ruby",
    "script " + " ".join(rng.sample(MODULES, 5)),
    f"numbers {day}",
    f"history {rng.choice(FOLDERS)}",
    f"diff topic{rng.randrange(5)}",
    f"checkout topic{rng.choice([0, 0, 1, 2, 3, 4])}",
    f"compile {mine(1)}", f"compile {mine(3)}",
    f"edit /home/dev/papers/{rng.randrange(30):02}.rst",
    f"emacs /home/dev/proj/m{rng.randrange(24):02}.c",
    f"man {manual(2)}",
    f"less /home/dev/papers/{rng.randrange(30):02}.rst",
    f"perl {rng.choice(PODS)}",
    f"grep {rng.choice(WORDS)} {rng.choice(FOLDERS)}",
    f"find {rng.choice(['python', 'perl', 'docutils', 'include'])}",
    f"packages {rng.choice(PACKAGES)} {rng.choice(FILES)}",
    f"database d {rng.randrange(1, 90000)}",
    f"pictures {pictures(3)}",
    f"graph g{rng.randrange(12):02}",
    f"paper {manual(1)}",
    f"notes day{day} {rng.randint(2, 6)}",
    f"rst {rng.randrange(30):02} {rng.randrange(30):02}",
]
first = ["login"]
habits = [h for h in daily if rng.random() < (0.5 if loose else 0.92)]
habits += rng.sample(sometimes, 9 if loose else 2)
if late:
    new = ["cxx cc" + str(day), "php", "tcl", f"highlight m{rng.randrange(24):02}",
           "blame " + " ".join(rng.sample(WIDE, 2)), f"web {rng.randrange(30):02}",
           "backup notes graphs papers"]
    # Each late day takes up one of these, and now and then one that an earlier late day took up.
    step = day - days // 2
    habits += new[step - 1:step] + [n for n in new[:step - 1] if rng.random() < 0.4]
    if step == 2:
        habits.append("dpkgi tree")
rng.shuffle(habits)
habits = first + habits
if day % 3 == 0:
    habits.append("cron")
while habits:
    take = rng.choice([1, 2, 2, 3])
    print("\n".join(habits[:take]) + "\n")
    habits = habits[take:]
