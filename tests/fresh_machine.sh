#!/bin/sh
# The two commands on a machine that has nothing: `sh tests/fresh_machine.sh FOLDER` makes a bare Debian in FOLDER
# (debootstrap, as root), puts a clone of HEAD there, and times `make demo`, again, and `make test`: JSON lines.
# What this machine says of package indexes and certificates is carried over. Then what the container installs, timed.
set -eu
folder="$1"
debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,make,git,gcc,libc6-dev,ca-certificates,procps bookworm "$folder" >/dev/null
cp -r /etc/ssl/certs "$folder/etc/ssl/"
for file in /etc/pip.conf /etc/xdg/pip /etc/resolv.conf /etc/hosts; do
    if [ -e "$file" ]; then mkdir -p "$folder$(dirname "$file")" && cp -r "$file" "$folder$(dirname "$file")/"; fi
done
pip config list 2>/dev/null | sed -n "s/^global\.find-links='\(.*\)'$/\1/p" | while read -r wheels; do
    [ ! -d "$wheels" ] || { mkdir -p "$folder$(dirname "$wheels")" && cp -r "$wheels" "$folder$wheels"; }
done
git clone --quiet "$(git rev-parse --show-toplevel)" "$folder/root/sweepdb"
mount --bind /proc "$folder/proc"
mount --bind /dev "$folder/dev"
mount --bind /dev/pts "$folder/dev/pts"
trap 'umount "$folder/proc" "$folder/dev/pts" "$folder/dev"' EXIT
timed() {
    start="$(date +%s)"
    status=0
    chroot "$folder" env -i HOME=/root PATH=/usr/bin:/bin sh -c "cd /root/sweepdb && $1" >"$folder/root/log" 2>&1 || status=$?
    printf '{"command": "%s", "status": %s, "wall_s": %s}\n' "$1" "$status" "$(($(date +%s) - start))"
    [ "$status" = 0 ] || { tail -40 "$folder/root/log" >&2; exit 1; }
}
timed "make demo"
timed "make demo"
timed "python3 -m venv /root/image && /root/image/bin/pip install --quiet --constraint constraints.txt .[serve]"
du -sm "$folder/root/image" | sed 's/\([0-9]*\).*/{"installed_for_the_container_mb": \1}/'
[ "${2:-}" = demo ] || timed "make test"
