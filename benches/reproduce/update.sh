#!/bin/sh
# Records a real version-control update for `seekless-lab reproduce fs2 --real OUT`: a tree and its git repository on an aged ext4 of 76 GiB (a sparse
# file behind a loop device), compared file by file seven times from a cold cache, as `cvs update` compares a tree with its repository: all
# files look touched, so git reads each of them and its object. Needs root, git, ext4 and about three times the tree's size; changes nothing outside
# OUT and its own temporary folder, whose file system it unmounts.
#   benches/reproduce/update.sh TREE OUT [RUNS]
set -eu
tree=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
runs=${3:-7}
seekless=${SEEKLESS:-seekless}
tmp=$(mktemp -d)
loop=
recorder=
cleanup() {
    if [ -n "$recorder" ]; then kill -INT "$recorder" 2>/dev/null || true; fi
    if mountpoint -q "$tmp/mnt"; then umount "$tmp/mnt"; fi
    if [ -n "$loop" ]; then losetup -d "$loop"; fi
    rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir "$tmp/mnt"
truncate -s 72G "$tmp/disk.img"
mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 "$tmp/disk.img"
loop=$(losetup --find --show "$tmp/disk.img")
mount -o noatime "$loop" "$tmp/mnt"
mkdir "$tmp/mnt/local" "$tmp/mnt/central.git"

# Ageing: other files come and go among the tree's own, so that its files lie in the holes that they leave.
age() {
    python3 - "$1" "$2" <<'PY'
import os, random, sys
where, seed = sys.argv[1], int(sys.argv[2])
dice = random.Random(seed)
folders = [where] + [d for d, _, _ in os.walk(where)][:400]
made = []
for i in range(4000):
    path = os.path.join(dice.choice(folders), f"other-{seed}-{i}")
    with open(path, "wb") as f:
        f.write(b"x" * int(min(dice.expovariate(1 / 60_000), 2_000_000)))
    made.append(path)
os.sync()
for path in made:
    if dice.random() < 0.6:
        os.unlink(path)
PY
}
export GIT_DIR="$tmp/mnt/central.git" GIT_WORK_TREE="$tmp/mnt/local" GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@localhost
export GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=bench@localhost
git init -q
git config gc.auto 0
git config diff.autoRefreshIndex false
age "$tmp/mnt/local" 1
age "$tmp/mnt/central.git" 2
cp -a "$tree/." "$tmp/mnt/local/"
(cd "$tmp/mnt/local" && git add -A -- ':!*other-*' && git commit -qm import)
# A tenth of the files changes later, a few at a time.
for seed in 3 4 5; do
    age "$tmp/mnt/local" "$seed"
    (cd "$tmp/mnt/local" && git ls-files -z | shuf -z --random-source=/dev/zero -n 600 |
        xargs -0 -r -n 50 sh -c 'for f; do [ -f "$f" ] && [ ! -L "$f" ] && cp -p "$f" "$f.new" && echo >>"$f.new" && mv "$f.new" "$f"; done; true' sh
        git add -u && git commit -qm "later $seed")
done
# All look touched.
find "$tmp/mnt/local" -type f -exec touch -d '2001-01-01' {} +
sync

recorded() {
    name=$1
    shift
    "$seekless" record "$loop" -o "$out/$name.parquet" --force 2>"$tmp/said" &
    recorder=$!
    until grep -q recording "$tmp/said"; do
        kill -0 "$recorder" || { cat "$tmp/said" >&2; exit 1; }
        sleep 0.1
    done
    "$@"
    sync
    kill -INT "$recorder"
    wait "$recorder" || true
    recorder=
}
recorded free fstrim "$tmp/mnt"
update() { (cd "$tmp/mnt/local" && git diff --shortstat >/dev/null); }
for i in $(seq "$runs"); do
    umount "$tmp/mnt"
    mount -o ro,noatime,noload "$loop" "$tmp/mnt"
    recorded "run$i" update
done
{
    echo "tree: $(git ls-files | wc -l) files, $(du -sm --exclude='other-*' "$tmp/mnt/local" | cut -f1) MiB"
    echo "git: $(git --version), Linux $(uname -r)"
} >"$out/about.txt"
