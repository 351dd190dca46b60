# SPDX-License-Identifier: BSD-3-Clause
# ./dev test --system NAME: the tree on another system than this machine's: built whole in a chroot
# of its packages with warnings as errors, then units, packet scripts, and conformance over udp, shm
# and dpdk. ./dev sources this file, and its functions are those of ./dev.
#
# The chroot is made once, in ~/.cache/weft/NAME (1.6 GB), and again when what it needs changes; the
# build is in build/NAME. This machine has to be a Debian, and we root.

system_tests='^(base|wire|memory|congestion|transport|driver|verbs|roce|srd|crypto|message|script)/'
system_tests+='|^conformance/.*@(srd_)?(udp|shm|dpdk)$'

command_test_system() {
  local name=${1:-} root lack
  [[ $name == trixie ]] || die "no system '$name': trixie"
  root=${XDG_CACHE_HOME:-$HOME/.cache}/weft/$name
  lack=$(make_system "$name" "$root" 2>&1 >/dev/null) || {
    say "SKIPPED: system/$name: $(tail -n 1 <<<"$lack")"
    return 0
  }
  mkdir -p "build/$name" "$root$PWD"
  in_system "$root" "$PWD/build/$name" "WEFT_WERROR=1 WEFT_JOBS=${WEFT_JOBS:-$(nproc)} \
    WEFT_GUESTS=0 WEFT_TEST_SCALE=${WEFT_TEST_SCALE:-0.1} \
    ./dev test release -LE 'long|perf' -R '$system_tests'"
}

# make_system NAME ROOT. Where it cannot, the last line says why.
make_system() {
  local name=$1 root=$2 new=$2.new wanted
  ((EUID == 0)) || { say "a chroot needs root" >&2 && return 1; }
  unshare -m true || { say "no namespaces of mounts" >&2 && return 1; }
  wanted="${test_packages[*]} ccache"
  [[ "$(cat "$root/weft-packages" 2>/dev/null)" == "$wanted" ]] && return
  (ensure_packages mmdebstrap) || { say "no mmdebstrap" >&2 && return 1; }
  rm -rf --one-file-system "$new"
  mkdir -p "$(dirname "$root")"
  mmdebstrap --variant=minbase --include="${wanted// /,}" \
    --aptopt='APT::Install-Recommends "false"' "$name" "$new" || return 1
  say "$wanted" >"$new/weft-packages"
  rm -rf --one-file-system "$root"
  mv "$new" "$root"
}

# in_system ROOT BUILD COMMAND: runs COMMAND at the same path as here, with BUILD as build/.
in_system() {
  local root=$1 build=$2
  # shellcheck disable=SC2016
  ROOT=$root BUILD=$build COMMAND=$3 TREE=$PWD unshare -m --propagation private bash -euc '
    mount --bind "$TREE" "$ROOT$TREE"
    mount --bind "$BUILD" "$ROOT$TREE/build"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /sys "$ROOT/sys"
    mount --rbind /dev "$ROOT/dev"
    mount -t tmpfs tmpfs "$ROOT/dev/shm"
    mount -t tmpfs tmpfs "$ROOT/tmp"
    exec chroot "$ROOT" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      bash -euc "cd \"\$1\" && $COMMAND" _ "$TREE"'
}
