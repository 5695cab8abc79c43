#!/bin/sh
# What a person does on a machine with a disk, /dev/vdb, in three starts: the second is a restart, the
# third follows a power-off. Each step prints `guest: ok NAME` or `guest: FAILED NAME`.
exec >/dev/ttyS0 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C HOME=/
cd /opt
unit=seekless-ublk@vdb area=/var/lib/seekless/vdb.area
systemctl is-system-running --wait >/dev/null
start=$(cat start 2>/dev/null || echo 1)
echo $((start + 1)) >start
stty -onlcr </dev/ttyS0

try() { # try COMMAND: shows it, and runs it.
    echo "# $1"
    eval "$1"
}
step() { # step NAME: runs the function. A step that fails is the last.
    "step_$1" && echo "guest: ok $1" && return
    echo "guest: FAILED $1"
    journalctl -b --no-pager | tail -n 60
    poweroff -f
}
system() { # What adoption may change, and release puts back.
    find /etc/systemd /etc/fstab /etc/seekless /var/lib/seekless -exec ls -ld --time-style=+ {} + 2>/dev/null
    find /run/seekless /dev -mindepth 1 2>/dev/null | grep -e /run/ -e ublkb
    true
}
files() { (cd /srv/data && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
server() { systemctl show -P MainPID $unit; }
ended() { while [ -e "/proc/$1" ]; do sleep 0.2; done; }

step_installed() { try 'dpkg -i seekless.deb' && try 'seekless --version'; }

# A mount would write to the disk.
step_to_the_byte() {
    bare=$(sha256sum </dev/vdb)
    seekless adopt /dev/vdb --area $area || return 1
    [ "$(readlink /run/seekless/vdb/device)" = /dev/ublkb0 ] || return 1
    [ "$(sha256sum </run/seekless/vdb/device)" = "$bare" ] || return 1
    seekless release vdb && [ "$(sha256sum </dev/vdb)" = "$bare" ] && [ ! -e /dev/ublkb0 ] || return 1
    system | diff before - && ! systemctl is-failed $unit
}

step_adopted() {
    try "seekless adopt /dev/vdb --area $area --mount /srv/data" && try 'findmnt /srv/data' || return 1
    [ "$(findmnt -no SOURCE /srv/data)" = /dev/ublkb0 ] && systemctl is-active --quiet $unit
}

# The server dies under programs that write; nobody notices.
step_outlives_kills() {
    mounted=$(systemctl show -P ActiveEnterTimestampMonotonic srv-data.mount)
    (exec >/srv/data/log; n=0; while [ ! -e enough ]; do
        n=$((n + 1)); echo "turn $n" && rm -rf "/srv/data/copy$((n % 3))" &&
        cp -a /usr/lib/systemd "/srv/data/copy$((n % 3))" && sync -f /srv/data || exit 1
    done) &
    writer=$!
    for kill in 1 2 3; do
        sleep 2
        dead=$(server)
        [ "$dead" != 0 ] && try "kill -9 $dead" || return 1
        until new=$(server); [ "$new" != 0 ] && [ "$new" != "$dead" ] && systemctl is-active --quiet $unit; do sleep 0.2; done
    done
    touch enough && wait $writer || return 1
    for copy in /srv/data/copy*; do diff -r --no-dereference /usr/lib/systemd "$copy" || return 1; done
    echo "turns: $(wc -l </srv/data/log), starts again: $(systemctl show -P NRestarts $unit)"
    [ "$(systemctl show -P NRestarts $unit)" = 3 ] || return 1
    [ "$(systemctl show -P ActiveEnterTimestampMonotonic srv-data.mount)" = "$mounted" ] || return 1
    ! dmesg | grep -E 'I/O error|EXT4-fs (error|warning)'
}

# A program has the device open, and nothing is mounted: a stop waits for it.
step_waits_for_a_reader() {
    systemctl stop srv-data.mount || return 1
    sleep 1000 </dev/ublkb0 &
    reader=$! served=$(server)
    systemctl stop $unit
    [ "$(sha256sum </dev/ublkb0)" = "$(sha256sum </dev/vdb)" ] || return 1
    journalctl -b -u $unit --no-pager | grep "process $reader (sleep) uses it" || return 1
    kill $reader
    ended "$served"
    [ ! -e /dev/ublkb0 ] && systemctl start srv-data.mount
}

step_stands() {
    try "systemctl is-active $unit srv-data.mount" && try 'findmnt /srv/data' || return 1
    files | diff sums - && ! dmesg | grep 'recover'
}

# A stop of the server first stops the mounts, also at directories that a client has named.
step_stops_in_order() {
    for name in "it's" 'a b' 'Ä'; do
        mkdir "/mnt/$name" && mount /dev/ublkb0 "/mnt/$name" || return 1
        until systemctl is-active --quiet "/mnt/$name"; do sleep 0.2; done
    done
    try "systemctl stop $unit" || return 1
    rmdir "/mnt/it's" '/mnt/a b' '/mnt/Ä' || return 1
    ! findmnt /srv/data && [ ! -e /dev/ublkb0 ] && [ "$(systemctl show -P Result $unit)" = success ] || return 1
    try 'systemctl start srv-data.mount' && systemctl is-active --quiet $unit && files | diff sums -
}

mounted_again() {
    tries=0
    until findmnt /srv/data; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.2
    done
    files | diff sums -
}

needs_again() {
    tries=0
    until systemctl is-active --quiet needs; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || return 1
        sleep 0.2
    done
}

# As after an upgrade of a library: the file system and what needs it come back by themselves.
step_restarts() {
    old=$(server) needs=/run/systemd/system/needs.service
    printf '[Unit]\nRequiresMountsFor=/srv/data\n[Service]\nExecStart=/bin/sleep 9999\nExecStop=/bin/sleep 5\n' >$needs
    systemctl daemon-reload && systemctl start needs || return 1
    try "systemctl restart $unit" && mounted_again && needs_again || return 1
    # Both at once, as needrestart does: systemd cancels the restart of the unit that needs the mount.
    try "systemctl restart needs $unit"
    mounted_again && needs_again || return 1
    systemctl stop needs && rm $needs && systemctl daemon-reload || return 1
    [ "$(server)" != "$old" ] && [ ! -e /run/seekless/vdb/mounts ]
}

# The first start of the server fails, and the mount with it: both come with the second start.
step_tries_again() {
    once=/run/systemd/system/$unit.service.d
    systemctl stop $unit && mkdir -p "$once" || return 1
    printf '[Service]\nExecStartPre=/bin/sh -c "[ -e /run/once ] || { touch /run/once; exit 1; }"\n' >"$once/once.conf"
    systemctl daemon-reload
    ! try 'systemctl start srv-data.mount' || return 1
    mounted_again || return 1
    rm -r "$once" /run/once && systemctl daemon-reload
}

# A program that ignores SIGTERM works on the mount: the server goes on until the disk is free.
step_goes_on_in_use() {
    (cd /srv/data && trap '' TERM && exec sleep 1000) &
    program=$! served=$(server)
    until [ "$(readlink /proc/$program/cwd)" = /srv/data ]; do sleep 0.1; done
    systemctl stop $unit
    files | diff sums - || return 1
    journalctl -b -u $unit --no-pager | grep 'mounted at /srv/data' | tail -n 1
    ! journalctl -b -u $unit --no-pager | grep 'SIGKILL' | grep -v 'Skipping' || return 1
    kill -9 $program
    # It holds the mount until it is gone.
    wait $program
    umount /srv/data && ended "$served" && systemctl start srv-data.mount && files | diff sums -
}

# A restart by an upgrade, while a program that ignores SIGTERM works on the mount. The server in use dies
# later: the next one takes the device over, and nobody notices.
step_restarts_in_use() {
    (cd /srv/data && trap '' TERM && exec sleep 1000) &
    program=$! served=$(server)
    until [ "$(readlink /proc/$program/cwd)" = /srv/data ]; do sleep 0.1; done
    try "systemctl restart $unit"
    [ -e "/proc/$served" ] && files | diff sums - || return 1
    kill -9 "$served"
    until systemctl is-active --quiet $unit; do sleep 0.2; done
    [ "$(server)" != "$served" ] && [ "$(readlink /proc/$program/cwd)" = /srv/data ] || return 1
    kill -9 $program
    wait $program
    files | diff sums - && ! dmesg | grep -E 'I/O error|EXT4-fs (error|warning)'
}

# A container keeps the file system: the host unmounts it, and the server goes on until the container ends.
step_restarts_under_a_container() {
    unshare -m --propagation private sleep 1000 &
    container=$! served=$(server)
    until [ "$(readlink /proc/$container/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do sleep 0.1; done
    try "systemctl restart $unit"
    [ -e "/proc/$served" ] && ! findmnt /srv/data || return 1
    kill $container
    wait $container
    mounted_again && [ "$(server)" != "$served" ]
}

step_released() {
    files | diff sums - || return 1
    try 'seekless release /dev/vdb' || return 1
    system | diff before - || return 1
    ! systemctl list-units --all --no-legend | grep -e "$unit" -e srv-data && [ ! -e /dev/ublkb0 ] || return 1
    try 'e2fsck -fn /dev/vdb' && mount -o ro /dev/vdb /srv/data && files | diff sums - && umount /srv/data
}

case $start in
1)
    echo 'guest: first start'
    # Two minutes pass otherwise, before a stop gives up. An administrator may choose this locale.
    mkdir -p /srv/data /etc/systemd/system/seekless-ublk@.service.d
    printf '[Service]\nTimeoutStopSec=30s\nEnvironment=LANG=C\n' >/etc/systemd/system/seekless-ublk@.service.d/short.conf
    step installed
    system >before
    for name in to_the_byte adopted outlives_kills waits_for_a_reader; do step $name; done
    files >sums
    try 'systemctl reboot'
    ;;
2)
    echo 'guest: second start'
    for name in stands stops_in_order restarts tries_again restarts_in_use restarts_under_a_container goes_on_in_use; do step $name; done
    try 'systemctl poweroff'
    ;;
*)
    echo 'guest: third start'
    for name in stands released; do step $name; done
    echo 'guest: end'
    systemctl poweroff
    ;;
esac
