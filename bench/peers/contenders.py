#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What bench/peers/peers.py compares: our programs, the floors, other people's programs.

A contender is a function of a Runner that returns one figure, or None if it could not run.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

MIB = 1 << 20
ITERATIONS = {8: 300000, 4096: 100000, 65536: 10000, MIB: 1500}


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


class Runner:
    """Runs pairs of processes, pinned and under real-time scheduling where that is allowed."""

    def __init__(self, options):
        self.bin = pathlib.Path(options.bin).resolve()
        self.seconds = options.seconds
        cores = sorted(os.sched_getaffinity(0))
        self.cores = (cores[0], cores[min(1, len(cores) - 1)])
        self.realtime = options.realtime and self.may_realtime()
        self.scratch = tempfile.TemporaryDirectory(prefix="weft_")

    @staticmethod
    def may_realtime():
        done = subprocess.run(["chrt", "-r", "10", "true"], capture_output=True, check=False)
        return done.returncode == 0

    def command(self, words, core):
        prefix = ["taskset", "-c", str(core)] if core is not None else []
        if self.realtime:
            prefix = ["chrt", "-r", "10"] + prefix
        return prefix + [str(w) for w in words]

    def one(self, words, core=None, env=None, limit=40):
        done = subprocess.run(self.command(words, core), capture_output=True, text=True,
                              timeout=limit, env={**os.environ, **(env or {})}, check=False)
        return done.stdout

    def pair(self, server, client, env=None, settle=0.3, limit=40):
        """Starts the server, then the client; the client's output, or '' if it failed."""
        env = {**os.environ, **(env or {})}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(self.command(server, self.cores[1]), env=env, **quiet) as far:
            try:
                time.sleep(settle)
                done = subprocess.run(self.command(client, self.cores[0]), env=env, text=True,
                                      capture_output=True, timeout=limit, check=False)
                return done.stdout if done.returncode == 0 else ""
            except subprocess.TimeoutExpired:
                return ""
            finally:
                self.end(far)

    @staticmethod
    def end(process):
        """Some servers end with their client, some never."""
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.kill()

    def weft(self, program, device, *words):
        """`device`: of both sides, or (the client's, the server's, how the server is started, its
        address)."""
        near, far, within, host = ((device, device, (), "127.0.0.1") if isinstance(device, str)
                                   else device)
        port = free_port()
        file = os.path.join(self.scratch.name, "client.json")
        pathlib.Path(file).unlink(missing_ok=True)
        common = ["-p", port, "-D", self.seconds, *words]
        settle = 1.0 if "dpdk" in far else 0.1  # the EAL starts slowly
        self.pair([*within, self.bin / program, "-d", far, *common],
                  [self.bin / program, "-d", near, *common, "--connect_wait", 5, "--out_json",
                   f"--out_json_file={file}", host], settle=settle)
        try:
            return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))["results"][0]
        except (OSError, ValueError, IndexError, KeyError):
            return None


def weft_latency(device, size, operation="write", *words):
    def run(r):
        found = r.weft(f"weft_{operation}_lat", device, "-s", size, *words)
        return found and found["t_typical"]
    return run


def flow(device):
    """What keeps the wire busy; on srd no request is without its completion."""
    srd = (device if isinstance(device, str) else device[0]).startswith("srd")
    return ("-t", 256, "-l", 16, "-N") + (() if srd else ("-Q", 64))


def weft_bandwidth(device, size, operation="write", *words):
    def run(r):
        found = r.weft(f"weft_{operation}_bw", device, "-s", size, *flow(device), *words)
        return found and found["BW_average"] * MIB / 1e9
    return run


def weft_rate(device, operation="write", *words):
    def run(r):
        found = r.weft(f"weft_{operation}_bw", device, "-s", 8, *flow(device), *words)
        return found and found["MsgRate"]
    return run


def raw_udp(mode, size):
    def run(r):
        text = r.one([r.bin / "raw_udp", "--mode", mode, "--size", size, "--cores",
                      f"{r.cores[0]},{r.cores[1]}", "--seconds", r.seconds, "--json"])
        return json.loads(text)["value"] if text else None
    return run


def raw_af_xdp(size, payload, column):
    """Frames of `size` bytes, of which `payload` count; --only af_xdp makes the wire."""
    def run(r):
        mode = "lat" if column == "us" else "bw"
        text = r.one([r.bin / "raw_af_xdp", "--size", size, "--mode", mode, "--seconds",
                      r.seconds])
        return text and frames_figure(text, payload, column)
    return run


def raw_dpdk(device, size, payload, column):
    """As raw_af_xdp, over the DPDK device of both processes."""
    def run(r):
        mode = "lat" if column == "us" else "bw"
        text = r.one([r.bin / "raw_dpdk", "--device", device, "--size", size, "--mode", mode,
                      "--seconds", r.seconds])
        return text and frames_figure(text, payload, column)
    return run


def frames_figure(text, payload, column):
    first = float(text.split()[0])
    return {"us": first, "M/s": first / 1e6, "GB/s": first * payload / 1e9}[column]


RAW_SHM = {}  # one run of raw_shm gives all floors of a round


def raw_shm(key, scale=1.0):
    def run(r):
        if not RAW_SHM:
            text = r.one([r.bin / "raw_shm", "--json"])
            RAW_SHM.update(json.loads(text) if text else {})
        return RAW_SHM[key]["value"] * scale if key in RAW_SHM else None
    return run


UCX_ENV = {"tcp": {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"},
           "shm": {"UCX_TLS": "posix,sysv,cma"}}


def ucx(wire, test, size, column):
    def run(r):
        port = free_port()
        count = ITERATIONS[size] // (3 if wire == "tcp" else 1)
        words = ["ucx_perftest", "-t", test, "-s", size, "-n", count, "-w", 1000, "-p", port, "-f"]
        text = r.pair(words, [*words[:1], "127.0.0.1", *words[1:]], env=UCX_ENV[wire])
        final = re.findall(r"^(?:Final:)?((?:\s+[\d.]+){8})\s*$", text, re.MULTILINE)
        if not final:
            return None
        values = [float(x) for x in final[-1].split()]
        # count, percentile, average, overall us; average, overall MB/s; average, overall msg/s
        return {"us": values[1], "GB/s": values[5] * MIB / 1e9, "M/s": values[7] / 1e6}[column]
    return run


def pingpong(provider, size, column):
    """fi_pingpong of libfabric-bin: one message back and forth."""
    def run(r):
        port = free_port()
        count = max(200, ITERATIONS[size] // 20)
        words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-m", "tagged", "-S", size, "-I",
                 count, "-B", port]
        client = [*words[:-2], "-P", port, "127.0.0.1"]
        text = r.pair(words, client)
        rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
        if not rows:
            return None
        return float(rows[-1][-2]) if column == "us" else float(rows[-1][-3]) * 1e6 / 1e9
    return run


def libfabric_stream(provider, size, column):
    """bench/peers/peer_libfabric.cpp, built by main() where libfabric-dev is installed."""
    def run(r):
        program = os.path.join(r.scratch.name, "peer_libfabric")
        if not os.path.exists(program):
            return None
        port = free_port()
        words = [program, provider, size, r.seconds, port]
        text = r.pair(words, [*words, "127.0.0.1"])
        match = re.search(r"([\d.]+) GB/s ([\d.]+) M/s", text)
        return float(match.group(1 if column == "GB/s" else 2)) if match else None
    return run


QPERF_UNIT = {"ns": 1e-3, "us": 1, "ms": 1e3, "KB/sec": 1e-6, "MB/sec": 1e-3, "GB/sec": 1}


def qperf(test, size):
    def run(r):
        port = free_port()
        text = r.pair(["qperf", "-lp", port],
                      ["qperf", "127.0.0.1", "-lp", port, "-t", 1, "-m", size, test])
        match = re.search(r"(?:latency|bw)\s*=\s*([\d.]+) (\S+)", text)
        return float(match.group(1)) * QPERF_UNIT[match.group(2)] if match else None
    return run
