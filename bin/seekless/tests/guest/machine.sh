#!/usr/bin/env bash
# Starts a whole Debian by software emulation, with a kernel that has ublk: its systemd runs
# person.sh, which restarts the machine and then powers it off, twice. Prints the console.
#
#   machine.sh TREE KERNEL SCRATCH
#
# TREE is a Debian in a folder, with seekless.deb in its /opt. KERNEL is a folder with the unpacked
# package of a Debian kernel (boot/vmlinuz-*, lib/modules). SCRATCH is an empty folder; disk.img there
# is the disk that the person adopts.
set -euo pipefail
tree=$1 kernel=$2 scratch=$3
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
release=$(basename "$kernel"/lib/modules/*)

cp -a "$kernel/lib/modules" "$tree/usr/lib/"
chroot "$tree" depmod "$release"
echo '/dev/vda / ext4 defaults 0 0' >"$tree/etc/fstab"
install -m 755 "$here/person.sh" "$tree/opt/"
cat >"$tree/etc/systemd/system/person.service" <<'UNIT'
[Unit]
Description=the person at this machine
[Service]
ExecStart=/opt/person.sh
[Install]
WantedBy=multi-user.target
UNIT
ln -s ../person.service "$tree/etc/systemd/system/multi-user.target.wants/"
# The console is the person's alone.
ln -s /dev/null "$tree/etc/systemd/system/serial-getty@ttyS0.service"
truncate -s 1200M "$scratch/root.img"
mke2fs -q -t ext4 -d "$tree" "$scratch/root.img"
truncate -s 256M "$scratch/disk.img"
mke2fs -q -t ext4 -d "$tree/etc" "$scratch/disk.img"

start=$scratch/start
mkdir -p "$start"/{bin,dev,new}
cp "$(command -v busybox)" "$start/bin/"
for module in virtio_blk; do
    found=$(find "$kernel/lib/modules" -name "$module.ko*")
    case $found in
    *.xz) xz -dc "$found" >"$start/$module.ko" ;;
    *) cp "$found" "$start/$module.ko" ;;
    esac
done
cat >"$start/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs dev /dev
busybox insmod /virtio_blk.ko
until [ -b /dev/vda ]; do busybox sleep 0.1; done
busybox mount -t ext4 /dev/vda /new
busybox mount --move /dev /new/dev
exec busybox switch_root /new /sbin/init
INIT
chmod +x "$start/init"
(cd "$start" && find . | cpio --quiet -o -H newc | gzip -1) >"$scratch/initramfs"

disk() { # disk FILE NAME: arguments for a disk.
    echo "-drive file=$scratch/$1,format=raw,if=none,id=$2 -device virtio-blk-pci,drive=$2,serial=$2"
}
run() { # run WORD: starts the machine until it ends. WORD shows that it came up.
    local try
    for try in 1 2 3; do
        # shellcheck disable=SC2046 # words
        timeout 1200 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nographic -no-reboot \
            -kernel "$kernel"/boot/vmlinuz-* -initrd "$scratch/initramfs" -nic none \
            $(disk root.img ROOT) $(disk disk.img DISK-1) \
            -append 'console=ttyS0 panic=-1 loglevel=4 systemd.show_status=1' </dev/null >"$scratch/console" 2>&1 || true
        # Software emulation sometimes fails to boot.
        grep -aq "$1" "$scratch/console" && break
        echo "machine.sh: start $try did not reach the steps" >&2
    done
    cat "$scratch/console"
}
for start in first second third; do
    run "guest: $start start"
    if grep -aq 'guest: FAILED' "$scratch/console"; then exit 1; fi
done
# With the program of this host.
e2fsck -fn "$scratch/disk.img" && echo 'guest: ok clean_outside'
