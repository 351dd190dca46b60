#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weft beside the kernel's rdma_rxe, in the same guest, in turn: ratios for the results page.

Latency of 8 byte WRITEs and bandwidth of 64 KiB WRITEs by perftest over rxe, by our programs over
rxe (`ibverbs`), and by our programs over our own RoCE on `udp` and `af_packet`; connections by
cmtime and weft_cmtime. Settings:

  one    one guest of Debian's kernel under QEMU, two processors; rxe talks to itself by a short cut
         in the kernel, ours to itself over the loopback interface
  wire   two guests on a bridge of this machine: `wire --kind uml` of the kernel that we build, at
         this machine's speed with one processor each, `wire --kind stock` under QEMU
  trouble  goodput of 64,000 byte WRITEs between rxe in a guest and ours here, when netem in the
         guest makes packets of both directions late or loses them, to that without

  python3 bench/peers/rxe_peers.py wire --rounds 3      as root or where users may make namespaces
"""
import argparse
import contextlib
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

# Both ends are ours, in namespaces whose network is, too.
os.environ.setdefault("WEFT_INSECURE", "1")
INTEROP = pathlib.Path(__file__).resolve().parents[2] / "tests/interop"
sys.path.insert(0, str(INTEROP))
import exchanges  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position

KINDS = {"uml": machine.UML, "stock": machine.STOCK}
BRIDGE = "weft-bridge"
MTU = 4200
TROUBLE = {"none": None, "1 % of packets 200 us late": "delay 200us reorder 99%",
           "1 % of packets lost": "loss 1%",
           "a quarter of packets 4 ms late": "delay 4ms reorder 75% 25% gap 3"}
HEADLINES = {"latency": "8 B WRITE latency, half a round trip, median, us",
             "bandwidth": "64 KiB WRITE bandwidth, MiB/s",
             "connect": "connections made, per second"}


@contextlib.contextmanager
def preferred(cores):
    """What is started meanwhile runs on these cores and before other work, if that is allowed. Not
    at real-time priority: the parts of a UML guest, of equal rank, would wait for each other."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        print("not at a higher priority: other work on this machine counts")
    yield
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    os.sched_setaffinity(0, before)


class End:
    """A guest that runs commands. Ours run in a network namespace of their own, with an interface
    on the same bridge: the kernel's rxe holds its UDP port on every address of the first one."""

    def __init__(self, kind, number, scratch, cores):
        self.kind = kind
        self.address = f"10.77.0.{number}"
        self.own_address = f"10.78.0.{number}"
        taps = [f"t{number}", f"w{number}"]
        for tap in taps:
            guest.run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
            guest.run("ip", "link", "set", tap, "mtu", str(MTU), "master", BRIDGE, "up")
        folder = scratch / str(number)
        folder.mkdir()
        with preferred(cores):
            self.process = guest.start_puppet(kind, folder, exchanges.BIN / "verbs_puppet", taps,
                                              MTU, number)
        self.puppet = exchanges.Puppet(f"guest {number}", self.address, guest.GUEST_PORT)
        self.shell("mkdir -p /run/netns; ip netns add own; ip -n own link set lo up; "
                   "ip link set ${weft_wire%0}1 netns own name own0; "
                   f"ip -n own link set own0 address 02:00:00:00:01:0{number} mtu {MTU} up; "
                   f"ip -n own addr add {self.own_address}/24 dev own0")

    def settle(self):
        """Until a server that was started is ready."""
        time.sleep(0.6 * self.kind.slowness)

    def shell(self, command):
        return self.puppet.shell(command=command)


def boot(kind, setting, scratch):
    """The ends of the wire, which are the same where one guest talks to itself."""
    guest.run("ip", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    guest.run("ip", "link", "set", BRIDGE, "mtu", str(MTU), "up")
    guest.run("ip", "addr", "add", f"{guest.HOST}/24", "dev", BRIDGE)
    cores = sorted(os.sched_getaffinity(0))
    if setting == "one":
        near = far = End(kind, 2, scratch, cores)
    else:
        near, far = End(kind, 2, scratch, cores[:1]), End(kind, 5, scratch, cores[1:2])
    # perftest divides by what this file says.
    mhz = re.search(r"cpu MHz\s*: (\S+)", pathlib.Path("/proc/cpuinfo").read_text("ascii"))[1]
    for end in {near, far}:
        end.shell("grep -q MHz /proc/cpuinfo || { printf 'processor\\t: 0\\ncpu MHz\\t\\t: "
                  f"{mhz}\\n\\n' >/run/cpuinfo; mount --bind /run/cpuinfo /proc/cpuinfo; }}")
    return near, far


def contenders(setting):
    """{name: (what a program's name begins with, options)}."""
    ours, own = f"{exchanges.BIN}/weft_", f"ip netns exec own {exchanges.BIN}/weft_"
    found = {"rxe, perftest": ("ib_", "-d rxe0 -x 1 -m 4096 -F"),
             "rxe, weft (ibverbs)": (ours, "-d ibverbs:rxe0 -m 4096")}
    if setting == "one":
        found["weft, udp"] = (own, "-d roce+udp:lo,single_thread=1 -m 4096")
    else:
        found["weft, udp"] = (own, "-d roce+udp:own0,single_thread=1 -m 4096")
        found["weft, af_packet"] = (own, "-d roce+af_packet:own0,single_thread=1 -m 4096")
    return found


def measure(near, far, server, client, address):
    """What the client says, whose last word is the server's address. In one guest each has a
    processor."""
    one, other = ("taskset -c 0", "taskset -c 1") if near is far else ("", "")
    far.shell(f"{other} timeout 40 {server} >/run/server 2>&1 &")
    far.settle()
    return near.shell(f"{one} timeout 40 {client} {address} 2>&1")


def figure(what, said):
    """The number in a program's last line of figures, or None; perftest may say 0."""
    rows = re.findall(r"(?<=\s)(?:8|65536)((?:\s+[\d.]+(?=\s|$)){3,})", said)
    if not rows:
        return None
    numbers = [float(number) for number in rows[-1].split()]
    value = numbers[3] if what == "latency" else numbers[2]
    return value


def transfer(near, far, messages, what, prefix, words):
    program = f"write_lat {words} -s 8" if what == "latency" else f"write_bw {words} -s 65536 -t 16"
    program = f"{prefix}{program} -n {messages}"
    address = "127.0.0.1"
    if near is not far:
        address = far.own_address if prefix.startswith("ip netns") else far.address
    for _ in range(3):  # on a busy machine perftest's clock fails now and then
        if value := figure(what, measure(near, far, program, program, address)):
            return value
    return None


def connections_of_rxe(near, far):
    """How many per second, a hundred at once."""
    said = measure(near, far, "cmtime", "cmtime -c 100 -s", far.address)
    far.shell("pkill cmtime")
    found = re.search(r"connect\s+:.*?([\d.]+)\s+disconnect", said)
    return 1e6 / float(found[1]) if found else None


def our_connections(near, far):
    address, client = ("127.9.0.1", "lo") if near is far else (far.own_address, "own0")
    program = f"ip netns exec own {exchanges.BIN}/weft_cmtime -c 100 -d roce+udp:"
    said = measure(near, far, program + address, program + client, address)
    found = re.search(r"connect\s+[\d.]+\s+[\d.]+\s+([\d.]+)", said)
    return float(found[1]) if found else None


def system_call_us(end):
    """What one costs in the guest, where each may be two changes of process (UML) or emulated."""
    said = end.shell("dd if=/dev/zero of=/dev/null bs=1 count=20000 2>&1")
    return float(re.search(r"([\d.]+) s,", said)[1]) * 1e6 / 40000


def table(figures):
    for what, headline in HEADLINES.items():
        rows = {name: values for (kind, name), values in figures.items() if kind == what}
        print(f"\n| {headline} | median | of (runs) | to rxe, perftest |")
        print("| --- | --- | --- | --- |")
        base = None
        for name, values in rows.items():
            good = sorted(value for value in values if value)
            middle = statistics.median(good) if good else None
            base = base or middle
            ratio = f"{middle / base:.2f}x" if middle and base else "-"
            runs = " ".join(f"{value:.4g}" for value in good) or "none came to an end"
            print(f"| {name} | {f'{middle:.4g}' if middle else '-'} | {runs} | {ratio} |")


def run(options, scratch):
    near, far = boot(KINDS[options.kind], options.setting, scratch)
    figures = {}
    for _ in range(options.rounds):
        for what in ("latency", "bandwidth"):
            for name, (prefix, words) in contenders(options.setting).items():
                figures.setdefault((what, name), []).append(
                    transfer(near, far, options.messages, what, prefix, words))
        for name, function in (("rxe, cmtime", connections_of_rxe), ("weft, udp", our_connections)):
            figures.setdefault(("connect", name), []).append(function(near, far))
    print(f"a system call in the guest takes {system_call_us(near):.1f} us")
    for end in {near, far}:
        guest.stop(end.process)
    table(figures)


def goodput(wire, source, target, netem, seconds=1.5):
    """MB/s; 0 if the queue pair gave up. `netem` is in the guest."""
    begin, end = guest.impairment(netem) if netem else ([], [])
    rxe = next(side for side in wire.open if side.name == "rxe")
    rxe.shell(command="; ".join(begin) or "true")
    wire.connect()
    memory = wire.open[target]
    count, size, done = 120, 64000, 0
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        answer = source.run(op="write", count=count, size=size, rkey=memory["rkey"],
                            address=memory["address"])
        if answer["status"] != "success":
            done = 0
            break
        done += count * size
    taken = time.monotonic() - start
    rxe.shell(command="; ".join(end) or "true")
    return done / taken / 1e6


def trouble(options):
    """rxe and ours, either requesting."""
    with contextlib.ExitStack() as stack:
        stack.addClassCleanup = stack.callback  # what start_weft() leaves its process to
        with preferred(os.sched_getaffinity(0)):
            there = guest.Guest(KINDS[options.kind], exchanges.BIN / "verbs_puppet")
            stack.callback(there.close)
            ours = exchanges.start_weft(stack, "weft")
        rxe = exchanges.Puppet("rxe", guest.GUEST, guest.GUEST_PORT)
        wire = exchanges.Wire({ours: f"roce+udp:{guest.HOST}", rxe: "rxe0"})
        figures = {}
        for _ in range(options.rounds):
            for source, target in wire.directions():
                for name, netem in TROUBLE.items():
                    figures.setdefault((source.name, name), []).append(
                        goodput(wire, source, target, netem))
    print("| requesting | trouble | MB/s, median | of (runs) | to undisturbed |")
    print("| --- | --- | --- | --- | --- |")
    for (source, name), values in figures.items():
        middle, base = (statistics.median(figures[source, n]) for n in (name, "none"))
        runs = " ".join(f"{value:.4g}" for value in sorted(values))
        print(f"| {source} | {name} | {middle:.4g} | {runs} | {middle / base:.2f}x |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=("one", "wire", "trouble"))
    parser.add_argument("--kind", choices=KINDS, help="of guest; one: stock, else uml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=1000)
    options = parser.parse_args()
    options.kind = options.kind or ("stock" if options.setting == "one" else "uml")
    reason = KINDS[options.kind].why_not()
    if reason:
        sys.exit(reason)
    guest.enter_namespaces()
    load = os.getloadavg()[0]
    if options.setting == "trouble":
        trouble(options)
    else:
        with tempfile.TemporaryDirectory() as name:
            run(options, pathlib.Path(name))
    print(f"\nload {load:.1f} before, {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
