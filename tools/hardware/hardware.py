#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tries weft with the RDMA hardware of this machine, and of a peer, and writes one folder that can
be attached to an issue: report.html, report.json and, if packet scripts failed, failed.pcap, which
has no payload and no keys. docs/hardware.md says what a good report looks like.

Of a device of this machine: the conformance suite by way of `ibverbs:NAME`, and perftest beside
weft's programs. Of the device of a peer, where `weft_script respond --device ibverbs:NAME` runs:
the packet scripts, and every operation both ways with weft's own RoCE here, also with loss.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/interop")]
import devices  # noqa: E402
import exchanges  # noqa: E402
import findings  # noqa: E402
import ibverbs_test  # noqa: E402
import page  # noqa: E402

BIN = exchanges.BIN
SCRIPT_PORT = 18520
ROUNDS, SIZE = 100, 3000  # of rping, the same at both ends
LOSS = "fault.loss=0.01,fault.dup=0.02,fault.reorder=0.01"
SUITE = tuple(name + "_test" for name in ibverbs_test.TAGGED)


class Skipped(Exception):
    """Why a step cannot run."""


class Step:
    """One step of the report; `parts`: (name, verdict, why) of what it consists of."""

    def __init__(self, name, title):
        self.name, self.title = name, title
        self.parts, self.output, self.summary, self.verdict = [], "", "", "passed"
        self.seconds = 0.0

    def add(self, name, verdict, why=""):
        self.parts.append({"name": name, "verdict": verdict, "why": why})

    def count(self, verdict):
        return sum(part["verdict"] == verdict for part in self.parts)

    def run(self, work):
        print(f"{self.title} ...", flush=True)
        begin = time.monotonic()
        try:
            work(self)
            self.verdict = "failed" if self.count("failed") else "passed"
            counts = [f"{self.count(verdict)} {verdict}" for verdict in
                      ("passed", "failed", "skipped") if self.count(verdict)]
            self.summary = self.summary or ", ".join(counts)
        except Skipped as reason:
            self.verdict, self.summary = "skipped", str(reason)
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError,
                exchanges.Refused) as error:
            self.verdict, self.summary = "failed", f"{type(error).__name__}: {error}"
            self.output += traceback.format_exc()
        self.seconds = time.monotonic() - begin
        print(f"  {self.verdict}: {self.summary}", flush=True)


def run(words, limit_s, **environment):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=limit_s, check=False, env={**os.environ, **environment})


def plain(script):
    path = pathlib.Path(script)
    return f"{path.parent.name}/{path.stem}"


# ---- the device of a peer ------------------------------------------------------------------------

class Peer:
    def __init__(self, where, wire):
        host, _, port = where.partition(":")
        self.where, self.wire = f"{host}:{port or SCRIPT_PORT}", wire
        self.host, self.port = host, int(port or SCRIPT_PORT)

    def scripts(self, files, *options):
        words = [BIN / "weft_script", "run", "--against", self.where, "--json", "--psn",
                 "0xfffffa", *options, *files]
        if self.wire and "--wire" not in options:
            words += ["--wire", self.wire]
        done = run(words, 1800)
        if not done.stdout:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)


def packet_scripts(peer, files, folder, found):
    """A step: the packet scripts, and a capture of those that failed, played once more."""
    def work(step):
        said = peer.scripts(files)
        peer.wire = peer.wire or said["wire"]
        failed = []
        for row in said["scripts"]:
            verdict = {"ok": "passed", "FAILED": "failed"}.get(row["verdict"], "skipped")
            step.add(plain(row["script"]), verdict, row["why"])
            if verdict == "failed":
                failed.append({**row, "path": row["script"], "script": plain(row["script"])})
        found.extend(findings.findings(failed))
        if failed:
            capture = folder / "failed.pcap"
            peer.scripts([row["path"] for row in failed], "--wire",
                         f"{peer.wire},pcap={capture},pcap.payload=0")
            step.output = "\n\n".join(
                "\n".join([f"{row['script']}: {row['title']}", *row["trace"], row["why"]])
                for row in failed)
    return work


class Both(exchanges.Exchanges):
    """Weft's own RoCE here, the peer's device there."""

    peer = None
    faults = ""

    @classmethod
    def setUpClass(cls):
        device = cls.peer.wire + ("," + cls.faults if cls.faults else "")
        cls.weft = exchanges.start_weft(cls, "weft")
        cls.there = exchanges.Puppet("peer", cls.peer.host, cls.peer.port)
        cls.addClassCleanup(cls.there.connection.close)
        cls.addClassCleanup(cls.there.lines.close)
        cls.addClassCleanup(cls.weft.connection.close)
        cls.addClassCleanup(cls.weft.lines.close)
        cls.wire = exchanges.Wire({cls.weft: device, cls.there: None})


class Undisturbed(Both, unittest.TestCase):
    """Every operation of RC, UC and UD."""


class Lossy(Both, unittest.TestCase):
    """The reliable service, with loss, duplicates and reordering that weft's side makes."""

    faults = LOSS

    def test_moves(self):
        self.one_way_and_the_other(exchanges.MOVES, [5000], 100)

    def test_atomics(self):
        super().test_atomics()


LOSSY_TESTS = ("test_moves", "test_atomics")


def both_ways(peer, kind, names):
    def work(step):
        if not peer.wire:
            raise Skipped("the packet scripts did not reach the peer's device")
        kind.peer = peer
        result = unittest.TestResult()
        unittest.TestSuite(map(kind, names)).run(result)
        wrong = {}
        for test, text in result.failures + result.errors:
            name = re.search(r"test_\w+|setUpClass", test.id())[0]
            wrong.setdefault(name, []).append(text.strip().splitlines()[-1])
            step.output += text
        if "setUpClass" in wrong:
            step.add("connection", "failed", wrong["setUpClass"][0])
            return
        for name in names:
            step.add(name, "failed" if name in wrong else "passed",
                     "\n".join(wrong.get(name, ())))
    return work


def connections(peer, port):
    def work(step):
        if not port:
            raise Skipped(f"start `rping -s -p PORT -C {ROUNDS} -S {SIZE}` on the peer, and give "
                          "--cm PORT")
        if not peer.wire:
            raise Skipped("the packet scripts did not reach the peer's device")
        done = run([BIN / "weft_rping", peer.wire, "client", f"{peer.host}:{port}", ROUNDS,
                    SIZE], 120)
        step.output = done.stdout + done.stderr
        step.add("weft_rping with the peer's rping", "failed" if done.returncode else "passed",
                 step.output if done.returncode else "")
    return work


# ---- a device of this machine --------------------------------------------------------------------

def conformance(device):
    """A step: the cases of tests/conformance that are not about weft's own engine."""
    def work(step):
        netdevs = [name for port in device["ports"].values() for name in port["mtu"]]
        for name in SUITE:
            words = ibverbs_test.cases(name, "[ibverbs]").replace("'", "").split()
            done = run(words, 900, WEFT_TEST_DEVICE=f"ibverbs:{device['name']}",
                       WEFT_TEST_INTERFACE=netdevs[0] if netdevs else "")
            ended = done.returncode == 0
            step.add(name, "passed" if ended else "failed", "" if ended else done.stdout[-2000:])
    return work


# (perftest's program, ours): their options and columns are the same.
PROGRAMS = tuple((f"ib_{name}", f"weft_{name}")
                 for name in ("write_bw", "read_bw", "send_bw", "write_lat", "send_lat"))


def measured(server, client):
    """What the client prints: the last line of numbers."""
    process = subprocess.Popen([str(word) for word in server], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        done = run(client, 60)
    finally:
        process.kill()
        process.wait()
    numbers = [line.strip() for line in done.stdout.splitlines()
               if re.match(r"^\s*\d+(\s+[\d.]+)+\s*$", line)]
    if not numbers:
        raise RuntimeError((done.stdout + done.stderr).strip()[-500:])
    return numbers[-1]


def perftest(device):
    """A step: perftest beside weft's programs, both on the device, from it to itself."""
    def work(step):
        if not shutil.which("ib_write_bw"):
            raise Skipped("perftest is not installed: apt-get install perftest")
        lines = []
        for theirs, ours in PROGRAMS:
            for program, name, binary in ((theirs, device["name"], theirs),
                                          (ours, f"ibverbs:{device['name']}", BIN / ours)):
                words = [binary, "-d", name, "-s", "65536" if "bw" in ours else "8", "-n", "1000"]
                try:
                    lines.append(f"{program:16} {measured(words, [*words, 'localhost'])}")
                    step.add(program, "passed")
                except (RuntimeError, subprocess.SubprocessError) as error:
                    step.add(program, "failed", str(error))
        step.output = "\n".join(lines)
    return work


# ---- the report ----------------------------------------------------------------------------------

def about(options):
    commit = run(["git", "-C", ROOT, "describe", "--always", "--dirty"], 20).stdout.strip()
    libraries = run(["dpkg-query", "-W", "libibverbs1", "ibverbs-providers"], 20).stdout \
        if shutil.which("dpkg-query") else ""
    return {"weft": commit or "unknown", "made": datetime.datetime.now(datetime.timezone.utc)
            .isoformat(timespec="seconds"), "kernel": platform.release(),
            "architecture": platform.machine(), "libibverbs": " ".join(libraries.split()),
            "peer": options.peer or "none (--peer)"}


def arguments():
    parser = argparse.ArgumentParser(prog="./dev hardware", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="HOST[:PORT]",
                        help="where `weft_script respond` runs on a device (default: none)")
    parser.add_argument("--wire", default="",
                        help="weft's device here that reaches the peer's (default: roce+udp on the "
                             "address with a route there)")
    parser.add_argument("--device", action="append",
                        help="device of this machine to try (default: all)")
    parser.add_argument("--cm", type=int, metavar="PORT",
                        help="where `rping -s` listens on the peer (default: none)")
    parser.add_argument("--scripts", nargs="*", default=[],
                        help="packet scripts to play (default: all)")
    parser.add_argument("--only", nargs="*",
                        help="steps: scripts both lossy cm conformance perftest (default: all)")
    parser.add_argument("--out", type=pathlib.Path,
                        help="the folder to write (default: build/hardware/TIME)")
    return parser.parse_args()


def steps_of(options, here, folder, found):
    """(step, work) of all that is to be done."""
    peer = Peer(options.peer, options.wire) if options.peer else None
    names = unittest.TestLoader().getTestCaseNames(Undisturbed)
    if peer:
        yield Step("scripts", "Packet scripts against the peer's device"), \
            packet_scripts(peer, options.scripts, folder, found)
        yield Step("both", "Every operation, both ways, weft's RoCE and the peer's device"), \
            both_ways(peer, Undisturbed, names)
        yield Step("lossy", "The same with loss, duplicates and reordering made here"), \
            both_ways(peer, Lossy, LOSSY_TESTS)
        yield Step("cm", "RDMA connection manager"), connections(peer, options.cm)
    for device in here:
        if not options.device or device["name"] in options.device:
            yield Step("conformance", f"Conformance suite on ibverbs:{device['name']}"), \
                conformance(device)
            yield Step("perftest", f"perftest and weft's programs on {device['name']}"), \
                perftest(device)


def main():
    options = arguments()
    here = devices.devices()
    if not here and not options.peer:
        print("dev: this machine has no RDMA device, and no --peer HOST was named that has one "
              "(weft_script respond --device ibverbs:NAME runs there)")
        return 3
    unknown = set(options.device or ()) - {device["name"] for device in here}
    if unknown:
        print(f"dev: no device {', '.join(unknown)}; there are "
              f"{', '.join(device['name'] for device in here) or 'none'}")
        return 2
    folder = options.out or ROOT / "build/hardware" / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    found, steps = [], []
    for step, work in steps_of(options, here, folder.resolve(), found):
        if options.only is None or step.name in options.only:
            step.run(work)
            steps.append(vars(step))
    report = {"about": about(options), "devices": here, "findings": found, "steps": steps}
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(page.page(report), encoding="utf-8")
    for each in found:
        print(f"departs: {each['key']} ({each['rule']}): {each['text']}")
    print(f"the report is in {folder}")
    return 1 if any(step["verdict"] == "failed" for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
