# SPDX-License-Identifier: BSD-3-Clause
"""Short dialogues of a raw peer with one end, and what the end does: the material of the table of
differences in README.md. A dialogue returns its observation as text and checks nothing."""
import pathlib
import select

import raw_peer
from raw_peer import (ACK, BECN, CE, CNP, COMPARE_SWAP, FECN, FETCH_ADD, READ, SEND_FIRST,
                      SEND_LAST, SEND_MIDDLE, SEND_ONLY, UD_SEND, WRITE_FIRST, WRITE_LAST,
                      WRITE_ONLY, aeth, atomic, reth)

README = pathlib.Path(__file__).with_name("README.md")
DIALOGUES = []


def dialogue(rule, text):
    """Lists a dialogue under the conformance rule that it shows."""
    def enter(function):
        DIALOGUES.append((rule, text, function))
        return function
    return enter


def said(packet):
    """An answer in few words."""
    if packet is None:
        return "nothing"
    if packet.opcode != ACK:
        return f"opcode 0x{packet.opcode:02x}"
    kind, value = packet.syndrome >> 5, packet.syndrome & 31
    if kind == 0:
        return "ACK"
    return f"RNR NAK, timer {value}" if kind == 1 else f"NAK 0x{packet.syndrome:02x}"


def word_of(end, value):
    """Whether the first word of the end's memory is `value`."""
    found = end.digest(length=8)
    end.ramp(offset=8, count=2, step=value)
    return found == end.digest(offset=16, length=8)


@dialogue("C-NAK-42", "SEND without a receive")
def send_without_receive(peer):
    return said(peer.ask(SEND_ONLY, b"data"))


@dialogue("C-NAK-42", "the SEND behind one that got an RNR NAK")
def send_after_rnr(peer):
    peer.ask(SEND_ONLY, b"data")
    return said(peer.ask(SEND_ONLY, b"data"))


@dialogue("C-PSN-19", "PSN gap, then another packet beyond it")
def psn_gap(peer):
    first = peer.ask(WRITE_ONLY, peer.target(4) + b"gap.", psn=peer.psn + 5)
    second = peer.ask(WRITE_ONLY, peer.target(4) + b"gap.", psn=peer.psn + 6)
    return f"{said(first)}, then {said(second)}"


@dialogue("C-DUP-24", "SEND repeated with the same PSN")
def duplicate_send(peer):
    peer.end.receive(count=2, size=64)
    first = peer.ask(SEND_ONLY, b"once", psn=1000)
    second = peer.ask(SEND_ONLY, b"once", psn=1000)
    got = peer.end.collect(count=1)["received"]
    return f"{said(first)}, {said(second)}, delivered {got}, MSN {first.msn} and {second.msn}"


@dialogue("C-DUP-25", "READ repeated after the memory has changed")
def duplicate_read(peer):
    answers = []
    for seed in (1, 2):
        peer.end.fill(length=8, seed=seed)
        answers.append(peer.ask(READ, peer.target(8), psn=1000).payload)
    return "fresh bytes" if answers[0] != answers[1] else "the old bytes"


@dialogue("C-DUP-27", "FETCH_ADD repeated with the same PSN")
def duplicate_atomic(peer):
    peer.end.ramp(count=1)
    body = atomic(int(peer.memory["address"]), int(peer.memory["rkey"]), 5)
    answers = [peer.ask(FETCH_ADD, body, psn=1000) for _ in range(2)]
    same = answers[0].payload == answers[1].payload
    executed = "once" if word_of(peer.end, 5) else "not once"
    return f"executed {executed}, the saved result {'comes again' if same else 'is lost'}"


@dialogue("C-NAK-38", "SEND MIDDLE without a FIRST")
def middle_first(peer):
    peer.end.receive(count=1, size=4096)
    return said(peer.ask(SEND_MIDDLE, bytes(1024)))


@dialogue("C-NAK-38", "atomic on an address that is no multiple of 8")
def misaligned_atomic(peer):
    body = atomic(int(peer.memory["address"]) + 4, int(peer.memory["rkey"]), 1)
    return said(peer.ask(FETCH_ADD, body))


@dialogue("C-NAK-38", "UD opcode to an RC queue pair")
def wrong_service(peer):
    return said(peer.ask(UD_SEND, bytes(8) + b"data"))


@dialogue("C-NAK-39", "WRITE with a wrong rkey")
def wrong_key(peer):
    body = reth(int(peer.memory["address"]), int(peer.memory["rkey"]) ^ 1, 4)
    return said(peer.ask(WRITE_ONLY, body + b"data"))


@dialogue("C-NAK-39", "WRITE beyond the region")
def beyond_region(peer):
    address = int(peer.memory["address"]) + (1 << 40)
    return said(peer.ask(WRITE_ONLY, reth(address, int(peer.memory["rkey"]), 4) + b"data"))


@dialogue("C-NAK-39", "WRITE to a queue pair without that right")
def write_without_right(peer):
    peer.connect(peer.end, access=1)
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data"))


@dialogue("C-NAK-39", "READ from a queue pair without that right")
def read_without_right(peer):
    peer.connect(peer.end, access=1)
    return said(peer.ask(READ, peer.target(4)))


@dialogue("C-OPS-82", "SEND longer than the receive")
def long_send(peer):
    peer.end.receive(count=1, size=16)
    answer = said(peer.ask(SEND_ONLY, bytes(64)))
    limit_ms = int(3000 * peer.patience_s)
    return f"{answer}, receiver {peer.end.collect(count=1, limit_ms=limit_ms)['status']}"


@dialogue("C-OPS-70", "SEND FIRST of less than the path MTU")
def short_first(peer):
    peer.end.receive(count=1, size=4096)
    first = peer.ask(SEND_FIRST, bytes(100))
    return f"{said(first)}, then LAST {said(peer.ask(SEND_LAST, bytes(4)))}"


@dialogue("C-OPS-70", "SEND ONLY of more than the path MTU")
def long_only(peer):
    peer.end.receive(count=1, size=4096)
    return said(peer.ask(SEND_ONLY, bytes(1100)))


@dialogue("C-OPS-70", "WRITE whose packets are shorter than its RETH says")
def short_write(peer):
    peer.ask(WRITE_FIRST, peer.target(4096) + bytes(1024))
    return said(peer.ask(WRITE_LAST, bytes(8)))


@dialogue("C-OPS-78", "WRITE of 0 bytes with a wrong rkey")
def empty_write(peer):
    return said(peer.ask(WRITE_ONLY, reth(0, 1, 0)))


@dialogue("C-OPS-79", "READ of 2^31 + 1 bytes")
def too_long_read(peer):
    return said(peer.ask(READ, peer.target((1 << 31) + 1)))


@dialogue("C-HDR-2", "header version 1")
def header_version(peer):
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data", version=1))


@dialogue("C-HDR-3", "WRITE ONLY whose pad count is wrong")
def wrong_pad(peer):
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data", pad=2))


@dialogue("C-ICRC-15", "wrong ICRC")
def wrong_icrc(peer):
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data", break_icrc=True))


@dialogue("C-CC-104", "WRITE whose FECN and BECN were set on the way")
def congestion_bits(peer):
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data", congestion=FECN | BECN))


@dialogue("C-CC-105", "CNP, then a WRITE")
def notification(peer):
    first = peer.ask(CNP, bytes(16), psn=0, congestion=BECN)
    return f"{said(first)}, then {said(peer.ask(WRITE_ONLY, peer.target(4) + b'data'))}"


@dialogue("C-CC-105", "WRITE whose IP header says congestion")
def marked(peer):
    first = peer.ask(WRITE_ONLY, peer.target(4) + b"data", ecn=CE)
    second = peer.receive()
    return ", ".join(sorted("CNP" if p.opcode == CNP else said(p) for p in (first, second) if p))


@dialogue("C-HDR-10", "queue pair that does not exist")
def no_queue_pair(peer):
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data", qpn=0xABCDE))


@dialogue("C-OPS-86", "foreign P_Key")
def foreign_pkey(peer):
    return said(peer.ask(WRITE_ONLY, peer.target(4) + b"data", pkey=0x8123))


@dialogue("C-ACK-32", "ACK for a packet that was never sent (A07)")
def ghost_ack(peer):
    memory = peer.memory
    peer.end.begin("run", op="write", count=1, size=8, address=memory["address"], rkey=1)
    request = peer.receive()
    peer.send(ACK, aeth(0x1F, 1), psn=request.psn + 1000)
    completed = bool(select.select([peer.end.connection], [], [], peer.patience_s)[0])
    peer.send(ACK, aeth(0x1F, 1), psn=request.psn)
    status = peer.end.end()["status"]
    return f"{'completes the request' if completed else 'ignored'} ({status})"


@dialogue("C-ACK-31", "ACK of a later packet while a READ has no response")
def ack_past_read(peer):
    peer.end.begin("run", op="read", count=1, size=8, address=0, rkey=1)
    request = peer.receive()
    peer.send(ACK, aeth(0x1F, 1), psn=request.psn)
    again = peer.receive()
    peer.send(raw_peer.READ_ONLY, aeth(0x1F, 1) + b"8 bytes.", psn=request.psn)
    status = peer.end.end()["status"]
    return f"{'READ again' if again and again.opcode == READ else said(again)} ({status})"


@dialogue("C-NAK-43", "status after NAK 0x61, 0x62, 0x63")
def nak_status(peer):
    found = []
    for code in (0x61, 0x62, 0x63):
        peer.connect(peer.end)
        peer.end.begin("run", op="write", count=1, size=8, address=0, rkey=1)
        request = peer.receive()
        peer.send(ACK, aeth(code, 0), psn=request.psn)
        found.append(peer.end.end()["status"])
    return ", ".join(found)


@dialogue("C-RETRY-47", "transmissions of a request that is never answered, retry_cnt 3")
def count_retries(peer):
    peer.connect(peer.end, retry=3, timeout=12)
    peer.end.begin("run", op="write", count=1, size=8, address=0, rkey=1)
    transmissions = 0
    while peer.receive(4 * peer.patience_s):
        transmissions += 1
    return f"{transmissions} ({peer.end.end()['status']})"


@dialogue("C-ACK-33", "MSN after three SENDs")
def count_messages(peer):
    peer.end.receive(count=3, size=64)
    return str([peer.ask(SEND_ONLY, b"data").msn for _ in range(3)])


@dialogue("C-OPS-75", "COMPARE_SWAP that does not match, then one that does")
def compare_swap(peer):
    peer.end.ramp(count=1)
    at = int(peer.memory["address"]), int(peer.memory["rkey"])
    peer.ask(COMPARE_SWAP, atomic(*at, 7, 1))
    before = word_of(peer.end, 0)
    peer.ask(COMPARE_SWAP, atomic(*at, 7, 0))
    return f"{'kept' if before else 'changed'}, {'swapped' if word_of(peer.end, 7) else 'kept'}"


def observe(peer, end, function):
    """What the end does in a dialogue with the raw peer."""
    peer.connect(end)
    try:
        return function(peer)
    except AttributeError:  # of None: the dialogue needs an answer that did not come
        return "no answer"


def table():
    """{dialogue: {"weft": what it does, "rxe": what it does}} as README.md has it."""
    rows = {}
    for line in README.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("C-"):
            rows[cells[1]] = {"weft": cells[2], "rxe": cells[3] if cells[3] != "=" else cells[2]}
    return rows


def check(test, wire, end, column, address):
    """Each dialogue must end as the table says. One that does not is given ten times the patience
    before that counts: the machine may be busy."""
    expected = table()
    peer = raw_peer.RawPeer(wire, address)
    test.addCleanup(peer.close)
    for rule, text, function in DIALOGUES:
        with test.subTest(rule=rule, dialogue=text):
            peer.patience_s = 0.3
            known = expected.get(text, {}).get(column, "not in the table")
            seen = observe(peer, end, function)
            if seen != known:
                peer.patience_s = 3
                seen = observe(peer, end, function)
            test.assertEqual(seen, known)
