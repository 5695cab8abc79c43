#!/bin/busybox sh
# The first process of the guest. Each step prints `guest: ok NAME` or `guest: FAILED NAME: WHY`.
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o size=1400m data /data
for module in /modules/*; do insmod "$module" || echo "guest: no module $module"; done
# The serial line ends lines in its own way.
stty -onlcr 2>/dev/null
echo 'guest: begin'

server= disk=/dev/ublkb3
serve() { # serve BACKING ARGUMENTS...: starts a server, and waits for its device to work.
    seekless serve "$@" >/data/log 2>&1 &
    server=$!
    until grep -q '^serving' /data/log; do
        kill -0 $server 2>/dev/null || { cat /data/log; return 1; }
        sleep 0.1
    done
}
end() { # Ends the server in order.
    kill $server
    wait $server
}
step() { # step NAME: runs the function.
    if why=$("step_$1" 2>&1); then echo "guest: ok $1"; else echo "guest: FAILED $1: $why"; fi
}
verify() { # verify SECONDS: writes and reads back, with checksums.
    fio --name=v --filename=$disk --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite \
        --bsrange=4k-64k --size=96m --verify=crc32c --verify_fatal=1 --do_verify=1 --fsync=32 --randseed=7 "$@"
}

limits() {
    queue=/sys/block/ublkb3/queue
    [ "$(cat $queue/rotational)" = 1 ] || echo "not rotational"
    [ "$(cat $queue/write_cache)" = 'write back' ] || echo "no write cache"
    [ "$(cat $queue/fua)" = 1 ] || echo "no FUA"
    [ "$(cat $queue/discard_max_bytes)" -gt 0 ] || echo "no discard"
    [ "$(cat $queue/write_zeroes_max_bytes)" -gt 0 ] || echo "no zeroes"
    [ "$(cat $queue/logical_block_size)" = 512 ] && [ "$(cat $queue/physical_block_size)" = 4096 ] ||
        echo "wrong block sizes"
    [ "$(cat /sys/block/ublkb3/size)" = 655360 ] || echo "wrong size"
}
step_limits() {
    said=$(limits 2>&1)
    [ -z "$said" ] || { echo "$said"; return 1; }
}
step_verify() { verify || return 1; }
step_zeroes() {
    tr '\0' 'x' </dev/zero | dd of=$disk bs=1M count=8 conv=fsync 2>/dev/null
    /bin/blkdiscard -f -o 1048576 -l 2097152 $disk && /bin/blkdiscard -f -z -o 4194304 -l 1048576 $disk || return 1
    dd if=$disk of=/data/part bs=1M skip=1 count=2 iflag=direct 2>/dev/null
    dd if=$disk bs=1M skip=4 count=1 iflag=direct 2>/dev/null >>/data/part
    [ "$(tr -d '\0' </data/part | wc -c)" = 0 ] || { echo "not all zeroes"; return 1; }
    [ "$(dd if=$disk bs=1M skip=3 count=1 iflag=direct 2>/dev/null | tr -d 'x' | wc -c)" = 0 ] || echo "not as written"
}
fill() { # Copies files to /mnt, and remembers their checksums.
    mkdir -p /mnt/tree && cp -a /bin /mnt/tree/ && sync && (cd /mnt/tree && find . -type f -exec md5sum {} + >/data/sums)
}
step_ext4() {
    mkfs.ext4 -q -F $disk && mount -t ext4 -o discard $disk /mnt && fill || return 1
    umount /mnt && mount -t ext4 $disk /mnt && (cd /mnt/tree && md5sum -c -s /data/sums) || return 1
    rm -rf /mnt/tree/bin && umount /mnt && e2fsck -fn $disk
}
step_xfs() {
    mkfs.xfs -q -f $disk || return 1
    mount -t xfs $disk /mnt && fill || return 1
    umount /mnt && mount -t xfs $disk /mnt && (cd /mnt/tree && md5sum -c -s /data/sums) || return 1
    umount /mnt && xfs_repair -n $disk
}
step_refuses_to_end() {
    mount -t ext4 $disk /mnt || return 1
    kill $server
    sleep 2
    kill -0 $server || { echo "ended under a mount"; return 1; }
    grep -q 'is mounted at /mnt' /data/log || { cat /data/log; return 1; }
    touch /mnt/alive && sync && umount /mnt
}
# The server is killed under fio and under a mounted file system. Neither sees an error.
step_survives_kills() {
    verify --loops=3 >/data/fio 2>&1 &
    fio=$!
    for round in 1 2 3 4 5 6; do
        sleep 1
        kill -9 $server
        wait $server
        serve /data/a.img --ublk || return 1
    done
    wait $fio || { cat /data/fio; return 1; }
    mkfs.ext4 -q -F $disk && mount -t ext4 -o errors=panic $disk /mnt || return 1
    (for n in 1 2 3 4; do cp -a /bin /mnt/bin$n && sync || exit 1; done) >/data/copies 2>&1 &
    copies=$!
    for round in 1 2 3 4; do
        sleep 1
        kill -9 $server
        wait $server
        serve /data/a.img --ublk 3 || return 1
    done
    wait $copies || { cat /data/copies; return 1; }
    for n in 1 2 3 4; do
        (cd /bin && find . -type f -exec md5sum {} +) >/data/sums
        (cd /mnt/bin$n && md5sum -c -s /data/sums) || { echo "bin$n differs"; return 1; }
    done
    umount /mnt && e2fsck -fn $disk
}
# In write-back a kill may lose writes that were not flushed: the device must not go on.
# write_back_gives_errors DISK [AREA]: the area is at AREA, or inside the disk.
write_back_gives_errors() {
    truncate -s 256M $1
    seekless volume format $1 ${2:+--at $2} --optimized 64MiB --write-buffer 50% --mode writeback >/data/format 2>&1 ||
        { cat /data/format; return 1; }
    set -- $1 ${2:+--area $2}
    serve $@ --ublk 3 || return 1
    mkfs.ext4 -q -F $disk && mount -t ext4 $disk /mnt && cp /bin/busybox /mnt/ && sync || return 1
    kill -9 $server
    wait $server
    # Nobody else may change the volume while its device waits: a drain would hide the loss.
    seekless volume drain $@ >/data/drained 2>&1 && { echo "it was drained"; return 1; }
    grep -q 'waits for the next server' /data/drained || { cat /data/drained; return 1; }
    serve $@ --ublk 3 >/data/refused 2>&1 && { echo "it went on"; return 1; }
    grep -q 'writes that were not flushed may be lost' /data/log || { cat /data/log; return 1; }
    umount /mnt
    serve $@ --ublk 3 || return 1
    mount -t ext4 $disk /mnt && cmp /bin/busybox /mnt/busybox && umount /mnt && e2fsck -fn $disk && end
}
step_write_back_gives_errors() {
    write_back_gives_errors /data/b.img /data/b.area && write_back_gives_errors /data/c.img
}

serve /data/a.img --size 320MiB --ublk 3 && echo 'guest: ok start' || echo 'guest: FAILED start'
for name in limits verify zeroes ext4 xfs; do step $name; done
mkfs.ext4 -q -F $disk
step refuses_to_end
# A step runs in a shell of its own, which is not the server's parent.
kill $server; wait $server && [ ! -e $disk ] && echo 'guest: ok ends' || { echo 'guest: FAILED ends'; cat /data/log; }
serve /data/a.img --ublk 3
step_survives_kills >/data/why 2>&1 && echo 'guest: ok survives_kills' || { echo 'guest: FAILED survives_kills'; cat /data/why; }
end
step_write_back_gives_errors >/data/why 2>&1 && echo 'guest: ok write_back_gives_errors' || { echo 'guest: FAILED write_back_gives_errors'; cat /data/why; }
echo 'guest: end'
poweroff -f
