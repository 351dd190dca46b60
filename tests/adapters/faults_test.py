#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-run --faults FILE: each kind of fault on a time line is seen by an unmodified program of
libibverbs as the event and state that it stands for, and is told on standard error."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import drop_in

CALLS = pathlib.Path(__file__).resolve().parent / "faults_calls.c"
LIMIT_S = 60


def again_and_again(what, first=300, every=500):
    """What happens after the program has made its objects, however slow the machine is."""
    return "".join(f"{ms}ms {what}\n" for ms in range(first, 20_000, every))


class Kinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compiler = shutil.which("cc")
        if compiler is None:
            raise unittest.SkipTest("no C compiler")
        folder = tempfile.TemporaryDirectory(prefix="weft-faults-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.program = cls.folder / "faults_calls"
        subprocess.run([compiler, "-Wall", "-Werror", "-o", cls.program, CALLS, "-libverbs"],
                       check=True)

    def output(self, kind, text):
        faults = self.folder / kind
        faults.write_text("# a comment\nseed = 7\n" + text)
        return drop_in.succeed(self.program, kind, limit=LIMIT_S, options=("--faults", faults))

    def seen(self, kind, text, *told):
        output = self.output(kind, text)
        self.assertRegex(output, f"seen {kind}$")
        for line in told:
            self.assertRegex(output, f"weft: faults: fault of roce.* after [0-9.]+ ms: {line}")

    def test_port_down_and_up(self):
        self.seen("port", "300ms port=down\n1300ms port=up\n", "port=down", "port=up")

    def test_gid_gone_and_back(self):
        self.seen("gid", "300ms gid=gone\n1300ms gid=back\n", "gid=gone", "gid=back")

    def test_queue_pairs_fail(self):
        self.seen("qp", again_and_again("qp=error"), "qp=error")

    def test_completion_queue_overruns(self):
        self.seen("cq", again_and_again("cq=overrun"), "cq=overrun")

    def test_device_removed(self):
        self.seen("device", "500ms device=removed\n", "device=removed")

    def test_frames_and_completions(self):
        self.seen("frames", "1ms loss=0.05 dup=0.1 reorder=0.1 delay_us=20 rate_mbps=1000\n"
                  "2ms hold_completions_us=200000\n5ms loss=0.02 direction=tx\n",
                  "loss=0.05 dup=0.1", "hold_completions_us=200000", "loss=0.02")


if __name__ == "__main__":
    drop_in.main()
