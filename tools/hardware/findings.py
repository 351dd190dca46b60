# SPDX-License-Identifier: BSD-3-Clause
"""What a packet script that failed says about the device, in a sentence with its rule.

A row: the scripts, a pattern of what they said, and the sentence. The first row that matches names
the failure; one that no row matches is reported by the script's own title.
"""
import collections
import re

Row = collections.namedtuple("Row", "key scripts said rule text")

ROWS = (
    # Broken rules that a peer sees in every packet.
    Row("migreq", r".", r"its migrated is 0, not 1", "C-HDR-113",
        "MigReq is 0 in its packets; NICs send 1, and some drop a request with 0"),
    Row("pkey", r".", r"its pkey is ", "C-OPS-86", "its packets carry a P_Key that is not 0xffff"),
    Row("pad", r".", r"its pad is not zero", "C-HDR-3", "pad bytes that it sends are not 0"),
    Row("cnp_class", r"cc/", r"its dscp is \d+, not 48", "C-CC-102",
        "CNPs leave in the class of data and not in DSCP 48, so congestion delays them"),
    Row("early_rnr", r".", r"< (ACK|READ_RESPONSE)(.|\n)*received: < RNR", "C-NAK-42",
        "it sends an RNR NAK though a receive is posted"),
    Row("nak_code", r".", r"NAK invalid_request(.|\n)*syndrome(=| is )98", "C-NAK-38",
        "remote access error (0x62) where invalid request (0x61) belongs"),
    # Acknowledgements.
    Row("repeat_nak", r"psn/(one-nak|half-circle)", r"unexpected packet: NAK", "C-PSN-19",
        "more than one NAK for a gap: a peer that goes back for each sends everything twice"),
    Row("no_dup_ack", r"dup/(send|write-imm|middle-of-message)$", r"no packet", "C-DUP-24",
        "a duplicate is not acknowledged: the peer retries until its request fails"),
    Row("duplicate_read", r"dup/read", r".", "C-DUP-25",
        "a duplicate READ is answered with another range, or in another form"),
    Row("ghost", r"(ack/ghost|nak/sequence-ghost)", r"completion", "C-ACK-32",
        "an acknowledgement of what was never sent completes requests (A07)"),
    Row("error_is_success", r"(ack/atomic-for-a-write|nak/reserved|nak/within-read-responses)",
        r"completion(.|\n)*success", "C-NAK-43",
        "an invalid answer completes the request with success"),
    Row("credits", r"ack/credits", r"unexpected packet", "C-ACK-34",
        "it ignores the credits of its peer"),
    Row("msn", r".", r"its msn is \d+, not \d+", "C-ACK-33",
        "the MSN of its acknowledgements is not the number of messages that it completed"),
    # Congestion.
    Row("no_ecn", r"cc/mark", r"no packet", "C-CC-101",
        "no CNP after a packet with a congestion mark: DCQCN cannot slow its peers down"),
    # What must be dropped.
    Row("any_icrc", r"icrc/wrong", r"unexpected packet", "C-ICRC-15",
        "a packet with a wrong ICRC is executed"),
    Row("any_version", r"hdr/version", r"unexpected packet", "C-HDR-2",
        "a packet of another header version is executed"),
    # Optional, or of newer revisions.
    Row("no_effects", r"(atomic-write|flush|effect)", r"no packet", "IBTA 1.5",
        "no ATOMIC WRITE and FLUSH (optional)"),
    Row("rnr_gap", r"nak/rnr-silence", r"NAK", "C-PSN-19",
        "the packet behind an RNR NAK gets a NAK of the sequence too"),
    Row("send_length", r"ops/(first-too-short|only-too-long|middle-too-short)", r"ACK", "C-OPS-70",
        "lengths of SEND packets are not checked"),
    Row("invalidate", r"ops/invalidate", r".", "C-OPS-73",
        "a SEND with invalidate of the key of a region fails, or of a wrong key succeeds"),
    Row("receive_too_small", r"ops/receive-too-small", r"syndrome=99", "C-OPS-82",
        "0x63 and not 0x61 for a SEND longer than the receive"),
    Row("uc_gap", r"psn/uc-", r".", "C-PSN-20", "on UC it loses messages behind a lost one, too"),
    Row("retry_seven", r"retry/count-seven", r"no completion", "C-RETRY-47",
        "retry_cnt 7 means without limit"),
    Row("read_gap", r"retry/read-gap", r"no packet", "C-RETRY-51",
        "a gap in a READ response waits for the time-out"),
    Row("fetch_add", r"hdr/fields-of-an-atomic", r"its compare", "C-HDR-6",
        "a FETCH_ADD carries something in its compare field"),
    Row("mtu", r"(ops/mtu-4096|icrc/large-with-pad)", r"no packet", "C-OPS-71",
        "the link between the two does not carry a path MTU of 4096 (no fault of the device)"),
)


def row_of(script, why):
    """The row of a failed script, or None."""
    for row in ROWS:
        if re.search(row.scripts, script) and re.search(row.said, why):
            return row
    return None


def findings(attempts):
    """[{key, rule, text, scripts}] for attempts that failed: {script, title, why}."""
    found = {}
    for attempt in attempts:
        row = row_of(attempt["script"], attempt["why"])
        if row is None:
            title = re.sub(r"\b(roce|threat):[A-Z0-9-]+ ?", "", attempt["title"])
            row = Row(attempt["script"], "", "", attempt["rules"], f"not so: {title}")
        entry = found.setdefault(row.key, {"key": row.key, "rule": row.rule, "text": row.text,
                                           "scripts": []})
        if attempt["script"] not in entry["scripts"]:
            entry["scripts"].append(attempt["script"])
    return list(found.values())
