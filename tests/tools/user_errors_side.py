#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in programs of weft's API, for user_errors_test.py: a server and a client, each of which
prints the error that it sees, and its log.

    user_errors_side.py MISTAKE             the server
    user_errors_side.py MISTAKE 127.0.0.1   the client
"""
import os
import socket
import struct
import sys
import time

os.environ["WEFT_LOG"] = "info"
import weft  # noqa: E402

WORD = struct.Struct("=QI")  # an address and a key
PORT = 18515
SECONDS = 20  # until something hangs


class Side:
    def __init__(self):
        self.device = weft.Device("roce+udp:lo")
        self.cq = self.device.completion_queue()
        self.pd = self.device.protection_domain()
        self.region = self.pd.register(bytearray(4096))
        self.qp = self.pd.queue_pair(self.cq)


def serve(mistake):
    side = Side()
    ended = socket.create_server(("127.0.0.1", PORT + 1))
    target = side.region
    if mistake == "read_only":
        target = side.pd.register(bytearray(4096), weft.Access.LOCAL_WRITE)
    private = WORD.pack(target.address, target.rkey)
    if mistake == "dead_key":
        target.close()
    with weft.Listener(f"127.0.0.1:{PORT}") as listener:
        listener.accept(side.qp, private_data=private)
    if mistake == "small_receive":
        side.qp.post_recv(side.region[:8])
    if mistake == "no_receive":  # which the client alone can see
        print("the server posts no receive", file=sys.stderr)
        ended.accept()
        sys.exit(1)
    while True:
        for completion in side.cq.poll():
            completion.check()
        event = side.device.next_event()
        if event is not None and event.type.name.startswith("QP_"):
            time.sleep(0.5)  # a thread of weft writes its line behind the event
            sys.exit(1)
        time.sleep(0.01)


def ask(mistake, host):
    side = Side()
    peer = weft.connect(f"{host}:{PORT}", side.qp, rnr_retry=2 if mistake == "no_receive" else 7)
    address, rkey = WORD.unpack(peer.private_data)
    if mistake in ("no_receive", "small_receive"):
        side.qp.post_send(side.region[:64])
    else:
        side.qp.post_write(side.region[:64], address, rkey)
    try:
        for completion in side.cq.wait(timeout=SECONDS):
            completion.check()
    finally:
        if mistake == "no_receive":
            socket.create_connection((host, PORT + 1)).close()


if __name__ == "__main__":
    try:
        serve(sys.argv[1]) if len(sys.argv) == 2 else ask(*sys.argv[1:])
    except weft.Error as error:
        sys.exit(str(error))
