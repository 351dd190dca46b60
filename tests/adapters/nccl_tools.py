# SPDX-License-Identifier: BSD-3-Clause
"""weft_nccl_check over the plug-ins of this build, and its report."""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
CHECK = BUILD / "bin/weft_nccl_check"
WEFT, RCCL, SOCKET = (BUILD / "lib" / name for name in (
    "libnccl-net-weft.so", "librccl-net-weft.so", "libnccl-net-socket.so"))
CACHE = (BUILD / "CMakeCache.txt").read_text()
# What the plug-in exports; the one over sockets always has v4 and v5, too.
VERSIONS = list(range(4 if "WEFT_NCCL_OLD_TABLES:BOOL=ON" in CACHE else 6, 13))
SOCKET_VERSIONS = list(range(4, 13))

sys.path.insert(0, str(ROOT / "tests/interop"))
import suite  # noqa: E402


def sanitized():
    """The sanitizer of this build, or None."""
    found = re.search(r"^WEFT_SANITIZE:\w+=(\S+)$", CACHE, re.M)
    return found and found.group(1)


def main():
    """Runs the tests of the script, unless the harness was not built."""
    if CHECK.exists():
        suite.run()
    else:
        suite.skip("built without CLI11 or nlohmann-json")


class Report:
    """What weft_nccl_check says."""

    def __init__(self, code, said, error):
        self.code, self.error = code, error
        self.all = json.loads(said) if said.startswith("{") else None

    def verdicts(self, version):
        """Rule to verdict, in the order in which they ran."""
        found = next(each for each in self.all["versions"] if each["version"] == version)
        return {rule["rule"]: rule["verdict"] for rule in found["rules"]}

    def text(self, version, rule):
        found = next(each for each in self.all["versions"] if each["version"] == version)
        return next(each["text"] for each in found["rules"] if each["rule"] == rule)

    def __str__(self):
        return json.dumps(self.all, indent=1) + self.error


def check(library, *options, **variables):
    """The report on `library`, in an environment that names no device of its own."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("WEFT_", "NCCL_"))}
    done = subprocess.run([CHECK, library, "--json", "--quick", *map(str, options)],
                          env={**kept, **variables}, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    return Report(done.returncode, done.stdout, done.stderr)
