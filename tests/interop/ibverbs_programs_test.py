#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every program and example of the tree on a device of the kernel, rdma_rxe in a guest: each is run
there, or says why it cannot be, or is named below as none that opens a device."""
import pathlib
import re

import guest_job
import ibverbs_test
import machine
import suite

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN, DEVICE, ADDRESS = ibverbs_test.BIN, ibverbs_test.DEVICE, guest_job.ADDRESS

# They simulate, switch, count or load plug-ins, whatever is installed; or are the other end of
# other tests.
NO_DEVICE = {"simulate", "weft_sim", "weft_switch", "weft_srd_demo", "weft_coll_demo",
             "weft_script", "weft_puppet", "weft_nccl_check", "weft_postmortem",
             "weft_doctor", "weft_secure"}
# ibverbs_test.Programs runs these.
ELSEWHERE = {"hello_send", "hello_write", "rpc_pingpong", "weft_info", "weft_rping"} | {
    f"weft_{operation}_{kind}" for operation in ("send", "write", "read", "atomic")
    for kind in ("bw", "lat")}


class Programs(ibverbs_test.InGuest):
    def two_ends(self, server, waiting, client, expected):
        """A server in the background, then its client: what both print."""
        said = self.succeed(f"timeout 60 {BIN}/{server} >/run/server 2>&1 &", waiting,
                            f"timeout 60 {BIN}/{client} && wait $!", "status=$?",
                            "cat /run/server", "exit $status")
        self.assertRegex(said, expected)

    def alone(self, program, expected):
        said = self.succeed(f"export WEFT_DEVICE={DEVICE}", f"timeout 200 {BIN}/{program}",
                            limit_s=240)
        self.assertRegex(said, expected)

    def refused(self, program, expected):
        result = self.ask(f"WEFT_DEVICE={DEVICE} timeout 60 {BIN}/{program}")
        self.assertEqual(result.status, 1, result.output)
        self.assertRegex(result.output, expected)

    def test_weft_cmatose(self):
        self.two_ends(f"weft_cmatose {DEVICE} server 7471", "waiting_for cm 7471",
                      f"weft_cmatose {DEVICE} client {ADDRESS}:7471", r"done\n(.*\n)*done")

    def test_weft_udaddy(self):
        self.two_ends(f"weft_udaddy {DEVICE} server 7174", "waiting_for cm 7174",
                      f"weft_udaddy {DEVICE} client {ADDRESS}:7174", r"done\n(.*\n)*done")

    def test_weft_cmtime(self):
        self.two_ends(f"weft_cmtime -d {DEVICE} -c 100 -p 7501", "waiting_for cm 7501",
                      f"weft_cmtime -d {DEVICE} -c 100 -p 7501 {ADDRESS}", r"disconnect +\d")

    def test_weft_coll(self):
        for operation in ("all_reduce", "all_to_all", "broadcast"):
            self.alone(f"weft_coll {operation} -r 3 -d {DEVICE} -b 8 -e 64K -n 5",
                       "Wrong elements: 0 OK")

    def test_weft_cores(self):
        self.alone(f"weft_cores {DEVICE} 1 0.1",
                   r"1 engines, M WRITEs of \d+ B per processor second: one \d")

    def test_weft_cost(self):
        self.alone(f"weft_cost {DEVICE} 1000", f"2000 WRITEs of 8 B over {DEVICE}")

    def test_weft_progress(self):
        self.alone(f"weft_progress {DEVICE} 100", r"spin on memory: median \d")

    def test_weft_report(self):
        self.alone(f"weft_report -d {DEVICE} --no-floors --seconds 0.05 --sizes 8,4096",
                   r"bytes compared, 0 wrong: data verified")

    def test_weft_stat(self):
        """A process with the device: its counters under the kernel's names."""
        stream = f"timeout 60 {BIN}/weft_write_bw -d {DEVICE} -n 1000000"
        said = self.succeed(f"{stream} >/dev/null 2>&1 &", ibverbs_test.TCP,
                            f"{stream} 127.0.0.1 >/dev/null 2>&1 &", "sleep 1",
                            f"{BIN}/weft_stat && {BIN}/weft_stat --json $(pidof weft_write_bw | "
                            "cut -d' ' -f1)")
        self.assertRegex(said, rf"weft_write_bw +{DEVICE}")
        self.assertRegex(said, r'"sent_pkts": [1-9]')

    def test_hello_collective(self):
        self.alone("hello_collective", r"1 \+ 2 \+ 3 \+ 4 = 10")

    def test_custom_algorithm(self):
        self.alone("custom_algorithm", r"1 \+ 2 \+ 3 \+ 4 = 10, 100000 times, by star")

    def test_hello_srd(self):
        self.refused("hello_srd", "provider ibverbs has RC, UC, UD and XRC queue pairs")

    def test_custom_controller(self):
        self.refused("custom_controller", 'unknown key "cc"; valid keys: port')

    def test_all_are_named(self):
        built = {path.name for path in BIN.glob("weft_*")}
        built |= {path.stem for path in (ROOT / "examples").glob("*.cpp")}
        tested = {re.sub("^test_", "", name) for name in dir(self) if name.startswith("test_")}
        self.assertEqual(built - tested - ELSEWHERE - NO_DEVICE, set())


def main():
    reason = machine.UML.why_not()
    if reason:
        suite.skip(reason)
        return
    suite.run()


if __name__ == "__main__":
    main()
