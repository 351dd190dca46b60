#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest on the drop-in libraries beside weft's own programs, over one device string.

The two take turns; each pair gives a ratio, and the median of the ratios is the figure, with the
least and the largest beside it. Client and server have a core each and real-time priority, where
that is allowed; ib_write_lat reads its memory only, so that the progress thread needs a core: it is
not pinned. UCX over the drop-in, over TCP and cmtime have rows of their own.

    python3 bench/peers/drop_in_beside.py --rounds 5

Needs perftest and ucx-utils (rdmacm-utils for cmtime).
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import sys

from contenders import MIB, Runner, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("WEFT_INSECURE", "1")
SIZES = {8: "8 B", 4096: "4 KiB", 65536: "64 KiB", MIB: "1 MiB"}
ITERATIONS = {8: 100000, 4096: 50000, 65536: 10000, MIB: 1000}
LATENCIES = 20000
# (program without ib_ or weft_, bytes, the goal for the ratio)
ROWS = [("write_lat", 8, None), ("send_lat", 8, "<= 1.1"), ("read_lat", 8, "<= 1.1")] + [
    (f"{operation}_bw", size, ">= 0.8" if (operation, size) == ("write", 65536) else ">= 0.9")
    for operation in ("write", "send", "read") for size in SIZES]


def words_of(program, size):
    if program.endswith("_lat"):
        return ["-s", size, "-n", LATENCIES]
    return ["-s", size, "-n", ITERATIONS[size], "-t", 128, "-Q", 64]


def figure_of(program, size, said):
    """us or GB/s of perftest's table; weft's programs have the same one."""
    found = re.search(r"^ *\d+\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", said, re.M)
    if not found:
        return None
    # The median of times, or millions of messages a second.
    return float(found[1]) if program.endswith("_lat") else float(found[1]) * size / 1e3


def drop_in(program, size, device):
    def run(r):
        words = [r.bin / "weft-run", "-d", device, "--", f"ib_{program}", "-F", "-d", "weft0",
                 "-p", free_port(), *words_of(program, size)]
        return figure_of(program, size, r.pair(words, [*words, "127.0.0.1"]))
    return run


def own(program, size, device, *more):
    def run(r):
        words = [r.bin / f"weft_{program}", "-d", device, "-p", free_port(),
                 *words_of(program, size), *more]
        return figure_of(program, size, r.pair(words, [*words, "127.0.0.1"]))
    return run


def ucx(test, size, device):
    """ucx_perftest over rc_verbs (ud_verbs connects), or over TCP without a device."""
    count = LATENCIES if test.endswith("lat") else ITERATIONS[size] // 2

    def run(r):
        transport = ({"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "weft0:1"}
                     if device else {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"})
        under = [r.bin / "weft-run", "-d", device, "--"] if device else []
        words = [*under, "ucx_perftest", "-p", free_port(), "-f"]
        asked = [*words, "127.0.0.1", "-t", test, "-s", size, "-n", count, "-w", count // 10]
        said = r.pair(words, asked, env={"UCX_WARN_UNUSED_ENV_VARS": "n", **transport})
        rows = re.findall(r"^\s*\d+((?:\s+[\d.]+)+)\s*$", said, re.M)
        numbers = [float(word) for word in rows[-1].split()] if rows else []
        if not numbers:
            return None
        # median, average, overall latency in us; average, overall bandwidth in MB/s; rates
        return numbers[0] if test.endswith("lat") else numbers[4] * MIB / 1e9
    return run


def cmtime(device, connections):
    """Connections a second: 1 / the sum of cmtime's times of the steps of one."""
    def run(r):
        words = [r.bin / "weft-run", "-d", device, "--", "cmtime", "-p", free_port()]
        said = r.pair(words, [*words, "-c", connections, "-s", "127.0.0.1"])
        totals = re.findall(r"^(?:create id|bind addr|resolve addr|resolve route|create qp|connect|"
                            r"disconnect|destroy)\s*:\s+([\d.]+)", said, re.M)
        return len(totals) > 5 and connections / (sum(map(float, totals)) / 1e3)
    return run


def row_of(name, goal, ours, theirs, runner, rounds):
    """One line of the table; a contender that did not run leaves its pair out."""
    pairs = []
    for number in range(rounds):
        order = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        found = [run(runner) for run in order]
        if all(found):
            pairs.append(found if number % 2 == 0 else found[::-1])
    if not pairs:
        return f"| {name} | not measured | | | {goal or ''} |"
    ratios = [a / b for a, b in pairs]
    medians = [statistics.median(values) for values in zip(*pairs)]
    return (f"| {name} | {medians[0]:.3g} | {medians[1]:.3g} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} .. {max(ratios):.2f}) | {goal or ''} |")


def rows_of(device):
    for program, size, goal in ROWS:
        name = f"`{device}` ib_{program}, {SIZES[size]}"
        theirs = own(program, size, device)
        yield name, goal, drop_in(program, size, device), theirs, program != "write_lat"
    for test, program, size, goal in (("tag_lat", "send_lat", 8, "<= 1"),
                                      ("tag_bw", "write_bw", MIB, ">= 0.9")):
        yield (f"`{device}` UCX {test}, {SIZES[size]}, beside weft_{program}", goal,
               ucx(test, size, device), own(program, size, device), True)
        yield (f"`{device}` UCX {test}, {SIZES[size]}, beside UCX over TCP", None,
               ucx(test, size, device), ucx(test, size, None), True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/release/bin", help="programs (default: "
                        "build/release/bin)")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default: 5)")
    parser.add_argument("--only", default="", help="rows with this in their name (default: all)")
    parser.add_argument("--devices", default="roce+udp:lo;roce+shm",
                        help="device strings (default: roce+udp:lo;roce+shm)")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false",
                        help="no real-time priority (default: where it is allowed)")
    options = parser.parse_args()
    options.seconds = 0
    if missing := [name for name in ("ib_send_lat", "ucx_perftest", "cmtime")
                   if shutil.which(name) is None]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    runner = Runner(options)
    cores = runner.cores
    print("| what, us or GB/s | drop-in | weft | ratio (least .. largest) | goal |\n"
          "| --- | --- | --- | --- | --- |", flush=True)
    for device in options.devices.split(";"):
        for name, goal, ours, theirs, pinned in rows_of(device):
            if options.only not in name:
                continue
            runner.cores = cores if pinned else (None, None)
            print(row_of(name, goal, ours, theirs, runner, options.rounds), flush=True)
        if options.only in f"`{device}` cmtime":
            rates = [rate for _ in range(options.rounds)
                     if (rate := cmtime(device, 1000)(runner))]
            if rates:
                print(f"| `{device}` cmtime, connections a second | {statistics.median(rates):.0f} "
                      f"({min(rates):.0f} .. {max(rates):.0f}) | | | >= 5000 |", flush=True)


if __name__ == "__main__":
    main()
