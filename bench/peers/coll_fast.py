#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What Numerics::fast is worth where one rank is late: how long a call goes on after the late rank
has come, in pairs of one run with --numerics fast and one with run. Medians over all rounds, and
the least and largest ratio of a pair.

  python3 bench/peers/coll_fast.py --rounds 5 --ranks 4 roce+shm roce+udp:lo
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin/weft_coll"
OPERATIONS = ("reduce", "reduce_scatter", "all_reduce")


def after_late(options, device, operation, size, numerics):
    """Microseconds, the median call."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "out.json"
        done = subprocess.run(
            [str(BIN), operation, "-r", str(options.ranks), "-d", device, "-b", size, "-e", size,
             "-n", str(options.calls), "-w", "3", "--check", "none", "--algorithm", "direct",
             "--late", "1", "--late-by", str(options.late_by), "--numerics", numerics,
             "--report-to-json-file", str(file)],
            capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
        row = json.loads(file.read_text(encoding="utf-8"))["results"][0]
    return row["out_of_place"]["p50_us"] - options.late_by


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("devices", nargs="*", default=("roce+shm", "roce+udp:lo"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--late-by", type=int, default=20000, help="microseconds")
    parser.add_argument("--sizes", default="64K,1M,8M")
    options = parser.parse_args()
    print("| device | operation | bytes | fast, us | run, us | fast / run (of the pairs) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for device in options.devices:
        for operation in OPERATIONS:
            for size in options.sizes.split(","):
                pairs = [[after_late(options, device, operation, size, numerics)
                          for numerics in ("fast", "run")] for _ in range(options.rounds)]
                fast, run = (statistics.median(values) for values in zip(*pairs))
                ratios = [a / b for a, b in pairs]
                print(f"| {device} | {operation} | {size} | {fast:.0f} | {run:.0f} "
                      f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
                      f"{max(ratios):.2f}) |", flush=True)
    print("load", *os.getloadavg())


if __name__ == "__main__":
    main()
