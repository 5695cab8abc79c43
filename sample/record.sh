#!/usr/bin/env bash
# Records sample/desktop.trace.zst: the block requests of real Debian programs that start cold, day after
# day, on an aged ext4. See README.md in this folder.
#
#   sudo sample/record.sh [--work DIR] [--out FILE] [--rounds N] [--gap SECONDS] [--seed N] [--habits regular|loose]
#
# Needs root on Debian, the packages debootstrap, e2fsprogs, util-linux, python3 and zstd, the network (to
# install packages into the image, through debootstrap's and apt's ordinary configuration) and 12 GB of
# room in the work folder. It mounts, attaches and traces only what it makes itself, and undoes all of it
# on every exit. The prepared image is kept in the work folder, so a second recording is quick.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=/var/tmp/seekless-sample out=$here/desktop.trace.zst rounds=6 gap=30 seed=2007 habits=regular
while [ $# -gt 0 ]; do
    case $1 in
        --work) work=$2 ;; --out) out=$2 ;; --rounds) rounds=$2 ;; --gap) gap=$2 ;; --seed) seed=$2 ;;
        --habits) habits=$2 ;;
        *) echo "record.sh: unknown option $1; see the head of this script" >&2; exit 2 ;;
    esac
    shift 2
done
[ "$(id -u)" = 0 ] || { echo "record.sh: must be root (it mounts a file system and traces a device)" >&2; exit 2; }
for tool in debootstrap mkfs.ext4 losetup unshare python3 zstd e2fsck; do
    command -v $tool >/dev/null || { echo "record.sh: $tool is missing; install its Debian package" >&2; exit 2; }
done

image_bytes=$((8 << 30))
mkdir -p "$work"
root=$work/root image=$work/image.img ready=$work/prepared.img
tracefs=$work/tracefs instance= loop=
events="block_bio_queue block_rq_issue" # what programs ask for, and what reaches the disk once merged
mkdir -p "$root" "$tracefs"

cleanup() {
    set +e
    if [ -n "$instance" ] && [ -d "$instance" ]; then
        echo 0 >"$instance/tracing_on"
        for e in $events; do echo 0 >"$instance/events/block/$e/enable"; done
        rmdir "$instance"
    fi
    for m in "$root/dev/pts" "$root/proc" "$root" "$tracefs"; do
        mountpoint -q "$m" && umount "$m"
    done
    [ -n "$loop" ] && losetup --detach "$loop"
    rm -f "$image"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

say() { echo "record.sh: $*" >&2; }

attach() { # the page cache of the host must not hide reads from the loop device
    loop=$(losetup --direct-io=on --find --show "$1")
    echo 128 >"/sys/block/${loop#/dev/}/queue/read_ahead_kb" # the kernel's default for a disk; a loop device has more
    [ "$(losetup --noheadings --output DIO "$loop" | tr -d ' ')" = 1 ] || { say "no direct I/O under $loop"; exit 1; }
}
detach() { losetup --detach "$loop"; loop=; }

inside() { # run in the image as root, with /proc; for preparation
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
install() { inside apt-get -qq -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "$@" >>"$work/apt.log" 2>&1; }
age() { inside python3 /usr/local/lib/seekless/image.py "$@"; }

prepare() {
    local suite
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    say "making an image of Debian $suite"
    rm -f "$image" "$ready"
    truncate --size $image_bytes "$image"
    attach "$image"
    mkfs.ext4 -q -F -L sample -U 5eed5eed-0000-4000-8000-000000000007 \
        -E lazy_itable_init=0,lazy_journal_init=0,hash_seed=5eed5eed-0000-4000-8000-000000000008 "$loop"
    mount "$loop" "$root"
    debootstrap --variant=minbase "$suite" "$root" >"$work/debootstrap.log"
    mount -t proc proc "$root/proc"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    echo sample >"$root/etc/hostname"
    install update
    install install python3
    mkdir -p "$root/usr/local/lib/seekless"
    cp "$here/image.py" "$root/usr/local/lib/seekless/"

    # Packages arrive in a nearly full file system whose holes other files left behind, as they do on a
    # machine that has been used for years.
    local groups=(
        "git less man-db manpages manpages-dev"
        "vim perl gawk sqlite3"
        "gcc libc6-dev make binutils"
        "imagemagick ghostscript groff fonts-dejavu-core"
        "emacs-nox"
        "python3-numpy python3-yaml python3-docutils python3-pygments"
        "ruby graphviz g++ php-cli tcl w3m"
    )
    local n=0
    for g in "${groups[@]}"; do
        n=$((n + 1))
        say "aging, then installing: $g"
        age fill 95 $n
        age free 12 $n
        # shellcheck disable=SC2086
        install install $g
    done
    say "upgrading the base system"
    age fill 95 20
    age free 10 20
    install install --reinstall libc6 libc-bin bash coreutils dpkg apt perl-base libpython3.11-stdlib \
        libpython3.11-minimal python3.11-minimal util-linux libstdc++6 git perl-modules-5.36 || install install -f
    # A package that is installed late in the recording.
    install install --download-only tree
    mkdir -p "$root/var/tmp/debs"
    cp "$root"/var/cache/apt/archives/tree_*.deb "$root/var/tmp/debs/"
    install clean
    say "making a user, a repository and a home"
    inside useradd --create-home --shell /bin/bash dev
    age home $seed
    age fill 93 21
    age free 12 21
    age repo $seed
    age fill 90 22
    age free 18 22
    inside chown -R dev:dev /home/dev
    umount "$root/dev/pts" "$root/proc" "$root"
    e2fsck -f -n "$loop" >"$work/e2fsck.txt"
    e2freefrag "$loop" >"$work/freefrag.txt" || true
    detach
    mv "$image" "$ready"
}

session() { # one session: a cold file system, then the programs of one line of the plan
    local line name
    mount "$loop" "$root"
    for line in "$@"; do
        name=${line%% *}
        local who=dev:dev home=/home/dev
        case $name in log | dpkgi | cron) who=0:0 home=/root ;; esac
        # shellcheck disable=SC2086
        unshare --mount --pid --fork --kill-child sh -c '
            root=$1 who=$2 home=$3; shift 3
            mount -t proc proc "$root/proc"
            exec chroot --userspec="$who" "$root" /usr/bin/env -i HOME="$home" USER="${who%%:*}" TERM=dumb \
                PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 /bin/bash /usr/local/bin/day "$@"
        ' sh "$root" "$who" "$home" $line </dev/null >>"$work/day.log" 2>&1 || echo "failed: $line" >>"$work/failed.txt"
    done
    umount "$root"
}

record() {
    rm -f "$work/day.log" "$work/failed.txt" "$work/rounds.txt"
    cp --sparse=always "$ready" "$image"
    attach "$image"
    mount "$loop" "$root" # the latest programs, before anything is traced
    cp "$here/day.sh" "$root/usr/local/bin/day"
    umount "$root"

    local major minor round session_lines clock e
    major=$((0x$(stat -c %t "$loop"))) minor=$((0x$(stat -c %T "$loop")))
    mount -t tracefs tracefs "$tracefs"
    instance=$tracefs/instances/seekless-sample-$$
    mkdir "$instance"
    echo mono >"$instance/trace_clock"
    echo 65536 >"$instance/buffer_size_kb"
    for e in $events; do
        echo "dev == $((major << 20 | minor))" >"$instance/events/block/$e/filter"
        echo 1 >"$instance/events/block/$e/enable"
    done
    clock() { awk '{ print $1 }' /proc/uptime; }
    for round in $(seq 1 "$rounds"); do
        [ "$round" = 1 ] || sleep "$gap"
        echo "$round start $(clock)" >>"$work/rounds.txt"
        say "round $round of $rounds"
        python3 "$here/plan.py" "$seed" "$round" "$rounds" "$habits" >"$work/plan.$round"
        session_lines=()
        while IFS= read -r line; do
            if [ -n "$line" ]; then session_lines+=("$line"); continue; fi
            session "${session_lines[@]}"
            session_lines=()
            sleep 2
        done <"$work/plan.$round"
        echo "$round end $(clock)" >>"$work/rounds.txt"
    done
    echo 0 >"$instance/tracing_on"
    if grep -h -E '^(overrun|commit overrun|dropped events):' "$instance"/per_cpu/cpu*/stats | grep -qv ': 0$'; then
        say "the trace buffer overflowed: events are lost, nothing written"
        exit 1
    fi
    # The device number of the loop device says nothing: always 7,0.
    sed "s/: $major,$minor /: 7,0 /" "$instance/trace" >"$work/desktop.trace"
    e2fsck -f -n "$loop" >"$work/e2fsck-after.txt"
    detach
    zstd -q -f -19 "$work/desktop.trace" -o "$out"
    if [ -s "$work/failed.txt" ]; then say "some programs failed:"; cat "$work/failed.txt" >&2; fi
    python3 "$here/check.py" "$out"
}

[ -e "$ready" ] || prepare
record
