#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Minutes of traffic with faults over memif and over AF_XDP on veth pairs, watched from outside:
does it stop, does memory grow, do buffers get lost?

    sudo unshare --net python3 bench/peers/soak.py --minutes 30

Four pairs of processes: on each of the two ports one that streams 64 KiB WRITEs both ways over four
queue pairs, and one that bounces SENDs of 60,000 bytes and compares each of them. Frames are lost,
repeated, reordered, damaged and cut short, and every five seconds the wire is dead for 50 ms. Each
process is looked at through weft_stat every few seconds. Exit code 1: a process failed, one stood
still from a look to the next, or the last tenth of the looks shows more memory or descriptors than
the second tenth, or fewer free buffers.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# Both ends are ours, in namespaces whose network is, too.
os.environ.setdefault("WEFT_INSECURE", "1")
BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
FAULTS = {"loss": 0.002, "dup": 0.002, "reorder": 0.002, "reorder_us": 200, "corrupt": 0.001,
          "truncate": 0.001, "flap_up_us": 5_000_000, "flap_down_us": 50_000}
MOST_GROWTH_KB = 1024
MOST_BUFFERS = 128  # that happen to be on their way at every look
STREAM = ["weft_write_bw", "-s", "65536", "-b", "-q", "4", "-t", "16", "-N"]
BOUNCE = ["weft_send_lat", "-s", "60000", "--data_validation"]


class Process:
    """One of our programs, and what was seen of it."""

    def __init__(self, name, words, output):
        self.name = name
        # pylint: disable=consider-using-with
        self.popen = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        self.looks = []

    def look(self):
        """False: it cannot be asked."""
        stat = subprocess.run([BIN / "weft_stat", "-i", "0", "--json", str(self.popen.pid)],
                              capture_output=True, text=True, check=False)
        if stat.returncode != 0:
            return False
        counters = json.loads(stat.stdout)["devices"][0]["counters"]
        seen = {key.split("_", 2 if key.startswith("af_xdp_") else 1)[-1]: value
                for key, value in counters.items() if key.startswith(("dpdk_", "af_xdp_"))}
        folder = pathlib.Path("/proc") / str(self.popen.pid)
        status = (folder / "status").read_text("ascii").split("VmRSS:")[1].split()[0]
        self.looks.append({"frames": seen["tx_frames"], "free": seen["buffers_free"],
                           "rss": int(status), "files": len(list((folder / "fd").iterdir()))})
        return True

    def complaints(self):
        looks = self.looks
        if len(looks) < 10:
            return ["was seen too seldom"]
        tenth = len(looks) // 10
        early, late = looks[tenth:2 * tenth], looks[-tenth:]
        wrong = [f"stood still at look {i}" for i in range(1, len(looks))
                 if looks[i]["frames"] == looks[i - 1]["frames"]]
        growth = max(look["rss"] for look in late) - max(look["rss"] for look in early)
        if growth > MOST_GROWTH_KB:
            wrong.append(f"grew by {growth} kB")
        if max(look["files"] for look in late) > max(look["files"] for look in early):
            wrong.append("has more files open")
        gone = max(look["free"] for look in early) - max(look["free"] for look in late)
        if gone > MOST_BUFFERS:
            wrong.append(f"has {gone} free buffers less")
        return wrong

    def line(self):
        tenth = max(1, len(self.looks) // 10)
        early, late = self.looks[tenth:2 * tenth] or self.looks, self.looks[-tenth:]
        most = lambda part, key: max(look[key] for look in part)
        return (f"| {self.name} | {self.looks[-1]['frames'] / 1e6:.1f} M"
                f" | {most(early, 'rss')} .. {most(late, 'rss')} kB"
                f" | {most(early, 'files')} .. {most(late, 'files')}"
                f" | {most(early, 'free')} .. {most(late, 'free')} |")


def make_veth(near, far, subnet):
    for command in (f"link add {near} mtu 3400 type veth peer name {far} mtu 3400",
                    f"addr add {subnet}.1/24 dev {near}", f"addr add {subnet}.2/24 dev {far}",
                    f"link set {near} up", f"link set {far} up"):
        subprocess.run(["ip", *command.split()], check=True)


def start_pair(name, program, devices, seconds, scratch):
    """Two processes; the server first."""
    port = str(20000 + abs(hash((name, os.getpid()))) % 20000)
    faults = "".join(f",fault.{key}={value}" for key, value in FAULTS.items())
    pair = []
    for role, device, host in (("server", devices[0], []),
                               ("client", devices[1], ["--connect_wait", "30", "127.0.0.1"])):
        words = [str(BIN / program[0]), *program[1:], "-d", device + faults, "-p", port, "-u", "18",
                 "-e", "-D", str(seconds), *host]
        with open(f"{scratch}/{name}-{role}", "w", encoding="utf-8") as output:
            pair.append(Process(f"{name}, {role}", words, output))
        time.sleep(1)
    return pair


def report(processes, scratch, minutes):
    print(f"{minutes:g} minutes; second tenth of the looks and last tenth:\n"
          "| process | frames sent | memory | files | free buffers |\n| - | - | - | - | - |")
    failed = False
    for process in processes:
        wrong = process.complaints()
        if process.popen.returncode != 0:
            output = pathlib.Path(scratch, process.name.replace(", ", "-"))
            wrong.append(f"ended with {process.popen.returncode}: "
                         + output.read_text("utf-8").strip().split("\n")[-1])
        if process.looks:
            print(process.line())
        for complaint in wrong:
            print(f"FAILED: {process.name} {complaint}")
        failed = failed or bool(wrong)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=5, help="seconds between looks")
    options = parser.parse_args()
    os.nice(10)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    make_veth("w0", "w1", "10.98.0")
    make_veth("w2", "w3", "10.99.0")
    seconds = options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="weft-soak-") as scratch:
        memif = f"roce+dpdk:net_memif,dpdk.socket={scratch}/"
        processes = [
            *start_pair("memif stream", STREAM, [memif + "a"] * 2, seconds, scratch),
            *start_pair("memif bounce", BOUNCE, [memif + "b"] * 2, seconds, scratch),
            *start_pair("af_xdp stream", STREAM, ["roce+af_xdp:w0", "roce+af_xdp:w1"], seconds,
                        scratch),
            *start_pair("af_xdp bounce", BOUNCE, ["roce+af_xdp:w2", "roce+af_xdp:w3"], seconds,
                        scratch)]
        try:
            end = time.monotonic() + seconds - 15  # the first of them ends then
            while time.monotonic() < end and all(p.popen.poll() is None for p in processes):
                time.sleep(options.every)
                for process in processes:
                    process.look()
            limit = time.monotonic() + 90
            for process in processes:
                process.popen.wait(timeout=max(1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            print("FAILED: not all have come to their end")
        finally:
            for process in processes:
                if process.popen.poll() is None:
                    process.popen.send_signal(signal.SIGKILL)
                    process.popen.wait()
        return report(processes, scratch, options.minutes)


if __name__ == "__main__":
    sys.exit(main())
