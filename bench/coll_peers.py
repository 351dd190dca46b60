#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft's all_reduce over shared memory beside Open MPI's, in one run.

    ./dev build release weft_coll && python3 bench/coll_peers.py

Rounds take turns, weft first, then Open MPI (ob1, its shared-memory transport); figures are medians
over the rounds of the median call, the spread is (largest - smallest) / median. fp32, sum. mpirun
starts both, so that both have the same chance of a core: --bind core gives each rank its own (as
many as there are), --bind none leaves them to the kernel. Wants openmpi-bin and libopenmpi-dev.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SIZES = ((8, 2000), (64 << 10, 500), (64 << 20, 6))  # bytes, calls of a round
LIMIT_S = 300


def launcher(ranks, bind):
    command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", bind, "-n", str(ranks),
               "--mca", "pml", "ob1", "--mca", "btl", "vader,self",
               "--mca", "mpi_yield_when_idle", "1"]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    return command


def run_weft(program, launch, size, calls, scratch):
    report = pathlib.Path(scratch) / "weft.json"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        store = f"tcp:127.0.0.1:{probe.getsockname()[1]}"
    subprocess.run([*launch, program, "all_reduce", "-d", f"roce+shm:peers{os.getpid()}",
                    "--store", store, "-b", str(size), "-e", str(size), "-n", str(calls),
                    "-w", str(calls // 10 + 5), "--check", "none",
                    "--report-to-json-file", str(report)],
                   check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
    row = json.loads(report.read_text(encoding="utf-8"))["results"][0]["out_of_place"]
    return row["p50_us"]


def run_mpi(program, launch, size, calls):
    done = subprocess.run([*launch, program, str(size), str(calls)], check=True, timeout=LIMIT_S,
                          capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["p50_us"]


def bus_gbps(size, ranks, time_us):
    return size / time_us / 1e3 * 2 * (ranks - 1) / ranks


def compare(weft, mpi, ranks, bind, rounds, scratch):
    launch = launcher(ranks, bind)
    for size, calls in SIZES:
        times = {"weft": [], "mpi": []}
        for _ in range(rounds):
            times["weft"].append(run_weft(weft, launch, size, calls, scratch))
            times["mpi"].append(run_mpi(mpi, launch, size, calls))
        middle = {who: statistics.median(of) for who, of in times.items()}
        spread = {who: (max(of) - min(of)) / middle[who] for who, of in times.items()}
        print(f"{ranks:5} {bind:>5} {size:10} {middle['weft']:12.2f} {spread['weft']:7.2f} "
              f"{middle['mpi']:12.2f} {spread['mpi']:7.2f} {middle['weft'] / middle['mpi']:10.2f} "
              f"{bus_gbps(size, ranks, middle['weft']):10.3f} "
              f"{bus_gbps(size, ranks, middle['mpi']):10.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="where bin/weft_coll is")
    parser.add_argument("--ranks", default="2", help="numbers of ranks, separated by commas")
    parser.add_argument("--bind", default="none", help="none, core, or none,core")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    compiler = shutil.which("mpicxx.openmpi")
    weft = pathlib.Path(options.build).resolve() / "bin/weft_coll"
    if not compiler or not shutil.which("mpirun.openmpi"):
        sys.exit("Open MPI is not here: apt-get install openmpi-bin libopenmpi-dev")
    if not weft.exists():
        sys.exit(f"{weft} is not there: ./dev build release weft_coll")
    with tempfile.TemporaryDirectory() as scratch:
        mpi = os.path.join(scratch, "peer_mpi")
        subprocess.run([compiler, "-O2", "-std=c++20", str(HERE / "peer_mpi.cpp"), "-o", mpi],
                       check=True)
        print(f"# all_reduce fp32 over shared memory, {options.rounds} rounds, load "
              f"{os.getloadavg()[0]:.1f}; p50 in us, bus GB/s")
        print(f"{'ranks':>5} {'bind':>5} {'bytes':>10} {'weft':>12} {'spread':>7} {'Open MPI':>12} "
              f"{'spread':>7} {'weft/MPI':>10} {'weft GB/s':>10} {'MPI GB/s':>10}")
        for ranks in options.ranks.split(","):
            for bind in options.bind.split(","):
                compare(str(weft), mpi, int(ranks), bind, options.rounds, scratch)


if __name__ == "__main__":
    main()
