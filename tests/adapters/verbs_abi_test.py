#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libibverbs.so.1 of the drop-in beside the system's: the exported names and their versions, and
what functions return that need no device."""
import ctypes.util
import json
import pathlib
import re
import subprocess
import sys
import unittest

import drop_in

OURS = drop_in.LIBRARIES / "libibverbs.so.1"
SYSTEMS = ctypes.util.find_library("ibverbs") or ""
PUBLIC = re.compile(r"IBVERBS_1\.\d+$")
NAMES = pathlib.Path(__file__).with_name("verbs_names.txt")
# Prints what the functions of the library argv[1] return, as JSON.
PURE = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
def texts(name, first, last):
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    return [function(value).decode() for value in range(first, last + 1)]
print(json.dumps({
    "status": texts("ibv_wc_status_str", 0, 24), "node": texts("ibv_node_type_str", -1, 8),
    "port": texts("ibv_port_state_str", -1, 7), "event": texts("ibv_event_type_str", 0, 20),
    "mult": [library.ibv_rate_to_mult(rate) for rate in range(-1, 30)],
    "mbps": [library.ibv_rate_to_mbps(rate) for rate in range(-1, 30)],
    "of mult": [library.mult_to_ibv_rate(mult) for mult in range(0, 60)],
    "of mbps": [library.mbps_to_ibv_rate(mbps) for mbps in (0, 1, 2500, 14062, 25781, 103125)],
}))
"""


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, text=True,
                          capture_output=True).stdout


def path_of_system(name="libibverbs"):
    """The path of the library that the linker finds, or None."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, text=True,
                            capture_output=True).stdout
    found = re.search(rf"^\s*{name}\.so\.1 .*=> (\S+)$", listed, re.M)
    return found and found.group(1)


def exports(path):
    """The exported names with their version: {(name, version, whether it is the default)}."""
    rows = [line.split() for line in readelf("--dyn-syms", path).splitlines()]
    found = set()
    for row in rows:
        if len(row) < 8 or row[6] == "UND" or "@" not in row[7]:
            continue
        name, version = re.fullmatch(r"([^@]+)@@?(.+)", row[7]).groups()
        found.add((name, version, "@@" in row[7]))
    return found


def names():
    """The rows of verbs_names.txt: {(name, version)}."""
    rows, version = set(), None
    for line in NAMES.read_text().splitlines():
        if line.startswith("  "):
            rows.add((line.strip(), version))
        elif not line.startswith("#"):
            version = line
    return rows


@unittest.skipUnless(SYSTEMS, "not installed: libibverbs1")
class Abi(unittest.TestCase):
    def test_names_and_versions(self):
        ours, systems = exports(OURS), exports(path_of_system())
        wanted = {row for row in systems if PUBLIC.match(row[1]) or row[1].startswith("IBVERBS_P")}
        self.assertGreater(len(wanted), 140)
        self.assertEqual(wanted - ours, set())
        more = {row[:2] for row in ours - wanted} - names()
        self.assertTrue(all(version == "WEFT_PRIVATE_1" for _, version in more), more)

    def test_names_of_rdma_core_44_to_65(self):
        """Each at its version, and none at another one."""
        self.assertGreater(len(names()), 190)
        ours = {row[:2] for row in exports(OURS)}
        self.assertEqual({row for row in ours if row[1] != "WEFT_PRIVATE_1"}, names())

    def test_soname_and_no_other_library_than_needed(self):
        dynamic = readelf("-d", OURS)
        self.assertIn("Library soname: [libibverbs.so.1]", dynamic)
        needed = set(re.findall(r"\(NEEDED\).*\[(\S+)\]", dynamic))
        self.assertEqual({name for name in needed if name.startswith("lib")},
                         {"libweft.so.0", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6"})
        self.assertRegex(dynamic, r"RUNPATH.*\[\$ORIGIN")

    @unittest.skipUnless(path_of_system("libefa"), "not installed: ibverbs-providers")
    def test_libefa(self):
        ours = exports(drop_in.LIBRARIES / "libefa.so.1")
        systems = exports(path_of_system("libefa"))
        wanted = {row for row in systems if row[0].startswith("efadv_")}
        self.assertGreater(len(wanted), 5)
        self.assertEqual(wanted - ours, set())
        self.assertTrue(all(row[1].startswith("EFA_1.") for row in ours), ours)

    def test_names_and_rates_are_the_systems(self):
        said = [json.loads(subprocess.run([sys.executable, "-c", PURE, path], check=True, text=True,
                                          capture_output=True).stdout)
                for path in (OURS, path_of_system())]
        self.assertEqual(*said)


if __name__ == "__main__":
    drop_in.main("readelf")
