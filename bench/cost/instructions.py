#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions of small requests, both sides together, counted by callgrind beside the figures that
are recorded in instructions.json. They have no noise, so a few per cent mean something where times
on a shared machine do not.

    ./dev bench --instructions             compare: ends with 1 if a row has grown by more than 3 %
    ./dev bench --instructions --record    record, after a change that is worth its instructions

The figures are those of one compiler and one kind of processor; with another one they are printed,
not compared."""
import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve() / "bin"
RECORDED = pathlib.Path(__file__).with_suffix(".json")
MOST = 1.03
# SRD acknowledges when a clock says so, which runs on while callgrind slows the program: the same
# commit (153da41f) took 4,012 and 4,182 instructions for a WRITE on two machines.
MOST_OF = {"WRITE srd+shm": 1.08, "SEND srd+shm": 1.08}
COUNT = 2048
# What is counted, the function of weft_cost that does it, and its arguments.
ROWS = [
    ("WRITE roce+shm", "bounce", ["roce+shm:cost", COUNT]),
    ("WRITE roce+shm, 64 together", "stream", ["roce+shm:cost", COUNT, 64]),
    ("SEND roce+shm", "exchange", ["--send", "roce+shm:cost", COUNT]),
    ("WRITE roce+udp", "bounce", ["roce+udp:lo", COUNT]),
    ("WRITE roce+auto, one host", "bounce", ["roce+auto:lo", COUNT]),
    ("WRITE srd+shm", "bounce", ["srd+shm:cost", COUNT]),
    ("SEND srd+shm", "exchange", ["--send", "srd+shm:cost", COUNT]),
]


def compiler():
    said = subprocess.run([BIN / "weft_cost", "--version"], capture_output=True, text=True,
                          check=True).stdout
    found = re.search(r"compiler (GNU|Clang) (\d+)", said)
    name = " ".join(found.groups()) if found else "unknown compiler"
    return f"{name} {platform.machine()}"


def count(function, arguments):
    """Instructions of a request."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--toggle-collect={function}",
             f"--callgrind-out-file={folder}/out", BIN / "weft_cost", *map(str, arguments)],
            capture_output=True, text=True, timeout=120, check=False)
    requests = re.match(r"(\d+) (WRITEs|SENDs)", done.stdout)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not requests or not collected:
        raise SystemExit(f"weft_cost {' '.join(map(str, arguments))} under callgrind ended with "
                         f"{done.returncode}:\n{done.stdout}{done.stderr}")
    return int(collected.group(1)) / int(requests.group(1))


def main():
    parser = argparse.ArgumentParser(prog="./dev bench --instructions", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record what is counted")
    record = parser.parse_args().record
    recorded = json.loads(RECORDED.read_text())
    here = compiler()
    known = recorded["compiler"] == here
    grown = []
    figures = {}
    print(f"{'instructions of a request of 8 B':32} {'now':>8} {'recorded':>9}  ratio")
    for name, function, arguments in ROWS:
        figures[name] = now = round(count(function, arguments))
        before = recorded["instructions"].get(name)
        if not known or before is None:
            print(f"{name:32} {now:8,}")
            continue
        print(f"{name:32} {now:8,} {before:9,}  {now / before:.3f}", flush=True)
        if now > MOST_OF.get(name, MOST) * before:
            grown.append(name)
    if record:
        said = json.dumps({"compiler": here, "instructions": figures}, indent=2)
        RECORDED.write_text(said + "\n")
    elif not known:
        print(f"not compared: recorded with {recorded['compiler']}, this is {here}")
    elif grown:
        print(f"grown more than noise explains (3 %): {', '.join(grown)}; "
              "see where they go (docs/programs.md, weft_cost), or record them with their reason")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
