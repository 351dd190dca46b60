#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes all files of a release from a build of a clean commit: release.sh BUILD OUT. The source
# archive, the Debian packages, the wheel, the site, a bill of materials and the checksums. Times
# in them are that of the commit: the same build gives the same bytes.
set -euo pipefail
build=$(cd "$1" && pwd)
out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf "$out" && mkdir -p "$out"
git archive --format=tar --prefix="weft-$version/" HEAD | gzip -9 -n >"$out/weft-$version.tar.gz"
bash "$here/package.sh" "$build" >/dev/null
cp "$build"/packages/*.deb "$out"
cp "$build"/packages/*.whl "$out" 2>/dev/null || echo "no wheel: apt-get install python3-wheel"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
  -C "$build/.." -cf - docs | gzip -9 -n >"$out/weft-$version-docs.tgz"
python3 "$here/sbom.py" "$version" "$SOURCE_DATE_EPOCH" "$out" >"$out/weft-$version.spdx.json"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -1sh "$out"
