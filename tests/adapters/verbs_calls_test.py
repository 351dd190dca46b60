#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each call of libibverbs.so.1: its effects, its errors and its events, over UDP and shared memory;
and what programs should not do. verbs_calls is a program of verbs only; weft-run gives it the
drop-in libraries. It is linked with the library, so that with sanitizers it runs as it is."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

import drop_in

PROGRAM = drop_in.BUILD / "bin/verbs_calls"


def files_of(device):
    """What processes of a device may leave behind: their names have its address or job."""
    folders = [pathlib.Path("/dev/shm"), pathlib.Path("/tmp"),
               pathlib.Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere"))]
    return sorted(str(path) for folder in folders if folder.is_dir()
                  for path in folder.rglob(f"*{device.split(':')[1]}*"))


class VerbsCalls(unittest.TestCase):
    def calls(self, case, devices=(drop_in.UDP, drop_in.SHM)):
        for device in devices:
            with self.subTest(device=device):
                drop_in.succeed(PROGRAM, case, device=device, limit=300)

    def test_every_operation_moves_its_data(self):
        self.calls("opcodes")

    def test_srd_by_libefa(self):
        self.calls("srd", ("srd+udp:lo", f"srd+shm:adapters-{os.getpid()}"))

    def test_refusals_have_the_errno_of_the_manual(self):
        self.calls("errors")

    def test_what_the_manual_says_of_returns_and_of_lists(self):
        self.calls("manual")

    def test_each_transition_with_each_attribute(self):
        self.calls("transitions", (drop_in.SHM,))

    def test_events_and_their_acknowledgement(self):
        self.calls("events")

    def test_regions_of_all_kinds(self):
        self.calls("memory")

    def test_rounds_of_polling_threads_and_storms_of_events(self):
        self.calls("polling")

    def test_objects_destroyed_twice_and_memory_unmapped(self):
        self.calls("misuse")

    def test_signals_and_cancellation_in_calls_that_block(self):
        self.calls("signals")

    def test_fork(self):
        self.calls("processes")

    def test_nothing_leaks(self):
        self.calls("cycles")


class BesideTheSystems(unittest.TestCase):
    """WEFT_VERBS_REAL with a copy of the drop-in library for the system's: its device is the second
    one of the list, and each call on it is passed on into the other link namespace."""
    REAL = str(drop_in.LIBRARIES / "libibverbs.so.1")

    def test_both_in_one_process(self):
        for device in (drop_in.UDP, drop_in.SHM):
            with self.subTest(device=device):
                drop_in.succeed(PROGRAM, "devices", device=device, WEFT_VERBS_REAL=self.REAL)

    def test_each_call_on_the_devices_of_the_system(self):
        for case in ("opcodes", "errors", "events", "manual", "memory", "polling"):
            with self.subTest(case=case):
                drop_in.succeed(PROGRAM, case, WEFT_VERBS_REAL=self.REAL,
                                WEFT_TEST_DEVICE_INDEX="1")

    @unittest.skipIf(drop_in.missing("ibv_devices"), "not installed: ibverbs-utils")
    def test_the_library_of_this_machine(self):
        """It lists its devices, if there are any, behind ours."""
        output = drop_in.succeed("ibv_devices", WEFT_VERBS_REAL="1", WEFT_VERBS_LOG="1")
        self.assertEqual(output.count("weft0"), 1, output)
        self.assertNotIn("WEFT_VERBS_REAL", output)

    @unittest.skipIf(drop_in.missing("ibv_devices"), "not installed: ibverbs-utils")
    def test_one_that_cannot_be_loaded_is_told(self):
        output = drop_in.succeed("ibv_devices", WEFT_VERBS_REAL="/nonesuch.so", WEFT_VERBS_LOG="1")
        self.assertIn("weft0", output)
        self.assertIn("/nonesuch.so", output)


class Killed(unittest.TestCase):
    def test_kill_9_leaves_nothing(self):
        """The next process has the device and its address, and at its end no file is left."""
        for device in ("roce+udp:127.0.77.9", drop_in.SHM):  # an address of this test alone
            with self.subTest(device=device):
                process = drop_in.Process([PROGRAM, "endless"], device=device)
                try:
                    while "runs" not in process.output():
                        assert not process.finished(), process.described()
                        assert time.monotonic() < process.until, process.described()
                        time.sleep(0.01)
                    os.killpg(process.process.pid, signal.SIGKILL)
                    process.process.wait()
                finally:
                    process.close()
                drop_in.succeed(PROGRAM, "memory", device=device)
                self.assertEqual(files_of(device), [])


class Sanitized(unittest.TestCase):
    """Without weft-run: the program is linked with the library."""
    CASES = ["opcodes", "errors", "events", "manual", "memory", "polling", "misuse", "signals"]

    def test_cases(self):
        cases = [(device, case) for device in (drop_in.UDP, drop_in.SHM) for case in self.CASES]
        for device, case in [*cases, ("srd+udp:lo", "srd")]:
            with self.subTest(device=device, case=case):
                done = subprocess.run(
                    [PROGRAM, case], timeout=600, check=False, text=True,
                    env=drop_in.environment(WEFT_VERBS_DEVICES=device),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    if not PROGRAM.exists():
        drop_in.suite.skip("built without libibverbs-dev")
    elif drop_in.sanitizer():
        drop_in.suite.run(Sanitized)
    else:
        drop_in.suite.run(VerbsCalls, BesideTheSystems, Killed)
