#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build into a stage and uses it as a user would: a project outside of the tree
# finds it by find_package, pkg-config and Meson, builds, runs, or has the tree within; and
# libweft.so exports only the public API.
# Usage: install_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
stage=$build_dir/stage
consumer=$source_dir/tests/install/consumer
work=$stage/work

install_stage() {
  rm -rf "$stage"
  cmake --install "$build_dir" --prefix "$stage/usr" >/dev/null
  mkdir -p "$work"
  library=$(dirname "$(find "$stage/usr" -name 'libweft.so')")
}

# Each program has a manual page, a completion that bash takes, and those of other shells.
check_manual() {
  local program
  for program in "$stage"/usr/bin/weft[_-]*; do
    test -s "$stage/usr/share/man/man1/${program##*/}.1.gz"
    bash -n "$stage/usr/share/bash-completion/completions/${program##*/}"
    test -s "$stage/usr/share/zsh/vendor-completions/_${program##*/}"
    test -s "$stage/usr/share/fish/vendor_completions.d/${program##*/}.fish"
  done
}

# weft-run finds the drop-in libraries where they are installed.
check_drop_in() {
  local preload names folder=$library/weft/drop-in
  test -e "$folder/libibverbs.so.1" || return 0 # built without libibverbs-dev
  preload=$("$stage/usr/bin/weft-run" -d roce+udp:lo sh -c "echo \$LD_PRELOAD" 2>&1)
  names=libweft-paths.so:$folder/libibverbs.so.1:$folder/librdmacm.so.1:$folder/libefa.so.1
  test "$preload" = "$folder/$names"
  test ! -e "$library/libibverbs.so.1" # in the linker's path it would be every program's
}

check_soname() {
  readelf -d "$library/libweft.so" | grep -q 'SONAME.*\[libweft\.so\.0\]'
  test -L "$library/libweft.so.0"
}

# Public is what the map lists. The rooms are under a node for this version only. Nothing of a
# standard library template or of a dependency is visible.
check_exports() {
  local internal=WEFT_INTERNAL_$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' \
    "$source_dir/CMakeLists.txt")
  nm -DC --defined-only "$library/libweft.so" | cut -d' ' -f3- >"$work/all_exports"
  grep -vE "@@$internal\$|^WEFT_0\$|^$internal\$" "$work/all_exports" >"$work/exports"
  local public='^weft_[a-z_]+$|^(typeinfo for |typeinfo name for |vtable for )?weft::([A-Z]'
  public+='|connect\('
  public+='|add_controller\('
  public+='|list_devices\(|name\(|node_guid\(|parse_gid\(|post_send_all\('
  public+='|reason\(|set_log_(levels|sink)\('
  public+='|sender_of\(|to_string(\[abi:cxx11\])?\()'
  if sed 's/@@WEFT_0//' "$work/exports" | grep -vE "$public"; then
    echo "libweft.so exports more than the public API (cmake/weft.map.in)"
    return 1
  fi
  echo "$(wc -l <"$work/exports") symbols exported, all public"
  ! grep "@@$internal\$" "$work/all_exports" |
    grep -vE '^((non-)?virtual thunk to |(typeinfo|typeinfo name|vtable) for )?weft::[a-z]'
}

# A program of NCCL's API, whose <nccl.h> is ours.
by_nccl() {
  export PKG_CONFIG_PATH=$library/pkgconfig
  local flags
  read -ra flags <<<"$(pkg-config --cflags --libs weft-ccl)"
  cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source_dir/examples/hello_nccl.c" \
    -o "$work/by_nccl" "${flags[@]}"
  LD_LIBRARY_PATH=$library "$work/by_nccl"
  test -z "$(nm -D --defined-only "$library/libweft-ccl.so" |
    grep -vE ' (nccl[A-Z][A-Za-z]*|weft_stream_[a-z]+|WEFT_CCL_0)(@@WEFT_CCL_0)?$')"
}

# A port out of the tree, built from what is installed: listed, and data moves over it.
by_module() {
  cmake -S "$source_dir/examples/port" -B "$work/port" -DCMAKE_PREFIX_PATH="$stage/usr" \
    -DCMAKE_INSTALL_PREFIX="$stage/usr" -DCMAKE_BUILD_TYPE=Debug >/dev/null
  cmake --build "$work/port"
  cmake --install "$work/port" >/dev/null
  test -e "$library/weft/modules/port_local.so"
  "$stage/usr/bin/weft_info" | grep -E '^roce\+local:default +usable$'
  LD_LIBRARY_PATH=$library WEFT_DEVICE=srd+local:installed "$build_dir/bin/hello_srd" >/dev/null
}

# The installed package names no directory of the machine that built it.
check_no_paths() {
  ! grep -rn -e "$source_dir" -e "$stage" "$library/cmake" "$library/pkgconfig"
}

by_find_package() {
  cmake -S "$consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$stage/usr" \
    -DCMAKE_BUILD_TYPE=Debug >/dev/null
  cmake --build "$work/cmake"
  "$work/cmake/consumer_shared"
  "$work/cmake/consumer_static"
}

by_pkg_config() {
  export PKG_CONFIG_PATH=$library/pkgconfig
  local flags
  read -ra flags <<<"$(pkg-config --cflags --libs weft)"
  g++ -std=c++20 "$consumer/consumer.cpp" -o "$work/by_pkg_config" "${flags[@]}" -pthread
  LD_LIBRARY_PATH=$library "$work/by_pkg_config"
  read -ra flags <<<"$(pkg-config --static --cflags --libs weft)"
  g++ -std=c++20 "$consumer/consumer.cpp" -o "$work/by_pkg_config_static" \
    "${flags[@]/#-lweft/$library/libweft.a}"
  "$work/by_pkg_config_static"
}

# Meson finds it by pkg-config.
by_meson() {
  command -v meson >/dev/null || { echo "not tried: there is no meson" && return 0; }
  PKG_CONFIG_PATH=$library/pkgconfig meson setup "$work/meson" "$consumer" >/dev/null
  meson compile -C "$work/meson" >/dev/null
  LD_LIBRARY_PATH=$library "$work/meson/consumer"
}

# The tree as a part of another project. Its program is compiled; to link it would compile the whole
# library once more, which --long does. Neither programs nor tests of the tree are built.
by_fetch_content() {
  local object
  cmake -S "$consumer/embedded" -B "$work/embedded" -G Ninja \
    -DFETCHCONTENT_SOURCE_DIR_WEFT="$source_dir" >/dev/null
  object=$(ninja -C "$work/embedded" -t targets all | sed -n 's/\(.*\/consumer\.cpp\.o\): .*/\1/p')
  ninja -C "$work/embedded" "$object"
  ninja -C "$work/embedded" -t commands all >"$work/embedded/steps"
  grep -q -- '-shared .*libweft\.so\.' "$work/embedded/steps"
  if grep -E "$source_dir/(tests|tools|bench)/" "$work/embedded/steps" | grep -v consumer.cpp; then
    echo "a project that has weft within builds more than its library"
    return 1
  fi
  [[ -n ${WEFT_TEST_LONG-} ]] || return 0
  ninja -C "$work/embedded" embedded
  "$work/embedded/embedded"
}

# The same library for programs in C.
by_c() {
  export PKG_CONFIG_PATH=$library/pkgconfig
  local flags
  read -ra flags <<<"$(pkg-config --cflags --libs weft)"
  cc -std=c11 -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE "$source_dir/examples/hello_write.c" \
    -o "$work/by_c" "${flags[@]}"
  LD_LIBRARY_PATH=$library "$work/by_c"
}

for step in install_stage check_manual check_drop_in check_soname check_exports check_no_paths \
  by_find_package by_pkg_config by_meson by_fetch_content by_c by_nccl by_module; do
  echo "== $step"
  $step
done
