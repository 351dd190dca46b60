#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A 64 KiB all-to-all of class 0, alone and beside bulk all-reduces of 8 MiB in class 3: two ranks
on this machine. Rounds take turns with the bulk alone; figures are medians over all series.

  python3 bench/peers/coll_beside.py --rounds 4 --every 503 roce+shm srd+udp:lo
  python3 bench/peers/coll_beside.py --first "chrt -r 1"     # as root: before what else runs here
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin/weft_coll"
DEVICES = ("roce+shm", "srd+shm", "roce+udp:lo", "srd+udp:lo")
PAUSE_S = 1  # between rounds: others want the processors too


def run(options, device, *words):
    """Out of place and in place."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "out.json"
        done = subprocess.run(
            [*options.first.split(), str(BIN), "-r", "2", "-d", device, "--check", "none",
             "--report-to-json-file", str(file), *words],
            capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
        row = json.loads(file.read_text(encoding="utf-8"))["results"][0]
    return [row["out_of_place"], row["in_place"]]


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def measure(options, device):
    small = ("all_to_all", "-b", "64K", "-e", "64K", "-n", str(options.calls), "-w", "50",
             "--class", "0", "--every", str(options.every))
    alone, beside, bulk = [], [], []
    for _ in range(options.rounds):
        alone += run(options, device, *small)
        beside += run(options, device, *small, "--beside", "8M")
        bulk += run(options, device, "all_reduce", "-b", "8M", "-e", "8M", "-n", "30", "--class",
                    "3")
        time.sleep(PAUSE_S)
    p99, p99_beside = median(alone, "p99_us"), median(beside, "p99_us")
    rate, rate_alone = median(beside, "beside_GBps"), median(bulk, "algbw_GBps")
    p50, p50_beside = median(alone, "p50_us"), median(beside, "p50_us")
    print(f"| {device} | {p50:.1f} | {p50_beside:.1f} | {p99:.1f} | {p99_beside:.1f} "
          f"| {p99_beside / p99:.2f} | {rate:.2f} of {rate_alone:.2f} GB/s |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("devices", nargs="*", default=DEVICES)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--every", type=int, default=503,
                        help="microseconds from call to call, no divisor of the kernel's tick; 0: "
                             "one begins when the one before is done")
    parser.add_argument("--first", default="", help="words before weft_coll")
    options = parser.parse_args()
    print("| device | p50 alone | p50 beside | p99 alone | p99 beside | of p99 | bulk |")
    for device in options.devices:
        measure(options, device)
    print("load", *os.getloadavg())


if __name__ == "__main__":
    main()
