#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the Debian packages and the wheel of a build: package.sh BUILD. They are put into
# BUILD/packages. The wheel has libweft.so within, and needs a Linux as new as the builder's.
set -euo pipefail
build=$(cd "$1" && pwd)
out=$build/packages
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf "$out"
cpack --config "$build/CPackConfig.cmake" -B "$out" >"$work/cpack.log" 2>&1 || {
  cat "$work/cpack.log"
  exit 1
}
rm -rf "$out/_CPack_Packages"

# The package, its library beside it, and what an installer reads of both.
for component in python3-weft libweft0; do
  cmake --install "$build" --strip --prefix "$work/usr" --component "$component" >/dev/null
done
tree=$work/wheel
info=$tree/weft-$version.dist-info
mkdir -p "$info"
cp -r "$work"/usr/lib/python3/dist-packages/weft "$tree"
cp -L "$(find "$work/usr" -name libweft.so.0)" "$tree/weft"
cp "$work/usr/share/doc/python3-weft/copyright" "$info/LICENSE"
cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: weft
Version: $version
Summary: RDMA transport library in user space
License: BSD-3-Clause
Requires-Python: >=3.9
Requires-Dist: cffi
END
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: weft
Root-Is-Purelib: false
Tag: py3-none-linux_$(uname -m)
END
if /usr/bin/python3 -c 'import wheel' 2>/dev/null; then
  /usr/bin/python3 -m wheel pack --dest-dir "$out" "$tree" >/dev/null
else
  echo "no wheel: apt-get install python3-wheel"
fi
ls -1sh "$out"
