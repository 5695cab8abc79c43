#!/bin/sh
# A 15 GB ext4 file system with Debian and the desktop programs, aged, in a sparse file.
#   benches/startup/programs_image.sh IMAGE
# Needs root, mmdebstrap, e2fsprogs, python3 and a Debian mirror. Between the rounds of installing, age.py
# fills the disk with files of no content and takes some away again, so that packages land where there is
# room, and later rounds install the libraries of earlier ones again, as upgrades do.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
image=$1
root=$(mktemp -d)
clean() {
    for dir in proc dev; do mountpoint -q "$root/$dir" && umount -R "$root/$dir"; done
    mountpoint -q "$root" && umount "$root"
    rmdir "$root"
}
trap clean EXIT
trap 'exit 1' INT TERM

truncate -s 15000000000 "$image"
mkfs.ext4 -q -F -L startup -E lazy_itable_init=0,lazy_journal_init=0 "$image"
mount -o loop "$image" "$root"
mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,eatmydata,python3-minimal bookworm "$root"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"

in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 eatmydata "$@"; }
add() { in_root apt-get install -qq -y --no-install-recommends "$@" > /dev/null; in_root apt-get clean; }
upgrade() {
    # What is installed and matches, once more.
    names=$(in_root dpkg-query -W -f '${binary:Package} ${db:Status-Abbrev}\n' | awk -v like="$1" '$2 == "ii" && $1 ~ like { print $1 }')
    # shellcheck disable=SC2086
    in_root apt-get install -qq -y --reinstall $names > /dev/null
    in_root apt-get clean
}
age() { python3 "$here/age.py" "$root/srv" "$@"; }

in_root apt-get update -qq
age --seed 1 --full 0.80 --keep 0.60
add xterm fonts-dejavu dbus-x11 adwaita-icon-theme firefox-esr
age --seed 2 --full 0.85 --keep 0.60
add libreoffice-writer libreoffice-impress libreoffice-gtk3
upgrade '^lib(x|gtk|c6|glib|cairo|pango|freetype)'
age --seed 3 --full 0.85 --keep 0.60
add evince xemacs21-mule xemacs21-basesupport
upgrade '^(lib[a-m]|python)'
age --seed 4 --full 0.90 --keep 0.65
add gimp default-jre jedit
upgrade '^(lib[n-z]|libreoffice-c|firefox)'
age --seed 5 --full 0.85 --keep 0.75

# Who starts them, and what they open.
in_root useradd -m user
mkdir "$root/home/user/documents"
cp "$here"/documents/* "$root/home/user/documents"
chroot "$root" chown -R user: /home/user
chroot "$root" su user -c 'cd ~/documents && soffice --headless --convert-to pdf letter.fodt' > /dev/null
df -h "$root"
sync
