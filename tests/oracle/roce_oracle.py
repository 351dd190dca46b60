#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A second opinion on RoCEv2 frames that shares no code with lib/wire.

  roce_oracle.py check FILE.pcap [--cross-check-scapy] [--min N]
      decodes every RoCEv2 frame of a capture, recomputes its ICRC with a table of its own, prints
      counts, and exits 1 if a frame is malformed or an ICRC is wrong. --cross-check-scapy compares
      with scapy too (IPv4 only, all that scapy can); exits 77 if this python has no scapy.
      --min: fewer RoCEv2 frames than this are an error as well.
  roce_oracle.py vectors
      prints golden frames: what tests/oracle/golden.txt holds and tests/wire/wire_golden_test.cpp
      compares with ours.
"""

import argparse
import collections
import struct
import sys

ROCE_PORT = 4791

# IBTA table 38, written down once more: opcode -> (name, extended headers, may carry payload).
SEND_WRITE = [
    ("SEND First", "", True), ("SEND Middle", "", True), ("SEND Last", "", True),
    ("SEND Last with Immediate", "imm", True), ("SEND Only", "", True),
    ("SEND Only with Immediate", "imm", True), ("RDMA WRITE First", "reth", True),
    ("RDMA WRITE Middle", "", True), ("RDMA WRITE Last", "", True),
    ("RDMA WRITE Last with Immediate", "imm", True), ("RDMA WRITE Only", "reth", True),
    ("RDMA WRITE Only with Immediate", "reth imm", True)]
OPCODES = {}
for number, (title, headers, data) in enumerate(SEND_WRITE):
    OPCODES[0x00 + number] = ("RC " + title, headers.split(), data)
    OPCODES[0x20 + number] = ("UC " + title, headers.split(), data)
OPCODES.update({
    0x0C: ("RC RDMA READ Request", ["reth"], False),
    0x0D: ("RC RDMA READ Response First", ["aeth"], True),
    0x0E: ("RC RDMA READ Response Middle", [], True),
    0x0F: ("RC RDMA READ Response Last", ["aeth"], True),
    0x10: ("RC RDMA READ Response Only", ["aeth"], True),
    0x11: ("RC Acknowledge", ["aeth"], False),
    0x12: ("RC ATOMIC Acknowledge", ["aeth", "atomic_ack"], False),
    0x13: ("RC CmpSwap", ["atomic"], False),
    0x14: ("RC FetchAdd", ["atomic"], False),
    0x16: ("RC SEND Last with Invalidate", ["ieth"], True),
    0x17: ("RC SEND Only with Invalidate", ["ieth"], True),
    0x1C: ("RC FLUSH", ["feth", "reth"], False),
    0x1D: ("RC ATOMIC WRITE", ["reth"], True),
    0x64: ("UD SEND Only", ["deth"], True),
    0x65: ("UD SEND Only with Immediate", ["deth", "imm"], True),
    0x81: ("CNP", ["cnp"], False)})
# XRC: the same as RC, with the number of a shared receive queue in each request (IBTA A14).
for number in range(0x20):
    if number in OPCODES:
        title, headers, data = OPCODES[number]
        answers = "Response" in title or "Acknowledge" in title
        OPCODES[0xA0 + number] = ("X" + title, ([] if answers else ["xrceth"]) + headers, data)
HEADER_BYTES = {"xrceth": 4, "feth": 4, "reth": 16, "aeth": 4, "atomic": 28, "atomic_ack": 8,
                "imm": 4, "ieth": 4, "deth": 8, "cnp": 16}


class Malformed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Malformed(what)


def make_table():
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_table()


def crc32(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def icrc_of(packet):
    """The ICRC of `packet`, IP header to the end without the ICRC, by masking a copy of it."""
    masked = bytearray(packet)
    if packet[0] >> 4 == 4:
        masked[1] = 0xFF                      # type of service
        masked[8] = 0xFF                      # time to live
        masked[10:12] = b"\xff\xff"           # header checksum
        udp = 20
    else:
        masked[0] |= 0x0F                     # traffic class, flow label
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF                      # hop limit
        udp = 40
    masked[udp + 6:udp + 8] = b"\xff\xff"     # UDP checksum
    masked[udp + 8 + 4] = 0xFF                # BTH: F, B, reserved
    return crc32(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")


def ones_sum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def strip_ethernet(frame):
    expect(len(frame) >= 14, "shorter than Ethernet")
    ethertype, rest = struct.unpack_from(">H", frame, 12)[0], frame[14:]
    if ethertype == 0x8100:
        expect(len(rest) >= 4, "shorter than a VLAN tag")
        ethertype, rest = struct.unpack_from(">H", rest, 2)[0], rest[4:]
    return ethertype, rest


def ip_packet(frame):
    """The IP packet of a frame without padding, and where UDP begins; None if not RoCEv2."""
    ethertype, packet = strip_ethernet(frame)
    if ethertype == 0x0800:
        expect(len(packet) >= 28 and packet[0] == 0x45, "IPv4 header")
        total, fragment = struct.unpack_from(">H2xH", packet, 2)
        if packet[9] != 17:
            return None
        expect(ones_sum(packet[:20]) == 0xFFFF, "IPv4 header checksum")
        expect(fragment == 0x4000, "IPv4 flags are not DF alone")
        udp = 20
        pseudo = packet[12:20]
    elif ethertype == 0x86DD:
        expect(len(packet) >= 48 and packet[0] >> 4 == 6, "IPv6 header")
        if packet[6] != 17:
            return None
        total, udp = struct.unpack_from(">H", packet, 4)[0] + 40, 40
        pseudo = packet[8:40]
    else:
        return None
    expect(total <= len(packet), "IP length beyond the frame")
    packet = packet[:total]
    port, length, checksum = struct.unpack_from(">2xHHH", packet, udp)
    if port != ROCE_PORT:
        return None
    expect(length == total - udp, "UDP length does not fit the IP length")
    if checksum:
        total = ones_sum(pseudo + struct.pack(">HH", 17, length) + packet[udp:])
        expect(total == 0xFFFF, "UDP checksum")
    return packet, udp


def decode(packet, udp):
    """Checks a RoCEv2 packet, returns the name of its opcode."""
    transport = packet[udp + 8:]
    expect(len(transport) >= 16, "shorter than BTH and ICRC")
    opcode, flags, _pkey, _resv8a, qpn, last = struct.unpack(">BBHB3sI", transport[:12])
    expect(opcode in OPCODES, "opcode 0x%02x" % opcode)
    name, extensions, may_carry = OPCODES[opcode]
    expect(flags & 0x0F == 0, name + ": header version")
    expect(last & 0x7F000000 == 0, name + ": reserved bits behind A")
    expect(qpn != b"\0\0\0", name + ": destination QPN 0")
    pad = flags >> 4 & 3
    fixed = 12 + sum(HEADER_BYTES[e] for e in extensions)
    expect(len(transport) >= fixed + pad + 4, name + ": too short")
    body = transport[fixed:-4]
    payload = body[:len(body) - pad]
    expect(len(body) % 4 == 0, name + ": pad count")
    expect(not any(body[len(payload):]), name + ": pad bytes")
    expect(may_carry or not body, name + ": payload")
    expect(may_carry and payload or "First" not in name and "Middle" not in name,
           name + ": no payload")
    at = 12
    for extension in extensions:
        header = transport[at:at + HEADER_BYTES[extension]]
        at += HEADER_BYTES[extension]
        if extension == "reth" and "Only" in name:
            expect(struct.unpack(">I", header[12:])[0] == len(payload), name + ": DMA length")
        if extension == "reth" and "First" in name:
            expect(struct.unpack(">I", header[12:])[0] > len(payload), name + ": DMA length")
        if extension == "feth":
            bits = struct.unpack(">I", header)[0]
            expect(bits >> 6 == 0 and bits >> 4 <= 1 and bits & 15 in (1, 2, 3), name + ": FETH")
        if extension == "aeth":
            kind, value = header[0] >> 5, header[0] & 31
            expect(kind in (0, 1, 3) and (kind != 3 or value <= 4), name + ": syndrome")
            expect(kind == 0 or "Acknowledge" in name, name + ": NAK in a response")
        if extension == "deth":
            expect(header[4] == 0, name + ": DETH reserved")
        if extension == "xrceth":
            expect(header[0] == 0, name + ": XRCETH reserved")
    return name


def read_pcap(path):
    with open(path, "rb") as file:
        head = file.read(24)
        orders = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<",
                  b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
        expect(len(head) == 24 and head[:4] in orders, "no pcap file")
        order = orders[head[:4]]
        expect(struct.unpack(order + "I", head[20:])[0] & 0xFFFF == 1, "no Ethernet frames")
        while True:
            record = file.read(16)
            if not record:
                return
            expect(len(record) == 16, "the file ends in a record header")
            length, original = struct.unpack(order + "8x2I", record)
            frame = file.read(length)
            expect(len(frame) == length, "the file ends in a record")
            expect(length == original, "a frame was cut when it was captured")
            yield frame


def scapy_icrc(frame):
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
    parsed = Ether(frame)
    return parsed[BTH].compute_icrc(b"")


def check(arguments):
    if arguments.cross_check_scapy:
        try:
            import scapy.contrib.roce  # noqa: F401
        except ImportError:
            print("SKIPPED: --cross-check-scapy: this python has no scapy")
            return 77
    names, errors, other, agreed, index = collections.Counter(), [], 0, 0, 0
    try:
        for index, frame in enumerate(read_pcap(arguments.file), 1):
            try:
                found = ip_packet(frame)
                if not found:
                    other += 1
                    continue
                packet, udp = found
                names[decode(packet, udp)] += 1
                expect(icrc_of(packet[:-4]) == packet[-4:], "ICRC")
                if arguments.cross_check_scapy and packet[0] >> 4 == 4:
                    expect(scapy_icrc(frame) == packet[-4:], "ICRC as scapy computes it")
                    agreed += 1
            except Malformed as error:
                errors.append("frame %d: %s" % (index, error))
    except Malformed as error:
        errors.append("record %d: %s" % (index + 1, error))
    total = sum(names.values())
    for name, count in sorted(names.items()):
        print("%8d  %s" % (count, name))
    for error in errors[:20]:
        print("MALFORMED", error)
    if total < arguments.min:
        errors.append("too few")
        print("only %d RoCEv2 frames, expected %d" % (total, arguments.min))
    print("%d RoCEv2 frames, %d others, %d errors, scapy agreed on %d" %
          (total, other, len(errors), agreed))
    return 1 if errors else 0


# Golden frames. Field values differ in every byte, so that a swapped or shifted one shows.

def vector_fields(number, opcode, ipv6, length):
    name, extensions, may_carry = OPCODES[opcode]
    payload = length if may_carry else 0
    values = collections.OrderedDict(
        opcode=opcode, solicited=number & 1, mig_req=number >> 1 & 1, pad=-payload % 4,
        pkey=0xFFFF if number % 3 else 0x8123, fecn=number >> 2 & 1, becn=int(name == "CNP"),
        dest_qpn=0x010203 + number * 0x010101, ack_request=number >> 3 & 1,
        psn=0xFEDCBA - number, extensions="+".join(extensions) or "-",
        va=0x0123456789ABCDEF + number, rkey=0xA1B2C3D4 + number,
        dma_length=payload if "Only" in name else 0x01A2B3C4 + number,
        syndrome=0x1F if "Acknowledge" not in name else [0x0B, 0x2E, 0x62][number % 3],
        msn=0x112233 + number, swap=0x1021324354657687 + number,
        compare=0x98A9BACBDCEDFE0F - number,
        original=0xF0E1D2C3B4A59687 - number, imm=0xDEADBEEF - number, qkey=0x80010000 + number,
        source_qpn=0x334455 + number, payload=payload)
    outer = collections.OrderedDict(
        source="2001:db8::1:%x" % number if ipv6 else "10.1.2.%d" % (number + 1),
        destination="fe80::abcd:%x" % number if ipv6 else "192.168.7.%d" % (200 - number),
        source_port=0xC000 + number * 17, ip_id=0 if ipv6 else 0x4321 + number,
        traffic_class=number * 5 & 0xFF, hop_limit=64 - number % 3,
        flow_label=0x12345 + number if ipv6 else 0, vlan=0 if number % 4 else 0x123)
    return values, outer


def build_transport(v):
    packet = struct.pack(
        ">BBHII", v["opcode"], v["solicited"] << 7 | v["mig_req"] << 6 | v["pad"] << 4, v["pkey"],
        v["fecn"] << 31 | v["becn"] << 30 | v["dest_qpn"], v["ack_request"] << 31 | v["psn"])
    for extension in [] if v["extensions"] == "-" else v["extensions"].split("+"):
        packet += {
            "reth": struct.pack(">QII", v["va"], v["rkey"], v["dma_length"]),
            "aeth": struct.pack(">I", v["syndrome"] << 24 | v["msn"]),
            "atomic": struct.pack(">QIQQ", v["va"], v["rkey"], v["swap"], v["compare"]),
            "atomic_ack": struct.pack(">Q", v["original"]),
            "imm": struct.pack(">I", v["imm"]),
            "ieth": struct.pack(">I", v["rkey"]),
            "deth": struct.pack(">II", v["qkey"], v["source_qpn"]),
            "cnp": bytes(16)}[extension]
    return packet + bytes((i * 7 + 3) & 0xFF for i in range(v["payload"])) + bytes(v["pad"])


def build_frame(v, outer, ipv6):
    import ipaddress
    transport = build_transport(v)
    source = ipaddress.ip_address(outer["source"]).packed
    destination = ipaddress.ip_address(outer["destination"]).packed
    length = 8 + len(transport) + 4
    udp = struct.pack(">HHHH", outer["source_port"], ROCE_PORT, length, 0)
    if ipv6:
        ip = struct.pack(">IHBB", 6 << 28 | outer["traffic_class"] << 20 | outer["flow_label"],
                         length, 17, outer["hop_limit"]) + source + destination
    else:
        ip = struct.pack(">BBHHHBBH", 0x45, outer["traffic_class"], 20 + length, outer["ip_id"],
                         0x4000, outer["hop_limit"], 17, 0) + source + destination
        ip = ip[:10] + struct.pack(">H", ones_sum(ip) ^ 0xFFFF) + ip[12:]
    packet = ip + udp + transport
    packet += icrc_of(packet)
    tag = struct.pack(">HH", 0x8100, outer["vlan"]) if outer["vlan"] else b""
    macs = bytes([2, 0]) + destination[-4:] + bytes([2, 0]) + source[-4:]
    return macs + tag + (b"\x86\xdd" if ipv6 else b"\x08\x00") + packet


def vectors(_arguments):
    print("# SPDX-License-Identifier: BSD-3-Clause")
    print("# Golden frames by `roce_oracle.py vectors`; payload byte i is (7 i + 3) mod 256.")
    cases = [(opcode, ipv6, 5 + index) for ipv6 in (False, True)
             for index, opcode in enumerate(sorted(OPCODES))]
    cases += [(0x08, False, 4093), (0x24, True, 4096), (0x04, False, 0), (0x04, True, 1)]
    for number, (opcode, ipv6, length) in enumerate(cases):
        values, outer = vector_fields(number, opcode, ipv6, length)
        fields = " ".join("%s=%s" % item for item in list(values.items()) + list(outer.items()))
        frame = build_frame(values, outer, ipv6)
        packet, udp = ip_packet(frame)
        decode(packet, udp)
        print(fields, "frame=" + frame.hex())
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("check")
    checker.add_argument("file")
    checker.add_argument("--cross-check-scapy", action="store_true")
    checker.add_argument("--min", type=int, default=0)
    checker.set_defaults(run=check)
    commands.add_parser("vectors").set_defaults(run=vectors)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
