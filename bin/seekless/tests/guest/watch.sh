#!/bin/busybox sh
# The first process of the guest: `seekless watch` in a control group of version 2, and beside a disk
# that is pulled out. Each step prints `guest: ok NAME` or `guest: FAILED NAME`, and why.
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o size=1900m data /data
mount -t tracefs tracing /sys/kernel/tracing
mount -t cgroup2 groups /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control
for module in /modules/*; do insmod "$module" 2>/dev/null || echo "guest: no module $module"; done
stty -onlcr 2>/dev/null
echo 'guest: begin'

state=/data/state watch= groups=/sys/fs/cgroup
fail() {
    echo "$*"
    return 1
}
begin() { # begin ARGUMENTS...: starts the daemon, and waits until it watches.
    seekless watch /mnt --state $state "$@" >/data/log 2>&1 &
    watch=$!
    until grep -q '^watching' /data/log; do
        kill -0 $watch 2>/dev/null || { cat /data/log; return 1; }
        sleep 0.1
    done
}
number() { # number NAME: the first number of this name in the status.
    seekless watch status --json --state $state | tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | head -n 1
}
job() { # A cold run of the job, and the time after which it has ended for the daemon.
    echo 3 >/proc/sys/vm/drop_caches
    (cd /mnt && tar cf - tree | md5sum) >/data/sum
    sleep 4
    [ ! -s /data/want ] && cp /data/sum /data/want
    cmp /data/sum /data/want || fail "other bytes"
}
within() { # within SECONDS COMMAND...: waits until the command succeeds.
    local left=$1
    shift
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 1
    done
}
ahead_is() { [ "$(number pages_ahead)" "$1" "$2" ]; }

step_learns() {
    job || return 1
    for try in 1 2 3; do
        before=$(number fetched)
        job || return 1
        [ "$(number fetched)" -gt $((before + 100)) ] && return
    done
    fail "it reads nothing ahead: $(seekless watch status --json --state $state)"
}
# What is ahead fits into the daemon's own group.
step_group() {
    mkdir $groups/watch
    echo 64M >$groups/watch/memory.max
    echo $watch >$groups/watch/cgroup.procs
    within 20 ahead_is -le 8192 || fail "$(number pages_ahead) pages ahead in a group of 64 MiB"
}
step_pulled_out() {
    echo 3 >/proc/sys/vm/drop_caches
    (cd /mnt && while tar cf - tree 2>/dev/null | md5sum; do [ -e /sys/block/vda ] || break; echo 3 >/proc/sys/vm/drop_caches; done) >/dev/null 2>&1 &
    jobs=$!
    sleep 2
    echo 1 >"$(readlink -f /sys/block/vda/device/..)/remove"
    wait $jobs
    within 30 umount /mnt || { fail "umount is refused"; return 1; }
    kill -0 $watch || { fail "the daemon has ended: $(cat /data/log)"; return 1; }
    sleep 1
    held=$(ls -l /proc/$watch/fd | grep -E '/dev/vda|/mnt')
    [ -z "$held" ] || { fail "the daemon holds $held"; return 1; }
    [ ! -e /sys/block/vda ] || { fail "the disk is still there"; return 1; }
    seekless watch status --json --state $state | tr -d ' \n' | grep -q '"filesystems":\[\]' || fail "it is still watched"
}

mkfs.ext4 -q -F /dev/vda && mount -t ext4 -o noatime /dev/vda /mnt || echo 'guest: FAILED disk'
# Files of a few pages, each behind one that is deleted later.
mkdir /mnt/tree
for n in $(seq 300); do
    dd if=/bin/busybox of=/mnt/tree/f$n bs=4k count=3 skip=$((n % 100)) 2>/dev/null
    dd if=/dev/zero of=/mnt/gap$n bs=64k count=1 2>/dev/null
done
rm /mnt/gap*
umount /mnt && mount -t ext4 -o noatime /dev/vda /mnt
begin && echo 'guest: ok start' || echo 'guest: FAILED start'
# Not in a shell of its own: the daemon is this shell's child.
for name in learns group pulled_out; do
    step_$name >/data/why 2>&1 && echo "guest: ok $name" || { echo "guest: FAILED $name"; cat /data/why; }
done
kill $watch
wait $watch && [ ! -s /data/errors ] && echo 'guest: ok ends' || { echo 'guest: FAILED ends'; cat /data/log; }
echo 'guest: end'
poweroff -f
