#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The provider ibverbs on a device of the kernel: rdma_rxe, in a guest.

The conformance suite that was written for `roce`, the measuring programs and the examples, with
nothing changed but the device string; and the messages when a device cannot be used. Each
test boots a guest of its own (guest_job.py). ./dev guests builds the kernel (kernel.py); without
it the test is skipped, aloud.
"""
import os
import pathlib
import re
import unittest

import guest_job
import machine
import suite

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
DEVICE = "ibverbs:rxe0"
TAGGED = ("ops", "states", "cq", "errors", "memory", "window", "srq", "unreliable", "multicast",
          "progress", "api_cm", "threads", "processes", "big", "allocation", "dmabuf",
          "full_queues", "ibverbs_device", "regions", "port_query")


# What a script of a guest waits with until a server listens, and fails where none does: on a TCP
# port, or on one of RDMA CM.
WAITING = """
waiting_for() {
    for i in $(seq 300); do
        if [ $1 = tcp ]; then grep -qs ":$(printf %04X $2) .* 0A " /proc/net/tcp /proc/net/tcp6
        else rdma resource show cm_id | grep LISTEN | grep -q ":$2 "; fi && return
        sleep 0.1
    done
    echo "no listener on port $2 ($1)"
    exit 1
}"""
# These replace malloc and are programs of their own.
OWN_PROGRAMS = ("allocation_test",)


def cases(name, selection=""):
    """The command that runs the cases of tests/conformance/NAME.cpp, of them the selected ones."""
    if name in OWN_PROGRAMS:
        return f"{BIN}/{name} '{selection}'" if selection else f"{BIN}/{name}"
    return f"{BIN}/conformance_tests -# '{selection}[#{name}]'"


TCP, CM = "waiting_for tcp 18515", "waiting_for cm 18515"

# What the kernel holds for programs is what it held before, a while after they have ended.
NOTHING_LEFT = """
held=$(rdma resource)
nothing_left() {
    for i in $(seq 100); do
        [ "$(rdma resource)" = "$held" ] && return
        sleep 0.1
    done
    echo "the kernel held $held"
    echo "and now holds $(rdma resource)"
    return 1
}"""


class InGuest(unittest.TestCase):
    machine = machine.UML

    def ask(self, *lines, limit_s=120):
        """What the lines print, and the exit status of the last."""
        return guest_job.run(self.machine, "\n".join((WAITING, *lines)), limit_s)

    def succeed(self, *lines, limit_s=120):
        result = self.ask(*lines, limit_s=limit_s)
        self.assertEqual(result.status, 0, result.output)
        return result.output


class Conformance(InGuest):
    """Every case of the suite that is not about our own engine."""

    def run_program(self, name, selection=""):
        said = self.succeed(f"export WEFT_TEST_DEVICE={DEVICE} WEFT_TEST_INTERFACE=weft0",
                            NOTHING_LEFT, f"{cases(name, selection)} && nothing_left",
                            limit_s=300)
        count = re.search(r"in (\d+) test case", said)
        self.assertTrue(count, said)
        print(f"{name}: {count.group(1)} cases")

    def test_api_connect(self):
        self.run_program("api_connect_test")


for program in TAGGED:
    setattr(Conformance, "test_" + program,
            lambda self, name=program + "_test": self.run_program(name, "[ibverbs]"))


def peer_killed(test, device, address, *make):
    """kill -9 of a server that a client transfers with: the client ends with a message, and the
    kernel has released both."""
    weft = f"{BIN}/weft_rping {device}"
    server, client = f"{weft} server 7174 1000000", f"{weft} client {address}:7174 1000000 3000"
    said = test.succeed(*make, NOTHING_LEFT, f"{server} >/run/server 2>&1 &", "server=$!",
                        "waiting_for cm 7174", f"timeout 60 {client} >/run/client 2>&1 &",
                        "client=$!",
                        "until rdma resource show cm_id | grep -q CONNECT; do sleep 0.1; done",
                        "sleep 1", "kill -9 $server", "wait $client", "status=$?",
                        "cat /run/client", "echo status $status", "nothing_left")
    test.assertIn("status 1", said)
    test.assertRegex(said, "the (server|other side) has gone")
    print(said.strip())


class Iwarp(InGuest):
    """siw: what iWARP has of the suite; its queue pairs are connected by the connection manager."""
    DEVICE, ADDRESS = "ibverbs:siw0", "10.78.0.2"
    MAKE = ("rdma link del rxe0", "ulimit -l unlimited", "ulimit -n 8192",
            "ip link add weft1 type dummy", "ip link set weft1 mtu 4200 up",
            "ip addr add 10.78.0.2/24 dev weft1", "rdma link add siw0 type siw netdev weft1",
            "export WEFT_TEST_DEVICE=ibverbs:siw0")

    PARTS = dict.fromkeys(("api_cm", "ops", "srq", "progress", "cq", "dmabuf", "allocation"), "")
    # Three minutes: with --long.
    LONG_PARTS = ("states", "memory", "threads", "errors", "processes", "big", "full_queues")
    if os.environ.get("WEFT_TEST_LONG"):
        PARTS.update(dict.fromkeys(LONG_PARTS, ""))
    PARTS["ibverbs_device"] = "memory windows*"

    def test_suite(self):
        for program, which in self.PARTS.items():
            with self.subTest(program=program):
                command = cases(program + "_test", which + "[ibverbs]")
                said = self.succeed(*self.MAKE, NOTHING_LEFT, f"{command} && nothing_left",
                                    limit_s=200)
                self.assertIn("All tests passed", said)  # a selection of none is no failure
                print(f"siw, {program}_test: " + said.splitlines()[-2])

    def test_rping(self):
        weft = f"timeout 30 {BIN}/weft_rping {self.DEVICE}"
        said = self.succeed(*self.MAKE, f"{weft} server 7174 3 >/run/weft &",
                            "waiting_for cm 7174",
                            f"timeout 30 rping -c -a {self.ADDRESS} -p 7174 -V -C 3 || exit 1",
                            "wait; cat /run/weft",
                            f"timeout 30 rping -s -a {self.ADDRESS} -p 7175 -V -C 3 &",
                            "waiting_for cm 7175",
                            f"{weft} client {self.ADDRESS}:7175 3 64")
        self.assertIn("served 3", said)
        self.assertIn("verified 3", said)

    def test_measuring(self):
        program = f"timeout 60 {BIN}/weft_write_bw -d {self.DEVICE} -R -n 200"
        self.succeed(*self.MAKE, f"{program} >/run/server 2>&1 &", CM,
                     f"{program} {self.ADDRESS} && wait $! || {{ cat /run/server; false; }}")

    def test_peer_killed(self):
        peer_killed(self, self.DEVICE, self.ADDRESS, *self.MAKE)

    def test_without_the_connection_manager(self):
        program = f"timeout 20 {BIN}/weft_write_bw -d {self.DEVICE} -n 200"
        result = self.ask(*self.MAKE, program)
        self.assertNotEqual(result.status, 0)
        self.assertIn("is iWARP, whose queue pairs a connection manager connects", result.output)


class Trouble(InGuest):
    """What befalls the peer or the address while a program transfers."""

    def test_peer_killed(self):
        peer_killed(self, DEVICE, guest_job.ADDRESS)

    def test_old_libibverbs(self):
        """One that has nothing newer than what the provider must have."""
        device = f"{DEVICE},library={BIN}/libold_ibverbs.so"
        said = self.succeed(f"export WEFT_DEVICE={device} WEFT_TEST_DEVICE={device}",
                            *(f"timeout 60 {program} || exit 1" for program in
                              (f"{BIN}/hello_send", f"{BIN}/hello_write", f"{BIN}/rpc_pingpong",
                               *(cases(name, "[ibverbs]") for name in
                                 ("ops_test", "dmabuf_test", "unreliable_test",
                                  "window_test")))))
        self.assertEqual(said.count("All tests passed"), 4, said)


class Removal(InGuest):
    """The device goes while a program transfers: it or the interface below it."""
    MAKE = (f"export WEFT_TEST_DEVICE={DEVICE}",)
    RDMA, INTERFACE = "rxe0", "weft0"

    def remove(self, command):
        said = self.succeed(*self.MAKE, f"export WEFT_TEST_REMOVAL='{command}'",
                            f"timeout 60 {cases('ibverbs_device_test', '[.removal]')} || exit 1",
                            "for i in $(seq 100); do",
                            f"{BIN}/weft_info -d ibverbs 2>&1 | grep 'no RDMA device' && exit 0",
                            "sleep 0.1", "done", "rdma link", "exit 1")
        print(said.splitlines()[1])

    def test_device(self):
        self.remove(f"rdma link delete {self.RDMA}")

    def test_interface(self):
        self.remove(f"ip link delete {self.INTERFACE}")


class IwarpRemoval(Removal):
    MAKE = Iwarp.MAKE
    RDMA, INTERFACE = "siw0", "weft1"


class Programs(InGuest):
    """Measuring programs and examples, whose device string is all that changes."""

    def test_measuring(self):
        for operation in ("write_lat", "write_bw", "send_lat", "send_bw", "read_lat", "read_bw",
                          "atomic_lat", "atomic_bw"):
            with self.subTest(operation=operation):
                program = f"{BIN}/weft_{operation} -d {DEVICE} -n 200"
                said = self.succeed(f"timeout 60 {program} >/run/server 2>&1 &", TCP,
                                    f"timeout 60 {program} 127.0.0.1 && wait $! || "
                                    "{ cat /run/server; false; }")
                print(said)

    def test_measuring_by_cm(self):
        """-R: the two sides meet by librdmacm."""
        for operation in ("write_lat", "read_bw"):
            with self.subTest(operation=operation):
                program = f"{BIN}/weft_{operation} -d {DEVICE} -R -n 200"
                self.succeed(f"timeout 60 {program} >/run/server 2>&1 &", CM,
                             f"timeout 60 {program} {guest_job.ADDRESS} && wait $! || "
                             "{ cat /run/server; false; }")

    def test_options_of_the_device(self):
        for option, message in (("-x 200", "gid=200"), ("-i 2", "rxe0 has ports 1..1")):
            result = self.ask(f"timeout 20 {BIN}/weft_write_lat -d {DEVICE} {option}")
            self.assertNotEqual(result.status, 0)
            self.assertIn(message, result.output)

    def test_examples(self):
        for example in ("hello_send", "hello_write", "rpc_pingpong"):
            with self.subTest(example=example):
                self.succeed(f"export WEFT_DEVICE={DEVICE}", f"timeout 60 {BIN}/{example}")


class Messages(InGuest):
    """Messages and remedies when the device cannot be used."""

    def refusal(self, *before, device=DEVICE, program="weft_info", run="", arguments=None):
        """What the program says, which must fail. It runs from a place that any user may read."""
        arguments = f"-d {device}" if arguments is None else arguments
        libraries = BIN.parent / "lib"
        result = self.ask(f"cp {BIN}/{program} {libraries}/libweft.so.0 /run",
                          "mkdir -p /run/weft/modules", "chmod 755 /run /run/weft/modules",
                          f"cp {libraries}/weft/modules/provider_ibverbs.so /run/weft/modules",
                          *before, "export LD_LIBRARY_PATH=/run",
                          f"WEFT_DEVICE={device} timeout 20 {run} /run/{program} {arguments}")
        self.assertEqual(result.status, 1, result.output)
        return result.output

    UNPRIVILEGED = "setpriv --reuid=65534 --regid=65534 --clear-groups"

    def test_no_right_to_the_device_file(self):
        said = self.refusal("chmod 600 /dev/infiniband/uverbs0", run=self.UNPRIVILEGED)
        self.assertIn("no right to open /dev/infiniband/uverbs0 of rxe0", said)

    def test_device_file_missing(self):
        said = self.refusal("rm /dev/infiniband/uverbs0")
        self.assertIn("there is no /dev/infiniband/uverbs0 for a device", said)

    def test_no_memory_may_be_locked(self):
        said = self.refusal("chmod 666 /dev/infiniband/uverbs0", program="hello_write",
                            run=f"prlimit --memlock=0 {self.UNPRIVILEGED}", arguments="")
        self.assertIn("raise it with `ulimit -l unlimited`", said)

    def test_no_librdmacm(self):
        said = self.refusal(program="weft_write_lat",
                            arguments=f"-d {DEVICE},cm_library=/nowhere.so -R")
        self.assertIn("install it: apt-get install librdmacm1", said)

    def test_another_library_as_librdmacm(self):
        said = self.refusal(program="weft_write_lat",
                            arguments=f"-d {DEVICE},cm_library=libc.so.6 -R")
        self.assertIn("libc.so.6 has no rdma_", said)

    def test_no_connection_manager_in_the_kernel(self):
        said = self.refusal("rm /dev/infiniband/rdma_cm", program="weft_write_lat",
                            arguments=f"-d {DEVICE} -R")
        self.assertIn("modprobe rdma_ucm", said)

    def test_no_right_to_the_connection_manager(self):
        said = self.refusal("chmod 600 /dev/infiniband/rdma_cm",
                            "chmod 666 /dev/infiniband/uverbs0", program="weft_write_lat",
                            arguments=f"-d {DEVICE} -R",
                            run=f"prlimit --memlock=unlimited {self.UNPRIVILEGED}")
        self.assertIn("no right to open /dev/infiniband/rdma_cm", said)

    def test_less_memory_may_be_locked_than_is_registered(self):
        said = self.refusal("chmod 666 /dev/infiniband/uverbs0", program="weft_write_bw",
                            run=f"prlimit --memlock=1048576 {self.UNPRIVILEGED}",
                            arguments=f"-d {DEVICE} -s 8388608")
        self.assertIn("may lock 1024 KiB of memory: raise it with `ulimit -l unlimited`", said)

    def test_another_name(self):
        said = self.refusal(device="ibverbs:mlx5_0")
        self.assertIn('no RDMA device is called "mlx5_0"; this machine has rxe0', said)

    def test_srd_of_what_is_no_efa(self):
        self.assertIn("rxe0 is not an EFA, the only device with SRD",
                      self.refusal(device=f"{DEVICE},srd"))

    def test_no_libefa(self):
        said = self.refusal(device=f"{DEVICE},srd,efa_library=/nowhere.so")
        self.assertIn("install it: apt-get install ibverbs-providers", said)

    def test_several_and_no_name(self):
        said = self.refusal("ip link add weft1 type dummy", "ip link set weft1 up",
                            "rdma link add rxe1 type rxe netdev weft1", device="ibverbs")
        self.assertRegex(said, "name one, ibverbs:NAME; there are rxe[01], rxe[01]")

    def test_no_device(self):
        said = self.refusal("rdma link del rxe0")
        self.assertIn("this machine has no RDMA device", said)

    def test_port_down(self):
        said = self.refusal("ip link set weft0 down")
        self.assertIn("port 1 of rxe0 is down", said)

    def test_other_port(self):
        self.assertIn("rxe0 has ports 1..1", self.refusal(device=f"{DEVICE},port=2"))

    def test_other_gid(self):
        said = self.refusal(device=f"{DEVICE},gid=200")
        self.assertIn(f"1 = {guest_job.ADDRESS} (RoCE v2)", said)

    def test_listing(self):
        said = self.succeed(f"{BIN}/weft_info")
        self.assertRegex(said, r"ibverbs:rxe0 +usable")


def main():
    reason = machine.UML.why_not()
    if reason:
        suite.skip(reason)
        return
    suite.run()


if __name__ == "__main__":
    main()
