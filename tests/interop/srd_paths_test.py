#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""SRD over eight real links between two network namespaces: the kernel's equal-cost routes hash UDP
source ports over them. Links are cut one after the other while messages go to and fro. Each message
arrives, and messages go on over the other links while one is cut: packets are counted. Latencies
are printed only, since the clock is that of a shared machine. A cut link drops frames and says
nothing to the kernel: its neighbour gets an unused MAC address.

And over two links with an address each (rails), of which one after the other is taken down, the one
of the first addresses too.

    python3 tests/interop/srd_paths_test.py    # as root; WEFT_BUILD names the build directory
"""
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import af_packet_test
import exchanges
import guest

LINKS = 8
NEAR, FAR = "10.91.0.1", "10.91.0.2"
TALK = "10.94.0.2"
UNUSED_MAC = "02:00:00:00:00:99"
SECONDS = 8
PROBES = 32  # of the paths on a link while it is cut: 4 or so, tried again and again
# Packets on all other links for each time that a link is cut, at least: messages go on. A hundred
# times as many on a machine that does nothing else.
MESSAGES_GO_ON = 8


def exchange(ends, devices, talk, file, meanwhile):
    """Messages to and fro for SECONDS while `meanwhile` runs: what both saw and returned."""
    words = ("-D", str(SECONDS), "-s", "64")
    # Both poll: each on a CPU of its own, or they wait for each other.
    cpus = sorted(os.sched_getaffinity(0))
    near, far = (["taskset", "-c", str(cpu), str(exchanges.BIN / "weft_send_lat"), *words]
                 for cpu in (cpus[0], cpus[-1]))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen([*ends["far"], *far, "-d", devices[1]], **pipes)
    client = subprocess.Popen(
        [*near, "-d", devices[0], "--paths-report", "--out_json", f"--out_json_file={file}",
         "--connect_wait", "20", talk], **pipes)
    try:
        time.sleep(1)
        given = meanwhile()
        texts = [p.communicate(timeout=60) for p in (client, server)]
    finally:
        for process in (client, server):
            process.kill()
    if (client.returncode, server.returncode) != (0, 0):
        raise AssertionError(f"{client.returncode}, {server.returncode}: {texts}")
    return json.loads(file.read_text(encoding="utf-8")), given


def latencies(seen):
    return (f"half a round trip p50 {seen['t_typical']:.1f}, p99 {seen['percentile_99']:.1f}, "
            f"p99.9 {seen['percentile_99.9']:.1f}, max {seen['t_max']:.1f} us")


class Links(unittest.TestCase):
    def setUp(self):
        self.holder = af_packet_test.add_namespace(type(self))
        self.ends = {"near": (), "far": af_packet_test.far(self.holder)}
        for i in range(LINKS):
            af_packet_test.add_veth(type(self), self.holder, f"p{i}_",
                                    (f"10.90.{i}.1", f"10.90.{i}.2"))
        for end, address, other, last in (("near", NEAR, FAR, 2), ("far", FAR, NEAR, 1)):
            self.ip(end, "addr", "add", f"{address}/32", "dev", "lo")
            hops = [w for i in range(LINKS) for w in ("nexthop", "via", f"10.90.{i}.{last}")]
            self.ip(end, "route", "add", f"{other}/32", "src", address, *hops)
            guest.run(*self.ends[end], "sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1",
                      "net.ipv4.conf.all.rp_filter=0")

    def ip(self, end, *words):
        return guest.run(*self.ends[end], "ip", *words)

    def point(self, link, mac_of):
        """Frames on a link go to the MAC addresses that mac_of(end, device there) names."""
        for end, device, other, there, last in (
                ("near", f"p{link}_0", "far", f"p{link}_1", 2),
                ("far", f"p{link}_1", "near", f"p{link}_0", 1)):
            self.ip(end, "neigh", "replace", f"10.90.{link}.{last}", "lladdr",
                    mac_of(other, there), "dev", device, "nud", "permanent")

    def cut(self, link):
        self.point(link, lambda end, device: UNUSED_MAC)

    def heal(self, link):
        self.point(link, lambda end, device: json.loads(
            self.ip(end, "-j", "link", "show", "dev", device))[0]["address"])

    def sent(self):
        """Packets that left on each link so far, at the near end."""
        links = json.loads(self.ip("near", "-j", "-s", "link", "show"))
        packets = {link["ifname"]: link["stats64"]["tx"]["packets"] for link in links}
        return [packets[f"p{i}_0"] for i in range(LINKS)]

    def sent_meanwhile(self):
        """Packets sent on each link in 0.2 s."""
        before = self.sent()
        time.sleep(0.2)
        return [after - early for after, early in zip(self.sent(), before)]

    def cut_for_a_while(self, link):
        """Packets sent on the cut link once it is known to be cut, on the mean other one, and on
        that one before the cut."""
        whole = self.sent_meanwhile()
        self.cut(link)
        time.sleep(0.1)
        sent = self.sent_meanwhile()
        self.heal(link)
        time.sleep(0.1)
        return (sent[link], (sum(sent) - sent[link]) / (LINKS - 1),
                (sum(whole) - whole[link]) / (LINKS - 1))

    def test_links_are_cut_during_transfer(self):
        with tempfile.TemporaryDirectory() as folder:
            device = "srd+udp:{},udp.ports=64,paths=32"
            # The first link carries the programs' talk.
            out, cuts = exchange(
                self.ends, (device.format(NEAR), device.format(FAR)), "10.90.0.2",
                pathlib.Path(folder) / "out.json",
                lambda: [self.cut_for_a_while(link) for link in range(1, LINKS)])
        seen = out["results"][0]
        lost = sum(path["lost"] for path in out["paths"])
        on_cut, on_others, without_cut = (sum(column) for column in zip(*cuts))
        print(f"{seen['n_iterations']} messages, {len(cuts)} cuts, {lost} packets lost: "
              f"{latencies(seen)}; {on_cut} packets on links while they were cut, {on_others:.0f} "
              f"on each other one, {without_cut:.0f} before the cuts", flush=True)
        self.assertGreater(lost, 0)
        went_on = sum(others * (LINKS - 1) >= MESSAGES_GO_ON for _, others, _ in cuts)
        self.assertGreaterEqual(went_on, len(cuts) - 2, cuts)
        self.assertLess(on_cut, on_others / 8 + PROBES * len(cuts))
        self.assertGreater(len(out["paths"]), LINKS)


class Rails(unittest.TestCase):
    """Two links, and a third for the programs' talk."""
    @classmethod
    def setUpClass(cls):
        holder = af_packet_test.add_namespace(cls)
        cls.ends = {"near": (), "far": af_packet_test.far(holder)}
        for name, net in (("r", "10.92.0"), ("s", "10.93.0"), ("t", "10.94.0")):
            af_packet_test.add_veth(cls, holder, name, (f"{net}.1", f"{net}.2"))
        for end in cls.ends.values():
            guest.run(*end, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")

    @staticmethod
    def sent_meanwhile(*names):
        """Packets sent on these interfaces in 0.2 s."""
        def sent():
            links = json.loads(guest.run("ip", "-j", "-s", "link", "show"))
            return sum(link["stats64"]["tx"]["packets"] for link in links
                       if link["ifname"] in names)
        before = sent()
        time.sleep(0.2)
        return sent() - before

    def down_for_a_while(self, name, other):
        """Packets on the other interface while this one is down, and on both before."""
        whole = self.sent_meanwhile(name, other)
        guest.run("ip", "link", "set", name, "down")
        time.sleep(0.1)
        alone = self.sent_meanwhile(other)
        guest.run("ip", "link", "set", name, "up")
        time.sleep(0.5)
        return alone, whole

    def take_down_in_turns(self):
        return [self.down_for_a_while(*names) for names in (("s0", "r0"), ("r0", "s0")) * 2]

    def run_over(self, port, near, far):
        device = "srd+%s:{},rails={},paths=8,path_counters=1" % port
        with tempfile.TemporaryDirectory() as folder:
            out, downs = exchange(self.ends, (device.format(*near), device.format(*far)), TALK,
                                  pathlib.Path(folder) / "out.json", self.take_down_in_turns)
        seen = out["results"][0]
        sent = collections.Counter()
        for path in out["paths"]:
            sent[path["source"], path["destination"]] += path["sent"]
        lost = sum(path["lost"] for path in out["paths"])
        alone, whole = (sum(column) for column in zip(*downs))
        print(f"{port}, {seen['n_iterations']} messages over two rails, each down twice, {lost} "
              f"packets lost: {latencies(seen)}; sent {dict(sent)}; {alone} while "
              f"one was down, {whole} before", flush=True)
        self.assertGreater(lost, 0)
        self.assertGreater(alone, MESSAGES_GO_ON * len(downs) / 4)  # few have all of their paths
        # Each address of one side with the same one of the other carried its part.
        for net in ("10.92.0", "10.93.0"):
            self.assertGreater(sent[f"{net}.1", f"{net}.2"], seen["n_iterations"] / 16)

    def test_interfaces_go_down_during_transfer(self):
        self.run_over("udp", ("10.92.0.1", "10.93.0.1"), ("10.92.0.2", "10.93.0.2"))

    def test_interfaces_of_raw_frames_go_down_during_transfer(self):
        self.run_over("af_packet", ("r0", "s0"), ("r1", "s1"))


if __name__ == "__main__":
    guest.run_tests()
