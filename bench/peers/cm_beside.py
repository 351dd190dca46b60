#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long weft_cmtime and librdmacm's cmtime take for a connection over the kernel's rdma_cm, on
rxe in one UML guest.

Times there vary by a factor of ten, for one processor runs both ends and the kernel's timers. So
the two take turns, each pair of runs gives one ratio, and the median of the ratios is the figure,
with the quarters of them beside it. What the clients compute themselves is counted in instructions
(callgrind, twice as many connections less once as many), which have next to no noise.

  python3 bench/peers/cm_beside.py --rounds 15 --connections 200
"""
import argparse
import os
import pathlib
import re
import statistics
import sys

INTEROP = pathlib.Path(__file__).resolve().parents[2] / "tests/interop"
sys.path.insert(0, str(INTEROP))
import guest_job  # pylint: disable=wrong-import-position
import ibverbs_test  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position

WEFT = f"{ibverbs_test.BIN}/weft_cmtime -d {ibverbs_test.DEVICE} -p 7501 -c"
# Both servers stay; that of weft ends with its client, and a new one takes the port.
SCRIPT = f"""
timeout 600 cmtime -p 7500 >/dev/null 2>&1 &
waiting_for cm 7500
peer() {{ echo "== cmtime $1"; timeout 60 $2 cmtime -s {guest_job.ADDRESS} -p 7500 -c $1; }}
weft() {{
    timeout 60 {WEFT} $1 >/dev/null 2>&1 &
    server=$!
    waiting_for cm 7501
    echo "== weft $1"
    timeout 60 $2 {WEFT} $1 {guest_job.ADDRESS}
    wait $server
}}
for round in $(seq ROUNDS); do
    if [ $((round % 2)) = 0 ]; then peer COUNT; weft COUNT; else weft COUNT; peer COUNT; fi
done 2>&1
"""
COUNTED = """
echo "== counted"
count="valgrind --tool=callgrind --callgrind-out-file=/dev/null"
for number in COUNT $((2 * COUNT)); do peer $number "$count"; weft $number "$count"; done 2>&1
"""


def microseconds(said, step):
    """For a connection; the row of a step of either program."""
    found = re.search(rf"^{step}\s*:?((?:\s+[\d.]+)+)", said, re.M)
    numbers = [float(number) for number in found[1].split()] if found else []
    # cmtime: total, max, min, us; weft_cmtime: total, us, per second.
    return numbers[3 if len(numbers) == 4 else 1] if numbers else None


def runs(output):
    """[(program, connections, what it said)]"""
    parts = re.split(r"^== (\w+) (\d+)$", output, flags=re.M)[1:]
    return list(zip(parts[::3], map(int, parts[1::3]), parts[2::3]))


def row(name, values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"| {name} | {middle:.2f} | {low:.2f} .. {high:.2f} |"


def times(output):
    said = {"cmtime": [], "weft": []}
    for program, _, text in runs(output):
        said[program].append(text)
    print("| per connection | median | quarters |\n| --- | --- | --- |")
    for step in ("connect", "disconnect"):
        both = {name: [microseconds(text, step) for text in texts] for name, texts in said.items()}
        pairs = [(ours, theirs) for ours, theirs in zip(both["weft"], both["cmtime"])
                 if ours and theirs]
        for name, index in (("weft_cmtime", 0), ("cmtime", 1)):
            print(row(f"{step}, {name}, us", [pair[index] for pair in pairs]))
        print(row(f"{step}, ratio of a pair", [ours / theirs for ours, theirs in pairs]))
    print(f"{len(said['weft'])} pairs")


def instructions(output):
    counted = {}
    for program, number, text in runs(output):
        found = re.search(r"Collected : (\d+)", text)
        if found:
            counted.setdefault(program, []).append((number, int(found[1])))
    for program, ((few, less), (many, more)) in counted.items():
        print(f"{program}: {(more - less) / (many - few):,.0f} instructions of the client's own "
              "for a connection, made and ended")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=200)
    options = parser.parse_args()
    if reason := machine.UML.why_not():
        sys.exit(reason)
    load = os.getloadavg()[0]
    script = (ibverbs_test.WAITING + SCRIPT + COUNTED).replace(
        "ROUNDS", str(options.rounds)).replace("COUNT", str(options.connections))
    told = guest_job.run(machine.UML, script, 600)
    if told.status is None:
        sys.exit(told.output)
    plain, counted = told.output.split("== counted", 1)
    times(plain)
    instructions(counted)
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
