#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""./dev hardware with devices that break rules (`deviate=`): the report names each; one that breaks
none has no finding. The device is weft's own, lent by `weft_script respond`."""
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["WEFT_BUILD"]) / "bin"
PROGRAM = ROOT / "tools/hardware/hardware.py"
sys.path.insert(0, str(PROGRAM.parent))
import devices  # noqa: E402
import findings  # noqa: E402

# Each deviation of providers/port/middleware/deviating_port.hpp, and a script that sees it.
SCRIPT_OF = {
    "migreq": "hdr/migrated", "pkey": "hdr/fields-of-a-write", "pad": "hdr/pad-of-responses",
    "msn": "ack/msn", "nak_code": "nak/last-without-first", "repeat_nak": "psn/one-nak",
    "no_dup_ack": "dup/send", "early_rnr": "dup/send", "no_ecn": "cc/mark-makes-a-cnp",
    "cnp_class": "cc/mark-on-a-response", "any_icrc": "icrc/wrong", "any_version": "hdr/version",
}
SCRIPTS = [ROOT / f"tests/script/{name}.script" for name in sorted(set(SCRIPT_OF.values()))]
PAYLOAD = b"SECRET-payload-"


class Device:
    """`weft_script respond` on a device that breaks these rules."""

    def __init__(self, *deviations):
        self.device = "roce+udp:lo" + (",deviate=" + "+".join(deviations) if deviations else "")

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.where = f"127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [BIN / "weft_script", "respond", "--listen", "127.0.0.1", "--port", str(port),
             "--device", self.device], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=20).close()
                return self
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError("the responder does not listen")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def hardware(folder, *arguments):
    done = subprocess.run([sys.executable, PROGRAM, "--out", folder, *arguments], text=True,
                          capture_output=True, timeout=300, check=False)
    report = pathlib.Path(folder) / "report.json"
    return done, json.loads(report.read_text(encoding="utf-8")) if report.exists() else None


def keys_found(deviation):
    with Device(*([deviation] if deviation else [])) as device, \
            tempfile.TemporaryDirectory() as folder:
        scripts = [ROOT / f"tests/script/{SCRIPT_OF[deviation]}.script"] if deviation else SCRIPTS
        done, report = hardware(folder, "--peer", device.where, "--only", "scripts", "--scripts",
                                *scripts)
    return done.returncode, [found["key"] for found in report["findings"]], done.stdout


class Hardware(unittest.TestCase):
    def test_every_deviation_is_named(self):
        names = re.findall(r"X\((\w+)\) +/\*", (
            ROOT / "providers/port/middleware/deviating_port.hpp").read_text(encoding="utf-8"))
        self.assertEqual(sorted(names), sorted(SCRIPT_OF))
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for name, (code, keys, said) in zip(names, pool.map(keys_found, names)):
                with self.subTest(name):
                    self.assertEqual((code, keys), (1, [name]), said)

    def test_none_of_a_device_that_breaks_no_rule(self):
        code, keys, said = keys_found(None)
        self.assertEqual((code, keys), (0, []), said)

    def test_the_folder(self):
        """Several deviations at once, operations both ways, and no payload in what is kept."""
        with Device("migreq", "no_ecn") as device, tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            secret = folder / "secret.script"
            secret.write_text('# roce:C-HDR-1 MigReq of a WRITE.\nqp rc\npost WRITE @0 '
                              f'"{PAYLOAD.decode()}"\n< WRITE_ONLY 0 migrated=1\n')
            done, report = hardware(folder / "out", "--peer", device.where, "--only", "scripts",
                                    "lossy", "cm", "--scripts", secret,
                                    ROOT / "tests/script/cc/mark-makes-a-cnp.script")
            capture = (folder / "out/failed.pcap").read_bytes()
            page = (folder / "out/report.html").read_text(encoding="utf-8")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual({step["name"]: step["verdict"] for step in report["steps"]},
                         {"scripts": "failed", "lossy": "passed", "cm": "skipped"},
                         done.stdout + done.stderr)
        self.assertEqual({found["key"] for found in report["findings"]}, {"migreq", "no_ecn"})
        self.assertGreater(len(capture), 200)
        self.assertNotIn(PAYLOAD, capture)
        for text in ("MigReq is 0", "no CNP after", "C-CC-101", "skipped"):
            self.assertIn(text, page)
        self.assertNotRegex(page, r'(src|href)="?http')

    def test_nothing_to_try(self):
        if devices.devices():
            self.skipTest("this machine has an RDMA device")
        with tempfile.TemporaryDirectory() as folder:
            done, report = hardware(folder)
            self.assertEqual((done.returncode, report), (3, None))
            self.assertIn("no RDMA device", done.stdout)
            done, report = hardware(folder, "--peer", "127.0.0.77", "--only", "scripts", "both")
        self.assertEqual([step["verdict"] for step in report["steps"]], ["failed", "skipped"])
        self.assertIn("no responder answers", report["steps"][0]["summary"])

    def test_a_failure_without_a_name_has_the_title_of_its_script(self):
        found = findings.findings([{"script": "x/y", "title": "roce:C-DUP-24 All is well.",
                                    "rules": "C-DUP-24", "why": "no packet"}])
        self.assertEqual(found, [{"key": "x/y", "rule": "C-DUP-24",
                                  "text": "not so: All is well.", "scripts": ["x/y"]}])

    def test_devices_of_sysfs(self):
        with tempfile.TemporaryDirectory() as name:
            port = pathlib.Path(name) / "mlx5_0/ports/1"
            (port / "gids").mkdir(parents=True)
            (port / "gid_attrs/types").mkdir(parents=True)
            (port / "gids/0").write_text("fe80:0000:0000:0000:0000:0000:0000:0001\n")
            (port / "gids/1").write_text(devices.ZERO_GID + "\n")
            (port / "gid_attrs/types/0").write_text("RoCE v2\n")
            (port / "state").write_text("4: ACTIVE\n")
            (port.parents[1] / "fw_ver").write_text("16.35.2000\n")
            found, = devices.devices(pathlib.Path(name))
        self.assertEqual((found["name"], found["fw_ver"]), ("mlx5_0", "16.35.2000"))
        self.assertEqual(found["ports"]["1"]["state"], "4: ACTIVE")
        self.assertEqual([gid["type"] for gid in found["ports"]["1"]["gids"]], ["RoCE v2"])


if __name__ == "__main__":
    unittest.main()
