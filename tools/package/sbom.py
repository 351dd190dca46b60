#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the bill of materials of a release as SPDX 2.3 JSON: the source archive, each file that
was made of it with its checksum, and the Debian packages that these depend on.

Usage: sbom.py VERSION EPOCH FOLDER >FOLDER/weft-VERSION.spdx.json
FOLDER has the files of the release; EPOCH is the time of its commit, in seconds since 1970.
"""
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, licence, sha256=None):
    entry = {"SPDXID": identifier(name), "name": name, "versionInfo": version,
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
             "licenseConcluded": licence, "licenseDeclared": licence,
             "copyrightText": "NOASSERTION"}
    if sha256:
        entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return entry


def dependencies(deb):
    """The Debian packages that a package needs: the first of each list of alternatives."""
    said = subprocess.run(["dpkg-deb", "-f", str(deb), "Depends"], check=True, text=True,
                          capture_output=True).stdout
    return [re.match(r"\s*([a-z0-9.+-]+)", one)[1] for one in said.split(",") if one.strip()]


def installed_version(name):
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], text=True,
                           capture_output=True)
    return found.stdout or "NOASSERTION"


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def bill(version, epoch, folder):
    files = sorted(path for path in folder.iterdir()
                   if path.name.endswith((".tar.gz", ".deb", ".whl")))
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (source,) = [path for path in files if path.name == f"weft-{version}.tar.gz"]
    packages = [package(path.name, version, "BSD-3-Clause", sums[path]) for path in files]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", identifier(path.name)) for path in files]
    relations += [relation(identifier(path.name), "GENERATED_FROM", identifier(source.name))
                  for path in files if path != source]
    ours = {path.name.split("_")[0]: path for path in files if path.suffix == ".deb"}
    others = set()
    for path in ours.values():
        for name in dependencies(path):
            target = ours[name].name if name in ours else name
            relations.append(relation(identifier(path.name), "DEPENDS_ON", identifier(target)))
            others.update({name} - ours.keys())
    packages += [package(name, installed_version(name), "NOASSERTION") for name in sorted(others)]
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"weft-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/weft-{version}-{sums[source]}",
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: weft tools/package/sbom.py"]},
            "packages": packages, "relationships": relations}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(json.dumps(bill(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])), indent=1))
