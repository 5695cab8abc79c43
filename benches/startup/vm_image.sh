#!/bin/sh
# Four virtual machines' disks side by side in one sparse file, and the kernel and initial RAM disk they boot.
#   benches/startup/vm_image.sh IMAGE
# Each is Debian with some servers on a 3.75 GB ext4 file system, aged by itself; IMAGE.vmlinuz and IMAGE.initrd
# are put beside. Needs root, mmdebstrap, e2fsprogs, python3 and a Debian mirror.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
image=$1
bytes=$((915527 * 4096))
root=$(mktemp -d)
tree=$(mktemp -d)
clean() {
    mountpoint -q "$root" && umount "$root"
    rm -rf "$tree"
    rmdir "$root"
}
trap clean EXIT
trap 'exit 1' INT TERM

mmdebstrap --quiet --mode=root --variant=important --include=linux-image-cloud-amd64,systemd-sysv,udev,dbus,openssh-server,rsyslog,cron,apache2,postgresql,exim4-daemon-light,python3,eatmydata \
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/locale/* --dpkgopt=path-exclude=/usr/share/man/* \
    bookworm "$tree/root.tar"
truncate -s $((4 * bytes)) "$image"
for vm in 0 1 2 3; do
    mkfs.ext4 -q -F -L "vm$vm" -E "offset=$((vm * bytes)),lazy_itable_init=0,lazy_journal_init=0" "$image" $((bytes / 1024))k
    mount -o "loop,offset=$((vm * bytes)),sizelimit=$bytes" "$image" "$root"
    python3 "$here/age.py" "$root/srv" --seed "$vm" --full 0.80 --keep 0.55
    # In parts, with files coming and going between, as if installed over time.
    seed=$((vm * 10 + 4))
    for part in ./usr/lib ./usr ./var .; do
        seed=$((seed + 1))
        tar -C "$root" --skip-old-files -xpf "$tree/root.tar" "$part"
        python3 "$here/age.py" "$root/srv" --seed "$seed" --full 0.85 --keep 0.6
    done
    echo "vm$vm" > "$root/etc/hostname"
    echo "LABEL=vm$vm / ext4 defaults 0 1" > "$root/etc/fstab"
    cp "$here/booted.service" "$root/etc/systemd/system/"
    ln -s ../booted.service "$root/etc/systemd/system/multi-user.target.wants/booted.service"
    cp "$root"/boot/vmlinuz-* "$image.vmlinuz"
    cp "$root"/boot/initrd.img-* "$image.initrd"
    df -h "$root"
    umount "$root"
done
sync
