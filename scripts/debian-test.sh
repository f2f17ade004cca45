#!/bin/sh
# Installs the Debian packages of dist/ into a minimal Debian tree, uses them, and removes them.
#
#   scripts/debian-test.sh DIST WORK
#
# Needs root, debootstrap and Debian's mirror. If one of them is missing, the script says so and
# exits with 77.
set -eu
dist=$(cd "$1" && pwd)
tree=$2/tree

skip() {
  echo "the Debian packages are NOT installed here: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "that needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap (scripts/install-dependencies.sh --release)"
rm -rf "$tree"
timeout 900 debootstrap --variant=minbase bookworm "$tree" >"$2/debootstrap.log" 2>&1 ||
  skip "debootstrap cannot make a tree: $(tail -1 "$2/debootstrap.log")"
chroot "$tree" /bin/true 2>/dev/null || skip "chroot is not allowed"
trap 'umount "$tree/proc" 2>/dev/null || true' EXIT
mount -t proc proc "$tree/proc" 2>/dev/null || skip "proc cannot be mounted, and the program finds itself there"

inside() { timeout 900 chroot "$tree" env -i HOME=/root PATH=/usr/bin:/usr/sbin:/bin:/sbin DEBIAN_FRONTEND=noninteractive "$@"; }
cp /etc/resolv.conf "$tree/etc/" 2>/dev/null || true
cp "$dist"/*.deb "$tree/root/"
for package in "$dist"/privgrad-plugins_*.deb; do
  ! dpkg-deb -f "$package" Depends | grep -q mpi || { echo "$package: needs MPI, which is for privgrad-mpi" >&2; exit 1; }
done
inside sh -c 'apt-get update -q && apt-get install -y -q --no-install-recommends /root/*.deb' >"$2/install.log" 2>&1 ||
  { tail -20 "$2/install.log" >&2; exit 1; }
inside privgrad --version
inside privgrad run /usr/share/doc/privgrad/examples/manifests/quickstart.yaml --quiet --out /root/first
inside privgrad verify /root/first
inside privgrad plugins list --json >"$2/list.json"
! grep -q '"tested": false' "$2/list.json" || { echo "a plugin is not on record as tested" >&2; exit 1; }
inside man -w privgrad-run 2>/dev/null || inside test -e /usr/share/man/man1/privgrad-run.1
if ls "$dist"/python3-privgrad_*.deb >/dev/null 2>&1; then
  inside python3 -c 'import privgrad; print("python", privgrad.account({"event": "gaussian", "noise_multiplier": 1.0}, delta=1e-5))'
fi
# An author's plugin and its user, by what the packages have and each compiler.
inside apt-get install -y -q --no-install-recommends make g++ clang >"$2/compilers.log" 2>&1
cp "$(dirname "$0")/../tests/wheel/suite_of_three.sh" "$tree/root/"
for compiler in g++ clang++; do
  inside sh -c "cd && sh suite_of_three.sh $compiler" >"$2/$compiler.log" 2>&1 || { cat "$2/$compiler.log" >&2; exit 1; }
  tail -1 "$2/$compiler.log"
done
inside apt-get purge -y -q $(for package in "$dist"/*.deb; do dpkg-deb -f "$package" Package; done) >"$2/remove.log" 2>&1
left=$(inside find / -xdev -path /proc -prune -o -name '*privgrad*' -print | grep -v '^/root/\|^/var/log\|^/var/cache' || true)
[ -z "$left" ] || { echo "left behind after purge: $left" >&2; exit 1; }
echo "the Debian packages install, work, and leave nothing behind"
