#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares weft with other transports and with the floors of this machine, in one run.

Each round runs every contender once, one after the other, server and client pinned to a core each;
the figures are medians over the rounds, the spread is (largest - smallest) / median. A gate is a
ratio to a peer or a floor of the same run, so that a busy or slow machine does not decide it.
Peers that are not installed are left out and named:
    apt-get install ucx-utils libfabric-bin qperf iperf3 (and libfabric-dev for its streams)
Exit code 1 if a gate that could be judged is below.
"""
import argparse
import atexit
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from contenders import (MIB, RAW_SHM, Runner, libfabric_stream, pingpong, qperf, raw_af_xdp,
                        raw_dpdk, raw_shm, raw_udp, ucx, weft_bandwidth, weft_latency, weft_rate)

# Both ends are ours, in namespaces whose network is, too.
os.environ.setdefault("WEFT_INSECURE", "1")
HERE = pathlib.Path(__file__).resolve().parent
RR_SLICE = pathlib.Path("/proc/sys/kernel/sched_rr_timeslice_ms")


def peers_of(wire, size, column):
    """Name -> contender for one figure."""
    latency, rate = column == "us", column == "M/s"
    found = {}
    kind = "tag_lat" if latency else "tag_bw"
    found[f"ucx {wire} tag"] = ucx(wire, kind, size, column)
    if latency:
        found[f"ucx {wire} put"] = ucx(wire, "ucp_put_lat", size, column)
    for provider in (("tcp;ofi_rxm", "udp;ofi_rxd") if wire == "tcp" else ("shm",)):
        if latency:
            found[f"libfabric {provider} ping-pong"] = pingpong(provider, size, column)
        else:
            found[f"libfabric {provider}"] = libfabric_stream(provider, size, column)
    if wire == "tcp" and not rate:
        found["qperf tcp"] = qperf("tcp_lat" if latency else "tcp_bw", size)
    return found


def line(name, column, ours, floors, peers, gates, goal=None):
    return {"name": name, "unit": column, "ours": ours, "floors": floors, "peers": peers,
            "gates": gates, "goal": goal}


def udp_lines():
    d = "roce+udp:lo"
    lines = [
        line("udp 8 B write latency", "us", weft_latency(d, 8), {"raw udp": raw_udp("lat", 8)},
             peers_of("tcp", 8, "us"), [("raw udp", "<=", 1.15)]),
        line("udp 8 B write latency, target only reads memory", "us",
             weft_latency(d, 8, "write", "--spin_memory"), {}, {}, []),
        line("udp 8 B write rate", "M/s", weft_rate(d), {"raw udp": raw_udp("rate", 40)},
             peers_of("tcp", 8, "M/s"), [("best peer", ">=", 5.0)], 4.0),
        line("udp 4 KiB write stream", "GB/s", weft_bandwidth(d, 4096),
             {"raw udp": raw_udp("bw", 4112)}, peers_of("tcp", 4096, "GB/s"),
             [("best peer", ">=", 2.67)], 4.0),
    ]
    for size, text in ((65536, "64 KiB"), (MIB, "1 MiB")):
        gates = [("raw udp", ">=", 0.9), ("best peer", ">=", 1.0),
                 ("libfabric udp;ofi_rxd", ">=", 10.0)]
        lines.append(line(f"udp {text} write stream", "GB/s", weft_bandwidth(d, size),
                          {"raw udp": raw_udp("bw", 4112)}, peers_of("tcp", size, "GB/s"), gates))
    lines.append(line("udp 64 KiB write stream, 64 MiB of buffers", "GB/s",
                      weft_bandwidth(d, 65536, "write", "--buffers", 1024), {}, {}, []))
    return lines


def shm_lines():
    d = f"roce+shm:peers{os.getpid()}"
    lines = [
        line("shm 8 B write latency", "us", weft_latency(d, 8),
             {"cache line": raw_shm("line_half_round_trip", 1e-3)}, peers_of("shm", 8, "us"),
             [("cache line", "<=", 1.15)]),
        line("shm 8 B write latency, target only reads memory", "us",
             weft_latency(d, 8, "write", "--spin_memory"), {}, {}, []),
        line("shm 8 B write rate", "M/s", weft_rate(d), {"slot ring": raw_shm("slot_64_rate")},
             peers_of("shm", 8, "M/s"), [("best peer", ">=", 1.5)], 40.0),
        line("shm 4 KiB write stream", "GB/s", weft_bandwidth(d, 4096),
             {"copy ring": raw_shm("copy_in_out_4k")}, peers_of("shm", 4096, "GB/s"),
             [("best peer", ">=", 1.67), ("copy ring", ">=", 0.625)], 18.0),
    ]
    for size, text, key in ((65536, "64 KiB", "pull_64k_readv"), (MIB, "1 MiB", "pull_1m_readv")):
        lines.append(line(f"shm {text} write stream", "GB/s", weft_bandwidth(d, size),
                          {"pull": raw_shm(key)}, peers_of("shm", size, "GB/s"),
                          [("best peer", ">=", 1.0)]))
    lines.append(line("shm 64 KiB write stream, 64 MiB of buffers", "GB/s",
                      weft_bandwidth(d, 65536, "write", "--buffers", 1024), {}, {}, []))
    return lines


def srd_lines():
    """SRD beside RC on the same port, and beside the peers; goal: ahead of all at every size."""
    lines = []
    for port, wire in (("udp:lo", "tcp"), (f"shm:srd{os.getpid()}", "shm")):
        srd, rc, name = f"srd+{port}", f"roce+{port}", port.split(":", maxsplit=1)[0]
        lines.append(line(f"srd+{name} 8 B write latency", "us", weft_latency(srd, 8),
                          {"roce": weft_latency(rc, 8)}, peers_of(wire, 8, "us"),
                          [("best peer", "<=", 1.0)]))
        lines.append(line(f"srd+{name} 8 B write rate", "M/s", weft_rate(srd),
                          {"roce": weft_rate(rc)}, peers_of(wire, 8, "M/s"),
                          [("best peer", ">=", 1.0)]))
        for size, text in ((4096, "4 KiB"), (65536, "64 KiB"), (MIB, "1 MiB")):
            lines.append(line(f"srd+{name} {text} write stream", "GB/s", weft_bandwidth(srd, size),
                              {"roce": weft_bandwidth(rc, size)}, peers_of(wire, size, "GB/s"),
                              [("best peer", ">=", 1.0)]))
    return lines


class Wires:
    """A network namespace of our own with two pairs of veths: w0 and w1 side by side for AF_XDP,
    u0 and, in a namespace of its own, u1 for the kernel's UDP. Needs root."""
    MTU = 3400

    def __init__(self):
        # pylint: disable=consider-using-with
        self.far = subprocess.Popen(["unshare", "--net", "sleep", "100000"])
        atexit.register(self.far.kill)
        time.sleep(0.2)
        self.within = ("nsenter", "--target", str(self.far.pid), "--net")
        self.run("ip link set lo up")
        for near, there in (("w0", "w1"), ("u0", "u1")):
            mtu = f"mtu {self.MTU}"
            self.run(f"ip link add {near} {mtu} type veth peer name {there} {mtu}")
        self.run(f"ip link set u1 netns {self.far.pid}")
        for name, address in (("w0", "10.98.0.1"), ("w1", "10.98.0.2"), ("u0", "10.97.0.1")):
            self.run(f"ip addr add {address}/24 dev {name}")
            self.run(f"ip link set {name} up")
        self.run("ip addr add 10.97.0.2/24 dev u1", self.within)
        self.run("ip link set u1 up", self.within)

    @staticmethod
    def run(command, within=()):
        subprocess.run([*within, *command.split()], check=True)


def af_xdp_lines():
    """Against raw AF_XDP with frames of the same length, and the other ports over a veth."""
    wires = Wires()
    xdp = ("roce+af_xdp:w0", "roce+af_xdp:w1", (), "127.0.0.1")
    others = {f"roce+{port} on veth":
              (f"roce+{port}:u0", f"roce+{port}:u1", wires.within, "10.97.0.2")
              for port in ("udp", "af_packet")}

    def beside(measure, *what):
        return {name: measure(wire, *what) for name, wire in others.items()}

    headers = 14 + 20 + 8 + 12 + 4  # Ethernet, IPv4, UDP, BTH, ICRC
    lines = [
        line("af_xdp 8 B write latency", "us", weft_latency(xdp, 8),
             {"raw af_xdp": raw_af_xdp(headers + 24, 8, "us"), **beside(weft_latency, 8)}, {}, []),
        line("af_xdp 8 B write rate", "M/s", weft_rate(xdp),
             {"raw af_xdp": raw_af_xdp(headers + 24, 8, "M/s"), **beside(weft_rate)}, {},
             [("raw af_xdp", ">=", 0.8)]),
    ]
    for size, text in ((4096, "4 KiB"), (65536, "64 KiB"), (MIB, "1 MiB")):
        lines.append(line(f"af_xdp {text} write stream", "GB/s", weft_bandwidth(xdp, size),
                          {"raw af_xdp": raw_af_xdp(headers + 2048, 2048, "GB/s"),
                           **beside(weft_bandwidth, size)}, {}, [("raw af_xdp", ">=", 0.8)]))
    return lines


def dpdk_lines():
    """Against the bare device: frames of the same length, written and read only at their heads."""
    lines = []
    headers = 14 + 40 + 8 + 12 + 4  # Ethernet, IPv6, UDP, BTH, ICRC
    for name, driver, key in (("memif", "net_memif", "socket"), ("vhost", "net_vhost", "iface")):
        place = f"/tmp/weft-peers-{os.getpid()}-{name}"
        ours = f"roce+dpdk:{driver},dpdk.{key}={place}"
        bare = f"{driver},dpdk.{key}={place}-raw"
        lines.append(line(f"{name} 8 B write latency", "us", weft_latency(ours, 8),
                          {"raw dpdk": raw_dpdk(bare, headers + 24, 8, "us")}, {},
                          [("raw dpdk", "<=", 1.4)]))
        lines.append(line(f"{name} 8 B write rate", "M/s", weft_rate(ours),
                          {"raw dpdk": raw_dpdk(bare, headers + 24, 8, "M/s")}, {}, [], 8.0))
        for size, text in ((4096, "4 KiB"), (65536, "64 KiB"), (MIB, "1 MiB")):
            lines.append(line(f"{name} {text} write stream", "GB/s", weft_bandwidth(ours, size),
                              {"raw dpdk": raw_dpdk(bare, headers + 4096, 4096, "GB/s")}, {},
                              [("raw dpdk", ">=", 0.8)]))
    return lines


def measure(lines, runner, rounds):
    samples = {}
    for number in range(rounds):
        RAW_SHM.clear()
        for entry in lines:
            contenders = {"weft": entry["ours"], **entry["floors"], **entry["peers"]}
            for name, run in contenders.items():
                key = (entry["name"], name)
                if number > 0 and not samples[key]:
                    continue  # it could not run the first time
                if sys.stderr.isatty():
                    text = f"round {number + 1}/{rounds}: {entry['name']}: {name}"
                    print("\r" + text[:78].ljust(78), end="", file=sys.stderr, flush=True)
                try:
                    value = run(runner)
                except (OSError, ValueError, KeyError, subprocess.SubprocessError):
                    value = None
                samples.setdefault(key, [])
                if value:
                    samples[key].append(value)
    return samples


def summary(values):
    if not values:
        return None
    middle = statistics.median(values)
    return {"median": middle, "spread": (max(values) - min(values)) / middle, "runs": len(values)}


def compare_with_gates(entry, figures):
    """The gates of a line, each with ratio and verdict."""
    ours = figures.get("weft")
    lower = entry["unit"] == "us"
    peers = {n: figures[n]["median"] for n in entry["peers"] if figures.get(n)}
    verdicts = []
    for against, sense, limit in entry["gates"]:
        name = against
        if against == "best peer":
            name = (min if lower else max)(peers, key=peers.get) if peers else None
        other = figures.get(name)
        verdict = {"against": name or against, "rule": f"{sense} {limit}", "result": "not measured"}
        if ours and other:
            ratio = ours["median"] / other["median"]
            good = ratio <= limit if sense == "<=" else ratio >= limit
            verdict.update(ratio=ratio, result="pass" if good else "BELOW")
        verdicts.append(verdict)
    return verdicts


def report(lines, samples):
    results = []
    for entry in lines:
        names = ["weft", *entry["floors"], *entry["peers"]]
        figures = {n: summary(samples.get((entry["name"], n), [])) for n in names}
        results.append({"line": entry["name"], "unit": entry["unit"], "goal": entry["goal"],
                        "figures": {n: f for n, f in figures.items() if f},
                        "missing": [n for n, f in figures.items() if not f],
                        "gates": compare_with_gates(entry, figures)})
    return results


def show(results):
    below = 0
    for r in results:
        goal = f"   (goal {r['goal']:g})" if r["goal"] else ""
        print(f"\n{r['line']}, {r['unit']}{goal}")
        ours = r["figures"].get("weft")
        for name, f in r["figures"].items():
            ratio = f"{ours['median'] / f['median']:8.2f}" if ours else "       -"
            print(f"    {name:<34}{f['median']:10.3f}   spread {f['spread'] * 100:4.0f} %"
                  f"   weft/it {ratio}")
        if r["missing"]:
            print(f"    not run: {', '.join(r['missing'])}")
        for gate in r["gates"]:
            ratio = f"{gate['ratio']:.2f}" if "ratio" in gate else "-"
            print(f"    GATE {gate['rule']} x {gate['against']}: {ratio}: {gate['result']}")
            below += gate["result"] == "BELOW"
    gates = [g for r in results for g in r["gates"]]
    judged = [g for g in gates if g["result"] != "not measured"]
    print(f"\n{len(judged) - below} of {len(judged)} gates pass, {below} below, "
          f"{len(gates) - len(judged)} not measured")
    return below


def build_libfabric_peer(runner):
    source = HERE / "peer_libfabric.cpp"
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not source.exists() or not compiler or not os.path.exists("/usr/include/rdma/fabric.h"):
        return
    subprocess.run([compiler, "-O2", "-std=c++20", str(source), "-lfabric", "-o",
                    os.path.join(runner.scratch.name, "peer_libfabric")], check=False)


def with_short_slices(action):
    """Two busy real-time threads of one peer block each other for a whole slice: make it short."""
    before = None
    try:
        before = RR_SLICE.read_text(encoding="ascii")
        RR_SLICE.write_text("4", encoding="ascii")
    except OSError:
        before = None
    try:
        return action()
    finally:
        if before is not None:
            RR_SLICE.write_text(before, encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default=str(HERE.parents[1] / "build/release/bin"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each of our figures")
    parser.add_argument("--only", choices=["udp", "shm", "srd", "af_xdp", "dpdk"],
                        help="af_xdp and dpdk run only if named, af_xdp as root, under "
                             "`unshare --net`")
    parser.add_argument("--match", default="", help="only lines whose name contains this")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    runner = Runner(options)
    if not (runner.bin / "weft_write_lat").exists():
        sys.exit(f"peers.py: no programs in {runner.bin}: run ./dev build, or give --bin")
    build_libfabric_peer(runner)
    groups = {"udp": udp_lines, "shm": shm_lines, "srd": srd_lines}
    lines = [entry for name, make in groups.items() if options.only in (None, name)
             for entry in make()]
    if options.only == "af_xdp":
        lines = af_xdp_lines()
    if options.only == "dpdk":
        lines = dpdk_lines()
    lines = [entry for entry in lines if options.match in entry["name"]]
    samples = with_short_slices(lambda: measure(lines, runner, options.rounds))
    if sys.stderr.isatty():
        print("\r" + " " * 79 + "\r", end="", file=sys.stderr)
    results = report(lines, samples)
    print(f"medians of {options.rounds} rounds, cores {runner.cores[1]} and {runner.cores[0]}, "
          f"{'SCHED_RR' if runner.realtime else 'normal scheduling'}, "
          f"{datetime.date.today().isoformat()}")
    below = show(results)
    if options.json:
        pathlib.Path(options.json).write_text(
            json.dumps({"date": datetime.date.today().isoformat(), "rounds": options.rounds,
                        "realtime": runner.realtime, "lines": results}, indent=2) + "\n",
            encoding="utf-8")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
