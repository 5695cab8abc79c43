"""Ages the sample's file system and makes a user's files in it. Runs inside the image.

    image.py fill PERCENT SEED    make files until so much of the file system is used
    image.py free PERCENT SEED    delete such files, chosen at random, until so much of it is free
    image.py home SEED            a user's documents, images, programs, mail and database
    image.py repo SEED            a git repository with branches, some of it packed and some loose
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys

OLD = "/home/old"
HOME = "/home/dev"
WORDS = [w for w in (
    "disk head track sector seek rotate cluster extent layout journal inode group block cache page "
    "read write flush stream graph vertex edge weight plan copy place home request queue delay energy "
    "power state spin platter zone skew angle curve model trace record replay process thread lock "
    "file folder name link size owner time date user log mail note draft letter report table figure"
).split()]


def used_percent():
    s = os.statvfs("/")
    return 100 - 100 * s.f_bfree / s.f_blocks


def fill(percent, seed):
    """Reserves space by the file, sizes log-normal (median 24 KiB, mean about 270 KiB)."""
    rng = random.Random(f"fill {seed}")
    n = 0
    while used_percent() < percent:
        for _ in range(64):
            folder = f"{OLD}/{rng.randrange(64):02}"
            os.makedirs(folder, exist_ok=True)
            size = int(min(max(rng.lognormvariate(10.1, 2.2), 100), 64 << 20))
            fd = os.open(f"{folder}/{seed}-{n}", os.O_CREAT | os.O_WRONLY, 0o644)
            try:
                os.posix_fallocate(fd, 0, size)
            except OSError:
                return
            finally:
                os.close(fd)
            n += 1


def free(percent, seed):
    rng = random.Random(f"free {seed}")
    paths = sorted(os.path.join(d, f) for d, _, files in os.walk(OLD) for f in files)
    rng.shuffle(paths)
    while 100 - used_percent() < percent and paths:
        for _ in range(min(16, len(paths))):
            os.unlink(paths.pop())


def text(rng, lines):
    return "".join(" ".join(rng.choices(WORDS, k=rng.randint(4, 14))) + "\n" for _ in range(lines))


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(content)


HEADERS = (
    "stdio.h stdlib.h string.h math.h time.h errno.h unistd.h pthread.h sys/stat.h sys/socket.h "
    "netinet/in.h signal.h dirent.h poll.h regex.h locale.h wchar.h inttypes.h sys/mman.h sys/epoll.h"
).split()


def home(seed):
    rng = random.Random(f"home {seed}")
    for i in range(200):
        write(f"{HOME}/notes/{rng.choice(WORDS)}-{i:03}.md", text(rng, rng.randint(10, 300)))
    for i in range(24):
        body = "".join(f"#include <{h}>\n" for h in sorted(rng.sample(HEADERS[4:], 5)))
        body = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + body
        funcs = "".join(
            f"long f{i}_{k}(long x) {{ long a[64]; for (int j = 0; j < 64; j++) a[j] = x * {rng.randint(2, 99)} + j;"
            f" for (int j = 1; j < 64; j++) a[j] ^= a[j - 1] >> {rng.randint(1, 9)}; return a[63]; }}\n"
            for k in range(rng.randint(10, 60))
        )
        write(f"{HOME}/proj/m{i:02}.c", body + funcs)
    calls = "".join(f"long f{i}_0(long);\n" for i in range(24))
    calls += "#include <stdio.h>\nint main(void) { long s = 0;\n"
    calls += "".join(f"s += f{i}_0({i});\n" for i in range(24)) + 'printf("%ld\\n", s); return 0; }\n'
    write(f"{HOME}/proj/main.c", calls)
    objs = " ".join(f"m{i:02}.o" for i in range(24))
    write(f"{HOME}/proj/Makefile", f"CFLAGS = -O1 -g\nprog: main.o {objs}\n\t$(CC) -o $@ $^ -lm\n")
    subprocess.run(["make", "-s", "-C", f"{HOME}/proj"], check=True)
    for i in range(8):
        write(f"{HOME}/proj/cc{i}.cc", "#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n"
              f"int main() {{ std::map<std::string, int> m; m[\"a\"] = {i}; std::cout << m.size() << std::endl; }}\n")
    os.makedirs(f"{HOME}/pictures", exist_ok=True)
    for i in range(40):
        fill_name = rng.choice(["plasma:fractal", "plasma:red-blue", "gradient:blue-white", "plasma:tomato-steelblue"])
        subprocess.run(["convert", "-seed", str(i), "-size", f"{rng.randint(500, 1100)}x{rng.randint(400, 800)}",
                        fill_name, f"{HOME}/pictures/p{i:02}.png"], check=True)
    for i in range(30):
        write(f"{HOME}/papers/{i:02}.rst", f"Paper {i}\n========\n\n" + "\n\n".join(text(rng, 6) for _ in range(40)))
    for i in range(12):
        edges = "".join(f"n{rng.randrange(60)} -> n{rng.randrange(60)};\n" for _ in range(90))
        write(f"{HOME}/graphs/g{i:02}.dot", f"digraph g {{\n{edges}}}\n")
    with open(f"{HOME}/mbox", "w") as f:
        for i in range(4000):
            f.write(f"From user{rng.randrange(99)}@example.org\nSubject: {rng.choice(WORDS)} {i}\n\n{text(rng, rng.randint(5, 60))}\n")
    db = sqlite3.connect(f"{HOME}/tracks.db")
    db.execute("create table track(id integer primary key, artist text, title text, played integer, notes text)")
    for i in range(90000):
        db.execute("insert into track values(?,?,?,?,?)",
                   (i, " ".join(rng.choices(WORDS, k=2)), " ".join(rng.choices(WORDS, k=4)), rng.randrange(10**6), text(rng, 3)))
    db.execute("create index by_artist on track(artist)")
    db.execute("create index by_played on track(played)")
    db.commit()
    for name in ("syslog", "auth.log", "kern.log"):
        write(f"/var/log/{name}", text(rng, 20000))


def git(*args):
    env = dict(os.environ, HOME="/root", GIT_COMMITTER_DATE=git.date, GIT_AUTHOR_DATE=git.date)
    subprocess.run(["git", "-c", "safe.directory=*", "-C", f"{HOME}/tree", *args], check=True, env=env, stdout=subprocess.DEVNULL)


git.date = "2024-01-01T00:00:00Z"


def edit(rng, path):
    with open(path, errors="surrogateescape") as f:
        lines = f.readlines()
    for _ in range(rng.randint(1, 12)):
        at = rng.randrange(len(lines) + 1)
        lines[at:at + rng.randrange(2)] = [text(rng, 1)]
    # Written beside and renamed, as editors save: the file moves on the disk.
    with open(path + "~", "w", errors="surrogateescape") as f:
        f.writelines(lines)
    os.rename(path + "~", path)


def repo(seed):
    rng = random.Random(f"repo {seed}")
    tree = f"{HOME}/tree"
    sources = [
        ("/usr/lib/python3.11", "python", ".py", ". asyncio collections email http importlib json logging multiprocessing unittest urllib xml"),
        ("/usr/include", "include", ".h", ". arpa linux linux/netfilter net netinet rpc"),
        ("/usr/share/perl/5.36.0", "perl", ".pm", ". CPAN File Test"),
        ("/usr/share/vim/vim90/autoload", "vim", ".vim", "."),
        ("/usr/lib/python3/dist-packages/docutils", "docutils", ".py", ". parsers parsers/rst transforms utils writers"),
    ]
    os.makedirs(tree)
    git("init", "-q", "-b", "main")
    for key, value in (("user.name", "dev"), ("user.email", "dev@example.org"), ("gc.auto", "0")):
        git("config", key, value)
    month = 0
    for base, name, suffix, folders in sources:
        for sub in folders.split():
            folder = f"{base}/{sub}"
            for f in sorted(os.listdir(folder)):
                if f.endswith(suffix) and os.path.isfile(f"{folder}/{f}") and not os.path.islink(f"{folder}/{f}"):
                    to = os.path.normpath(f"{tree}/{name}/{sub}/{f}")
                    os.makedirs(os.path.dirname(to), exist_ok=True)
                    shutil.copyfile(f"{folder}/{f}", to)
        month += 1
        git.date = f"2024-{month:02}-01T00:00:00Z"
        git("add", "-A")
        git("commit", "-q", "-m", f"Bring in {name}")

    def paths():
        return sorted(os.path.join(d, f) for d, _, fs in os.walk(tree) if "/.git" not in d for f in fs)

    def work(message, n):
        for p in rng.sample(paths(), n):
            edit(rng, p)
        git("add", "-A")
        git("commit", "-q", "-m", message)

    for i in range(12):
        git.date = f"2024-09-{i + 1:02}T00:00:00Z"
        work(f"Change {rng.choice(WORDS)}", 40)
        if i == 7:
            git("gc", "-q")
    for topic in range(5):
        git("checkout", "-q", "-b", f"topic{topic}", f"main~{topic}")
        for i in range(3):
            git.date = f"2024-1{topic % 3}-{i + 1:02}T00:00:00Z"
            work(f"Topic {topic}: {rng.choice(WORDS)}", 20)
        git("checkout", "-q", "main")


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command in ("fill", "free"):
        {"fill": fill, "free": free}[command](float(rest[0]), rest[1])
    else:
        {"home": home, "repo": repo}[command](rest[0])
