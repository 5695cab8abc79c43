#!/usr/bin/env bash
# Builds the Debian package of seekless and a static program for every Linux, looks at what is in
# them, and writes their checksums:
#
#   packaging/release.sh [OUT]     into the folder OUT, target/package without it
#
# The package needs cargo-deb (`cargo install cargo-deb --locked`) and dpkg. With lintian, it must be
# clean. The static program needs the target of musl (`rustup target add x86_64-unknown-linux-musl`)
# and musl-gcc (Debian: musl-tools). What cannot be built says SKIPPED. PARTS=deb and PARTS=static
# build one of the two. PROFILE chooses another build than `dist`: PROFILE=release is quick to make,
# and slower to run.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-dist}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$(realpath -m "${1:-$target/package}")
mkdir -p "$out"
built=$target/${profile/#dev/debug}
stage=$built/package

checksum() { # checksum FILE: beside it
    (cd "$out" && sha256sum "${1##*/}" >"${1##*/}.sha256" && sha256sum -c "${1##*/}.sha256")
}

debian() {
    local tool unit shell deb files file
    for tool in cargo-deb dpkg-deb; do
        command -v "$tool" >/dev/null || { echo "SKIPPED package: no program $tool"; return 0; }
    done

    cargo build --locked --profile "$profile" -p seekless

    # What the program writes of itself, and the units with the place where the package puts it.
    rm -rf "$stage"
    mkdir -p "$stage/man" "$stage/units" "$out"
    "$built/seekless" man "$stage/man" >/dev/null
    gzip -9n "$stage"/man/*.1
    gzip -9n <packaging/debian/changelog >"$stage/changelog.gz"
    for shell in bash zsh fish; do "$built/seekless" completions "$shell" >"$stage/$shell"; done
    for unit in packaging/systemd/*.service; do
        sed 's:/usr/local/:/usr/:g' "$unit" >"$stage/units/${unit##*/}"
    done

    cargo deb -p seekless --no-build --profile "$profile" --output "$out/" >/dev/null
    deb=$(ls -t "$out"/seekless_*.deb | head -n 1)

    files=$(dpkg-deb -c "$deb" | awk '{ print substr($6, 2) }')
    for file in /usr/bin/seekless /usr/libexec/seekless/ublk-mounts /usr/share/man/man1/seekless.1.gz /usr/share/man/man1/seekless-adopt.1.gz \
        /usr/share/bash-completion/completions/seekless /usr/share/zsh/vendor-completions/_seekless \
        /usr/share/fish/vendor_completions.d/seekless.fish /usr/lib/systemd/system/seekless@.service \
        /usr/lib/systemd/system/seekless-file@.service /usr/lib/systemd/system/seekless-loop@.service \
        /usr/lib/systemd/system/seekless-ublk@.service /usr/lib/systemd/system/seekless-nbd@.service /usr/lib/systemd/system/seekless-watch.service \
        /usr/share/doc/seekless/copyright /usr/share/doc/seekless/changelog.gz; do
        grep -qx "$file" <<<"$files" || { echo "$deb: $file is not in it" >&2; exit 1; }
    done
    if grep -v '^/\(usr\(/.*\)\?\)\?$' <<<"$files"; then
        echo "$deb: it has files outside /usr, above" >&2
        exit 1
    fi
    for file in postinst prerm postrm; do
        dpkg-deb --info "$deb" "$file" >/dev/null || { echo "$deb: no $file is in it" >&2; exit 1; }
    done
    # A step that fails ends this program; in the condition it would pass for units without a fault.
    dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './usr/lib/systemd/system/*' >"$stage/installed"
    if grep -n /usr/local "$stage/installed"; then
        echo "$deb: a unit starts a program that the package does not have, above" >&2
        exit 1
    fi
    if command -v lintian >/dev/null; then
        lintian --fail-on error,warning "$deb"
    else
        echo "SKIPPED lintian: no program lintian"
    fi
    checksum "$deb"
}

static() {
    local musl program
    musl=$(uname -m)-unknown-linux-musl
    if ! command -v musl-gcc >/dev/null; then
        echo "SKIPPED static program: no program musl-gcc"
        return 0
    fi
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$musl" ]; then
        echo "SKIPPED static program: no target $musl; \`rustup target add $musl\` brings it"
        return 0
    fi
    cargo build --locked --profile "$profile" --target "$musl" -p seekless
    program=$target/$musl/${profile/#dev/debug}/seekless
    program=$out/$("$program" --version | tr ' ' -)-$musl
    strip -o "$program" "$target/$musl/${profile/#dev/debug}/seekless"
    if readelf -d "$program" | grep NEEDED; then
        echo "$program: it needs the libraries above" >&2
        exit 1
    fi
    checksum "$program"
}

for part in ${PARTS:-deb static}; do
    case $part in
    deb) debian ;;
    static) static ;;
    *)
        echo "PARTS: '$part' is no part; expected deb, static or both" >&2
        exit 2
        ;;
    esac
done
