#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft's all_reduce beside Open MPI's and Gloo's, in one run.

    ./dev build release weft_coll && python3 bench/peers/coll_peers.py --ranks 2,4

Rounds take turns, weft first, then the others; figures are medians over the rounds of the median
call, the spread is (largest - smallest) / median; CPU is the processor time of one rank for one
call. fp32, sum. --wire shm: weft over shared memory, Open MPI too (ob1, vader), Gloo over TCP on
the loopback, for it has nothing else; --wire lo: weft over udp:lo, Open MPI over TCP. Open MPI has
two rows, its defaults and the fastest of MPI_SETTINGS; of Gloo's algorithms the fastest one counts:
the first round tries them all, for each size. mpirun starts all of them, so that all have the same
chance of a core: --bind core gives each rank its own (as many as there are), --bind none leaves
them to the kernel. Wants openmpi-bin, libopenmpi-dev and libgloo-dev; who is missing is left out.
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
# Bytes, calls of a round, and calls before them: ranks that the kernel put on one processor when
# they met it moves after some milliseconds.
SIZES = ((8, 2000, 20_000), (1 << 10, 2000, 20_000), (64 << 10, 500, 5_000), (64 << 20, 6, 5))
GLOO_ALGORITHMS = ("ring", "bcube", "halving")
# The MCA parameters that Open MPI is tried with. By default its ranks yield their core only where
# there are more ranks than cores.
YIELD = {"mpi_yield_when_idle": "1"}
SPIN = {"mpi_yield_when_idle": "0"}
OB1 = {"pml": "ob1", "btl": "vader,self"}
TCP = {"pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "lo"}
COLL_SM = {"coll_sm_priority": "90"}  # collectives in shared memory, off by default
MPI_SETTINGS = {
    "shm": {"defaults": {}, "ob1": OB1, "ob1 spin": OB1 | SPIN, "ob1 yield": OB1 | YIELD,
            "ob1 coll/sm": OB1 | COLL_SM,
            "ucx": {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}},
    "lo": {"defaults": TCP, "spin": TCP | SPIN, "yield": TCP | YIELD}}
LIMIT_S = 300


def launcher(ranks, bind, settings=()):
    command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", bind, "-n", str(ranks)]
    for name in settings:
        command += ["--mca", name, settings[name]]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    return command


def last_line(command):
    done = subprocess.run(command, check=True, timeout=LIMIT_S, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


class Weft:
    name = "weft"

    def __init__(self, program, scratch):
        self.program, self.report = program, pathlib.Path(scratch) / "weft.json"

    def run(self, ranks, bind, wire, size, calls, before):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            store = f"tcp:127.0.0.1:{probe.getsockname()[1]}"
        device = f"roce+shm:peers{os.getpid()}" if wire == "shm" else "roce+udp:lo"
        subprocess.run([*launcher(ranks, bind), self.program, "all_reduce", "-d", device,
                        "--store", store, "-b", str(size), "-e", str(size), "-n", str(calls),
                        "-w", str(before), "--check", "none",
                        "--report-to-json-file", str(self.report)],
                       check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        return json.loads(self.report.read_text(encoding="utf-8"))["results"][0]["out_of_place"]


class Fastest:
    """A peer with several ways to do it: the first round tries them all, and the others take the
    way that was the fastest."""

    def __init__(self):
        self.chosen = {}  # (ranks, bind, wire, size): the name of the way

    def run(self, ranks, bind, wire, size, calls, before):
        case = (ranks, bind, wire, size)
        names = [self.chosen[case]] if case in self.chosen else self.ways(wire)
        figures = {}
        for name in names:
            try:
                figures[name] = self.one(name, *case, calls, before)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
                print(f"# {self.name} fails with \"{name}\": {str(failure.stderr)[-200:]!r}")
        if not figures:
            sys.exit(f"{self.name}: none of {names} runs; see above")
        self.chosen[case] = min(figures, key=lambda name: figures[name]["p50_us"])
        return figures[self.chosen[case]]


class OpenMpi(Fastest):
    """With its defaults only, or with the best of MPI_SETTINGS."""

    def __init__(self, name, program, only_defaults):
        super().__init__()
        self.name, self.program, self.only_defaults = name, program, only_defaults

    def ways(self, wire):
        return ["defaults"] if self.only_defaults else list(MPI_SETTINGS[wire])

    def one(self, name, ranks, bind, wire, size, calls, before):
        return last_line([*launcher(ranks, bind, MPI_SETTINGS[wire][name]), self.program,
                          str(size), str(calls), str(before)])


def open_mpi(scratch):
    program = os.path.join(scratch, "peer_mpi")
    subprocess.run([shutil.which("mpicxx.openmpi"), "-O2", "-std=c++20",
                    str(HERE / "peer_mpi.cpp"), "-o", program], check=True)
    return [OpenMpi("Open MPI", program, True), OpenMpi("MPI best", program, False)]


class Gloo(Fastest):
    name = "Gloo"

    def __init__(self, scratch):
        super().__init__()
        self.program, self.scratch = os.path.join(scratch, "peer_gloo"), scratch
        subprocess.run(["g++", "-O2", "-march=native", "-std=c++20",
                        str(HERE / "peer_gloo.cpp"), "-lgloo", "-pthread", "-o", self.program],
                       check=True)

    def ways(self, _wire):
        return GLOO_ALGORITHMS

    def one(self, name, ranks, bind, _wire, size, calls, _before):  # it sleeps, and so is moved
        meeting = tempfile.mkdtemp(dir=self.scratch)
        if ranks > 2:  # it is slow where ranks share cores
            calls = max(calls // 20, 5)
        return last_line([*launcher(ranks, bind), self.program, str(size), str(calls), meeting,
                          name])


def bus_gbps(size, ranks, time_us):
    return size / time_us / 1e3 * 2 * (ranks - 1) / ranks


def compare(peers, ranks, bind, wire, rounds, sizes):
    """Prints a row for each size and peer; {(size, name): p50 in us}."""
    middles = {}
    for size, calls, before in SIZES:
        if size not in sizes:
            continue
        figures = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                figures[peer.name].append(peer.run(ranks, bind, wire, size, calls, before))
        weft = statistics.median(figure["p50_us"] for figure in figures["weft"])
        for peer in peers:
            times = [figure["p50_us"] for figure in figures[peer.name]]
            middle = middles[size, peer.name] = statistics.median(times)
            cpu = statistics.median(figure["cpu_us"] for figure in figures[peer.name])
            note = peer.chosen[ranks, bind, wire, size] if isinstance(peer, Fastest) else ""
            print(f"{ranks:5} {bind:>5} {size:10} {peer.name:>9} {middle:12.2f} "
                  f"{(max(times) - min(times)) / middle:7.2f} {cpu:12.2f} {weft / middle:9.3f} "
                  f"{bus_gbps(size, ranks, middle):8.3f} {note}".rstrip(), flush=True)
    return middles


def print_growth(few, many, ranks):
    for (size, name), time in sorted(many.items()):
        if (size, name) in few:
            print(f"# {name}, {size} bytes: {ranks} ranks take {time / few[size, name]:.1f} times "
                  "the time of 2")


def find_peers(options, scratch):
    weft = pathlib.Path(options.build).resolve() / "bin/weft_coll"
    if not shutil.which("mpirun.openmpi") or not shutil.which("mpicxx.openmpi"):
        sys.exit("Open MPI is not here: apt-get install openmpi-bin libopenmpi-dev")
    if not weft.exists():
        sys.exit(f"{weft} is not there: ./dev build release weft_coll")
    peers = [Weft(str(weft), scratch), *open_mpi(scratch)]
    if pathlib.Path("/usr/include/gloo/allreduce.h").exists():
        peers.append(Gloo(scratch))
    else:
        print("# Gloo is not here: apt-get install libgloo-dev")
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="where bin/weft_coll is")
    parser.add_argument("--ranks", default="2", help="numbers of ranks, separated by commas")
    parser.add_argument("--bind", default="none", help="none, core, or none,core")
    parser.add_argument("--wire", default="shm", help="shm, lo, or shm,lo")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default=",".join(str(size) for size, *_ in SIZES))
    options = parser.parse_args()
    sizes = {int(size) for size in options.sizes.split(",")}
    with tempfile.TemporaryDirectory() as scratch:
        peers = find_peers(options, scratch)
        for wire in options.wire.split(","):
            print(f"# all_reduce fp32, {wire}, {options.rounds} rounds, load "
                  f"{os.getloadavg()[0]:.1f}; p50 and CPU in us, bus GB/s")
            print(f"{'ranks':>5} {'bind':>5} {'bytes':>10} {'who':>9} {'p50':>12} {'spread':>7} "
                  f"{'CPU':>12} {'weft/it':>9} {'GB/s':>8}")
            for bind in options.bind.split(","):
                two = {}
                for ranks in map(int, options.ranks.split(",")):
                    middles = compare(peers, ranks, bind, wire, options.rounds, sizes)
                    two = middles if ranks == 2 else two
                    if ranks > 2:
                        print_growth(two, middles, ranks)


if __name__ == "__main__":
    main()
