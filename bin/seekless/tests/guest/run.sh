#!/usr/bin/env bash
# Boots a guest by software emulation, with a kernel that has ublk, and runs steps in it. Prints the
# guest's console. Everything is in memory; nothing of the host is changed.
#
#   run.sh SEEKLESS KERNEL SCRATCH [STEPS]
#
# SEEKLESS is the program. KERNEL is a folder with the unpacked package of a Debian kernel
# (boot/vmlinuz-*, lib/modules). SCRATCH is an empty folder. STEPS is another script of this folder.
# The guest has a disk of 512 MiB, /dev/vda, that it can pull out.
set -euo pipefail
seekless=$1 kernel=$2 scratch=$3 steps=${4:-steps.sh}
here=$(cd "$(dirname "$0")" && pwd)
root=$scratch/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,data,mnt,run,modules,etc}

add() { # add PROGRAM...: copies programs, and the libraries that they load.
    local program path library
    for program; do
        path=$(command -v "$program") || { echo "run.sh: no $program" >&2; exit 3; }
        cp -L "$path" "$root/bin/"
        for library in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*' || true); do
            mkdir -p "$root$(dirname "$library")"
            cp -Ln "$library" "$root$library" 2>/dev/null || true
        done
    done
}
PATH=$PATH:/usr/sbin:/sbin
add busybox fio mkfs.ext4 e2fsck mkfs.xfs xfs_repair blkdiscard
cp "$seekless" "$root/bin/seekless"
strip "$root/bin/seekless" 2>/dev/null || true
for library in $(ldd "$seekless" | grep -o '/[^ ]*'); do
    mkdir -p "$root$(dirname "$library")"
    cp -Ln "$library" "$root$library" 2>/dev/null || true
done
for link in $(busybox --list); do [ -e "$root/bin/$link" ] || ln -s busybox "$root/bin/$link"; done

# Modules in the order in which they are loaded.
modules=$(echo "$kernel"/lib/modules/*)
number=10
for module in ublk_drv virtio_blk loop fuse libcrc32c xfs; do
    found=$(find "$modules" -name "$module.ko*" | head -n 1)
    [ -n "$found" ] || continue
    case $found in
    *.xz) xz -dc "$found" >"$root/modules/$number-$module.ko" ;;
    *) cp "$found" "$root/modules/$number-$module.ko" ;;
    esac
    number=$((number + 1))
done
cp "$here/$steps" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$scratch/initramfs"
rm -rf "$root"
truncate -s 512M "$scratch/disk"

begun() { grep -saq 'guest: begin' "$scratch/console"; }
guest=
trap '[ -z "$guest" ] || kill "$guest"; exit 130' INT TERM HUP
for try in 1 2 3; do
    # A host with other work runs an emulated machine at a third of its speed.
    timeout 3600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nographic -no-reboot \
        -drive "file=$scratch/disk,format=raw,if=virtio" -kernel "$kernel"/boot/vmlinuz-* -initrd "$scratch/initramfs" \
        -append 'console=ttyS0 panic=-1 loglevel=4' </dev/null >"$scratch/console" 2>&1 &
    guest=$!
    # Software emulation sometimes fails to boot: one of two processors gets no timer interrupts.
    for ((waited = 0; waited < 300; waited++)); do
        begun || ! kill -0 $guest 2>/dev/null && break
        sleep 1
    done
    begun || kill $guest 2>/dev/null || true
    wait $guest || true
    begun && break
    echo "run.sh: boot $try did not reach the steps" >&2
done
cat "$scratch/console"
