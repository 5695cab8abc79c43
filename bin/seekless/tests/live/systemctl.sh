#!/bin/sh
# What the test of adoption has in place of systemctl: runs the units below $ROOT, in their order.
set -eu
# What the last `daemon-reload` has read.
units=$STATE/units
mkdir -p "$STATE"
if [ "$1" = show ]; then
    for unit; do :; done
    case $* in
    *RequiredBy*) [ ! -e "$STATE/above" ] || cat "$STATE/above"; exit ;;
    esac
    if [ -e "$STATE/$unit" ]; then echo ActiveState=active; else echo ActiveState=inactive; fi
    exit
fi
echo "$*" >>"$STATE/calls"

field() { sed -n "s/^$1=//p" "$units/$2"; }
name() { echo "$1" | sed 's/.*@//; s/\.service$//'; }

start() {
    [ ! -e "$STATE/$1" ] || return 0
    for need in $(field Requires "$1" | grep '^seekless' | sed "s/%i/$(name "$1")/"); do start "$need"; done
    case $1 in
    seekless-file@*)
        i=$(name "$1")
        . "$ROOT/etc/seekless/$i.conf"
        [ -d /run/seekless ] || mkdir -m 700 /run/seekless
        mkdir -p -m 700 "/run/seekless/$i"
        eval "set -- '$1' $(field ExecStart "$1" | sed "s/^@\([^ ]*\) @seekless/\1/; s/%i/$i/g")"
        unit=$1
        shift
        : >"$STATE/log"
        setsid "$@" >"$STATE/log" 2>&1 </dev/null &
        server=$!
        until grep -q '^serving' "$STATE/log"; do kill -0 "$server"; sleep 0.05; done
        echo "$server" >"$STATE/$unit"
        ;;
    seekless-loop@*)
        eval "$(field ExecStart "$1" | sed "s/%i/$(name "$1")/g")"
        touch "$STATE/$1"
        ;;
    *.mount)
        if [ -n "${FAIL:-}" ]; then
            # An administrator edits the file meanwhile.
            [ "$FAIL" != fstab ] || sed -i '/seekless adopt/d' "$ROOT/etc/fstab"
            echo "it failed on purpose" >&2
            exit 1
        fi
        kind=$(field Type "$1") options=$(field Options "$1")
        mount -t "${kind:-auto}" -o "${options:-defaults}" "$(field What "$1")" "$(field Where "$1")"
        touch "$STATE/$1"
        ;;
    esac
}

stop() {
    [ -e "$STATE/$1" ] || return 0
    case $1 in
    seekless-file@*)
        server=$(cat "$STATE/$1")
        tries=0
        # As a server under systemd, whose request to stop stays: a program that looks at the loop
        # device keeps it for a moment after its `losetup -d`.
        while kill "$server" 2>/dev/null; do
            tries=$((tries + 1))
            [ "$tries" -lt 200 ] || { echo "the server does not end: it is in use" >&2; exit 1; }
            sleep 0.05
        done
        rmdir "/run/seekless/$(name "$1")" || rm -r "/run/seekless/$(name "$1")"
        ;;
    seekless-loop@*) eval "$(field ExecStop "$1" | sed "s/%i/$(name "$1")/g")" ;;
    *.mount) umount "$(field Where "$1")" ;;
    esac
    rm "$STATE/$1"
}

case $1 in
daemon-reload)
    rm -rf "$units"
    cp -R "$ROOT/etc/systemd/system" "$units"
    # A server that is started now could have the disk.
    if [ -n "${PROBE:-}" ] && flock -n "$PROBE" true; then touch "$STATE/free"; fi
    ;;
start) start "$2" ;;
stop) stop "$2" ;;
*) exit 2 ;;
esac
