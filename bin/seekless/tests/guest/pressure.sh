#!/bin/busybox sh
# The first process of the guest: writers that need more memory than there is, on volumes whose disk
# is a sparse file. Each step prints `guest: ok NAME` or `guest: FAILED NAME: WHY`.
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o size=1900m data /data
busybox mount -t cgroup2 groups /sys/fs/cgroup
for module in /modules/*; do insmod "$module" || echo "guest: no module $module"; done
# The serial line ends lines in its own way.
stty -onlcr 2>/dev/null
echo 'guest: begin'

groups=/sys/fs/cgroup
echo +memory >$groups/cgroup.subtree_control
mkdir -p /host
step() { # step NAME ARGUMENTS...: runs the function.
    if why=$("$@" 2>&1); then echo "guest: ok $*"; else echo "guest: FAILED $*: $why"; fi
}
inside() { # inside GROUP PROGRAM...: runs it in a control group, or in none.
    [ "$1" = none ] || echo 0 >"$groups/$1/cgroup.procs"
    shift
    exec "$@"
}
# A file system with small groups of blocks needs memory for each group.
begin() { # begin GROUP ublk|fuse: a volume with a file system at /mnt.
    mkfs.ext4 -q -F -b 4096 -g 2048 -O ^flex_bg /dev/vda && mount -t ext4 -o noatime /dev/vda /host || return 1
    truncate -s 440M /host/disk.img
    case $2 in
    ublk) volume=/dev/ublkb3 options='--ublk 3' ;;
    fuse) volume=/run/volume options='--fuse /run/volume' ;;
    esac
    : >/run/log
    inside "$1" seekless serve /host/disk.img $options >>/run/log 2>&1 &
    server=$!
    until grep -q '^serving' /run/log; do
        kill -0 $server 2>/dev/null || { cat /run/log; return 1; }
        sleep 0.1
    done
    ! grep -q 'not locked' /run/log || { cat /run/log; return 1; }
    if [ "$2" = fuse ]; then
        volume=$(losetup -f) && losetup "$volume" /run/volume || return 1
    fi
    mkfs.ext4 -q -F -E nodiscard $volume && mount -t ext4 -o noatime $volume /mnt
}
finish() { # finish ublk|fuse
    umount /mnt || return 1
    [ "$1" = ublk ] || losetup -d $volume
    kill $server
    wait $server
    umount /host
}
round() { # round GROUP ublk|fuse: the writer ends within minutes, though the server pauses.
    begin "$1" "$2" || return 1
    inside "$1" dd if=/dev/zero of=/mnt/f bs=1M count=360 conv=fsync 2>/run/dd &
    writer=$! turns=0
    while kill -0 $writer 2>/dev/null; do
        kill -STOP $server
        usleep 200000
        kill -CONT $server
        usleep 300000
        turns=$((turns + 1))
        [ $turns -lt 960 ] || { echo "the writer stands still"; return 1; }
    done
    wait $writer || { cat /run/dd; return 1; }
    finish "$2"
}
rounds() {
    for number in 1 2 3; do
        round "$1" "$2" || return 1
        echo "guest: $2, round $number, $(cut -d. -f1 /proc/uptime) s after the start" >/dev/console
    done
}

group() { # group ublk|fuse: server and writer share a control group of 260 MiB.
    mkdir -p $groups/g && echo 272629760 >$groups/g/memory.max || return 1
    rounds g "$1"
}
whole() { # whole ublk|fuse: the machine has 400 MiB for server and writer.
    echo 60 >/proc/sys/vm/dirty_ratio
    echo 40 >/proc/sys/vm/dirty_background_ratio
    while [ "$(awk '/^MemAvailable/{print $2}' /proc/meminfo)" -gt 409600 ]; do
        dd if=/dev/zero bs=1M count=16 2>/dev/null >>/data/ballast || break
    done
    rounds none "$1"
}
for step in group whole; do
    step $step ublk
    step $step fuse
done
echo 'guest: end'
poweroff -f
