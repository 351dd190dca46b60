# SPDX-License-Identifier: BSD-3-Clause
"""A peer that says what a test wants it to say: single RoCEv2 packets through an ordinary socket.

An unconnected IPv4 socket with IP_MTU_DISCOVER=DO sends identification 0 and DF, so the ICRC of
what leaves is known here. Packets are laid out and summed apart from lib/wire (tests/oracle).
"""
import pathlib
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import roce_oracle  # pylint: disable=wrong-import-position

PORT = roce_oracle.ROCE_PORT
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
QPN = 0x77
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
READ, READ_ONLY, ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = 0x0C, 0x10, 0x11, 0x12, 0x13, 0x14
UD_SEND, CNP = 0x64, 0x81
FECN, BECN = 0x80, 0x40
CE = 3  # what a congested switch writes into the IP header


def reth(address, rkey, length):
    return struct.pack(">QII", address, rkey, length)


def atomic(address, rkey, swap_add, compare=0):
    return struct.pack(">QIQQ", address, rkey, swap_add, compare)


def aeth(syndrome, msn):
    return struct.pack(">I", syndrome << 24 | msn)


class Packet:
    """A received packet, decoded as far as dialogues ask."""

    def __init__(self, data):
        self.opcode, flags, _, self.qpn, last = struct.unpack_from(">BBHII", data)
        self.psn, self.acknowledge = last & 0xFFFFFF, bool(last >> 31)
        self.payload = data[12:len(data) - 4 - (flags >> 4 & 3)]
        self.syndrome = self.msn = None
        if self.opcode in (0x0D, 0x0F, READ_ONLY, ACK, ATOMIC_ACK):
            self.syndrome, self.msn = self.payload[0], int.from_bytes(self.payload[1:4], "big")
            self.payload = self.payload[4:]


class RawPeer:
    """Its address is one more of this namespace's. `psn` is that of its next request."""

    def __init__(self, wire, address):
        self.wire, self.address = wire, address
        self.patience_s = 0.3  # how long "nothing" takes
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.socket.bind((address, PORT))
        self.end = self.memory = None
        self.remote = self.qpn = self.psn = 0

    def close(self):
        self.socket.close()

    def connect(self, end, access=15, **options):
        """A new queue pair of `end`, that takes this for its peer. Both count from PSN 1000."""
        self.end, self.memory = end, self.wire.open[end]
        self.remote = self.memory["gid"]
        self.qpn = int(end.qp(type="rc", access=access)["qpn"])
        self.psn = 1000
        end.connect(gid=self.address, qpn=QPN, psn=1000, peer_psn=1000, mtu=1024, **options)
        while self.receive(0):
            pass

    def target(self, length, offset=0):
        """The RETH of the end's memory."""
        return reth(int(self.memory["address"]) + offset, int(self.memory["rkey"]), length)

    # pylint: disable=too-many-arguments
    def send(self, opcode, body=b"", psn=None, pad=None, version=0, pkey=0xFFFF, qpn=None,
             break_icrc=False, congestion=0, ecn=0):
        """Asks for an acknowledgement. Without `psn` it is the next one. `congestion`: FECN and
        BECN, set behind the back of the ICRC."""
        if psn is None:
            psn = self.psn
            self.psn += 1
        pad = -len(body) % 4 if pad is None else pad
        packet = struct.pack(">BBHII", opcode, pad << 4 | version, pkey, qpn or self.qpn,
                             1 << 31 | psn & 0xFFFFFF) + body + bytes(-len(body) % 4)
        udp = struct.pack(">HHHH", PORT, PORT, len(packet) + 12, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, len(packet) + 32, 0, 0x4000, 64, 17, 0)
        ip += socket.inet_aton(self.address) + socket.inet_aton(self.remote)
        icrc = roce_oracle.icrc_of(ip + udp + packet)
        if break_icrc:
            icrc = bytes([icrc[0] ^ 1]) + icrc[1:]
        packet = packet[:4] + bytes([congestion]) + packet[5:]
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ecn)
        self.socket.sendto(packet + icrc, (self.remote, PORT))

    def receive(self, limit_s=None):
        """The next packet, or None."""
        self.socket.settimeout(self.patience_s if limit_s is None else limit_s or 1e-6)
        try:
            return Packet(self.socket.recv(9000))
        except (TimeoutError, BlockingIOError):
            return None

    def ask(self, *words, **options):
        """Sends, and returns the answer."""
        self.send(*words, **options)
        return self.receive()
