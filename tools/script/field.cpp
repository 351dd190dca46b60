// SPDX-License-Identifier: BSD-3-Clause
// The table of packet fields: which packets carry a field, how it is written to a draft, how it is
// read from a received packet. A new field is a row.
#include <array>
#include <iterator>

#include "tools/script/packet.hpp"

namespace weft::script {

namespace {

using Info = wire::OpcodeInfo;
using wire::Packet;

const wire::Bth& bth(const ReceivedPacket& received) {
  return *reinterpret_cast<const wire::Bth*>(received.bytes.data());
}
bool all(const Info&) { return true; }
bool addressed(const Info& i) { return i.reth || i.atomic_eth; }
bool answers(const Info& i) { return i.aeth; }
bool selective(const Info& i) { return i.sack; }
bool atomic(const Info& i) { return i.atomic_eth; }
bool with_imm(const Info& i) { return i.imm; }
bool with_key(const Info& i) { return i.ieth; }
bool datagram(const Info& i) { return i.deth; }

void set_syndrome(Draft& d, uint64_t v) { d.forgery.syndrome = static_cast<uint8_t>(v); }
// The low five bits of the syndrome, for any kind of acknowledgement.
void set_low_syndrome(Draft& d, uint64_t v) {
  d.forgery.syndrome = static_cast<uint8_t>((d.forgery.syndrome & 0xE0) | (v & 31));
}
uint64_t low_syndrome(const Packet& p, const ReceivedPacket&) { return p.aeth().syndrome & 31; }
void set_first(Draft& d, uint64_t v) { d.forgery.first = v; }

constexpr Field kFields[] = {
    {"psn", "packet sequence number; +N (or N alone): the Nth of its sender's requests", Base::psn,
     all, [](Draft& d, uint64_t v) { d.forgery.bth.psn = Psn{static_cast<uint32_t>(v)}; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.psn.value; }},
    {"ack", "acknowledgement requested (A alone: ack=1)", Base::zero, all,
     [](Draft& d, uint64_t v) { d.forgery.bth.ack_request = v; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.ack_request; }},
    {"solicited", "solicited event (SE alone: solicited=1)", Base::zero, all,
     [](Draft& d, uint64_t v) { d.forgery.bth.solicited = v; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.solicited; }},
    {"migrated", "MigReq", Base::zero, all, [](Draft& d, uint64_t v) { d.forgery.bth.mig_req = v; },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return bth(h).mig_req(); }},
    {"pad", "pad count", Base::zero, all,
     [](Draft& d, uint64_t v) { d.forgery.pad = static_cast<uint8_t>(v & 3); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.pad; }},
    {"version", "header version", Base::zero, all,
     [](Draft& d, uint64_t v) { d.version = static_cast<uint8_t>(v); }, nullptr},
    {"pkey", "partition key", Base::zero, all,
     [](Draft& d, uint64_t v) { d.forgery.bth.pkey = static_cast<uint16_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.pkey; }},
    {"dest", "destination queue pair", Base::qpn, all,
     [](Draft& d, uint64_t v) { d.forgery.bth.dest = QpNum{static_cast<uint32_t>(v)}; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.dest_qpn.value; }},
    {"address", "offset in the receiver's memory (@N: address=+N)", Base::address, addressed,
     [](Draft& d, uint64_t v) { d.forgery.address = v; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t {
       return p.info->reth ? p.reth().address : p.atomic_eth().address;
     }},
    {"rkey", "key of that memory", Base::key, addressed,
     [](Draft& d, uint64_t v) { d.forgery.rkey = RKey{static_cast<uint32_t>(v)}; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t {
       return p.info->reth ? p.reth().rkey : p.atomic_eth().rkey;
     }},
    {"length", "length of the whole message, from the RETH", Base::zero,
     [](const Info& i) { return i.reth; },
     [](Draft& d, uint64_t v) { d.forgery.length = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.reth().length; }},
    {"place", "placement type of a FLUSH: 1 visible, 2 persistent, 3 both", Base::zero,
     [](const Info& i) { return i.feth; },
     [](Draft& d, uint64_t v) { d.forgery.placement = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.feth().placement(); }},
    {"select", "selection of a FLUSH: 0 the range, 1 the whole region", Base::zero,
     [](const Info& i) { return i.feth; },
     [](Draft& d, uint64_t v) { d.forgery.selectivity = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.feth().selectivity(); }},
    {"syndrome", "the whole syndrome of the AETH", Base::zero, answers, set_syndrome,
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.aeth().syndrome; }},
    {"credits", "credit code of an ACK, 31 is no limit", Base::zero, answers, set_low_syndrome,
     low_syndrome},
    {"timer", "timer code of an RNR NAK", Base::zero, answers, set_low_syndrome, low_syndrome},
    {"msn", "message sequence number", Base::zero, answers,
     [](Draft& d, uint64_t v) { d.forgery.msn = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.aeth().msn; }},
    {"expected", "SELECTIVE_ACK: the first request that is missing", Base::psn, selective,
     [](Draft& d, uint64_t v) { d.forgery.expected = Psn{static_cast<uint32_t>(v)}; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.sack().expected; }},
    {"lost_end", "SELECTIVE_ACK: what is missing before it is lost", Base::psn, selective,
     [](Draft& d, uint64_t v) { d.forgery.lost_end = Psn{static_cast<uint32_t>(v)}; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.sack().lost_end; }},
    {"add", "addend of a FETCH_ADD", Base::zero, atomic, set_first,
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.atomic_eth().swap_or_add; }},
    {"swap", "new value of a COMPARE_SWAP", Base::zero, atomic, set_first,
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.atomic_eth().swap_or_add; }},
    {"compare", "expected value of a COMPARE_SWAP", Base::zero, atomic,
     [](Draft& d, uint64_t v) { d.forgery.compare = v; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.atomic_eth().compare; }},
    {"original", "value before an atomic", Base::zero,
     [](const Info& i) { return i.atomic_ack_eth; }, set_first,
     [](const Packet& p, const ReceivedPacket&) -> uint64_t {
       return p.atomic_ack_eth().original;
     }},
    {"imm", "immediate data", Base::zero, with_imm,
     [](Draft& d, uint64_t v) { d.forgery.imm = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.imm_or_key(); }},
    {"invalidate", "key to invalidate", Base::key, with_key,
     [](Draft& d, uint64_t v) { d.forgery.imm = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.imm_or_key(); }},
    {"qkey", "queue key of a datagram", Base::qkey, datagram,
     [](Draft& d, uint64_t v) { d.forgery.qkey = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.deth().qkey; }},
    {"srq", "XRC: the shared receive queue of the receiver", Base::srq,
     [](const Info& i) { return i.xrceth; },
     [](Draft& d, uint64_t v) { d.forgery.srq = static_cast<uint32_t>(v); },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.xrceth().srq; }},
    {"source", "source queue pair of a datagram", Base::source, datagram,
     [](Draft& d, uint64_t v) { d.forgery.source_qp = QpNum{static_cast<uint32_t>(v)}; },
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.deth().source_qpn; }},
    {"size", "bytes of payload", Base::zero, all, nullptr,
     [](const Packet& p, const ReceivedPacket&) -> uint64_t { return p.payload_length; }},
    {"fecn", "congestion bit, outside the ICRC", Base::zero, all,
     [](Draft& d, uint64_t v) { d.congestion = (d.congestion & 0x7F) | (v ? 0x80 : 0); },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return bth(h).fecn(); }},
    {"becn", "congestion bit, outside the ICRC", Base::zero, all,
     [](Draft& d, uint64_t v) { d.congestion = (d.congestion & 0xBF) | (v ? 0x40 : 0); },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return bth(h).becn(); }},
    {"reserved6", "the bits beside FECN and BECN", Base::zero, all,
     [](Draft& d, uint64_t v) { d.congestion = (d.congestion & 0xC0) | (v & 0x3F); },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return bth(h).resv8a & 0x3F; }},
    {"reserved7", "the bits beside A", Base::zero, all,
     [](Draft& d, uint64_t v) { d.reserved = v & 0x7F; },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return bth(h).ack_resv & 0x7F; }},
    {"ecn", "the two ECN bits of the IP header (3: congestion)", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.ecn = v & 3; },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return h.path.traffic_class & 3; }},
    {"dscp", "the class in the IP header", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.dscp = v & 63; },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return h.path.traffic_class >> 2; }},
    {"ttl", "TTL or hop limit", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.ttl = static_cast<uint8_t>(v); },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return h.path.hop_limit; }},
    {"udp_source",
     "UDP source port; +0: as rdma_get_udp_sport() makes it of both queue pair numbers", Base::port,
     all, [](Draft& d, uint64_t v) { d.outer.source_port = static_cast<uint16_t>(v); },
     [](const Packet&, const ReceivedPacket& h) -> uint64_t { return h.path.source_port; }},
    {"udp_sum", "UDP checksum: 0 none, 1 right, 2 wrong", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.checksum = static_cast<uint8_t>(v); }, nullptr},
    {"udp_longer", "bytes that the UDP length is too large", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.udp_longer = static_cast<int8_t>(v); }, nullptr},
    {"label", "flow label (IPv6)", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.flow_label = static_cast<uint32_t>(v); }, nullptr},
    {"dont_fragment", "the flag of IPv4", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.dont_fragment = v; }, nullptr},
    {"more_fragments", "the flag of IPv4", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.more_fragments = v; }, nullptr},
    {"options", "IPv4 options, in words of 4 bytes", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.option_words = static_cast<uint8_t>(v); }, nullptr},
    {"padding", "bytes behind the IP packet", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.padding = static_cast<uint8_t>(v); }, nullptr},
    {"vlan", "VLAN of a tag; 0 with a priority: a priority tag", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.vlan = v & 0xFFF; }, nullptr},
    {"priority", "priority of a VLAN tag", Base::zero, all,
     [](Draft& d, uint64_t v) { d.outer.priority = v & 7; }, nullptr},
    {"icrc", "0: a wrong ICRC", Base::zero, all,
     [](Draft& d, uint64_t v) { d.wrong_icrc = v == 0; }, nullptr},
    {"other_source", "1: from another address than the peer's", Base::zero, all,
     [](Draft& d, uint64_t v) { d.other_source = v; }, nullptr},
    {"cut", "bytes that are missing at the end", Base::zero, all,
     [](Draft& d, uint64_t v) { d.cut = static_cast<uint32_t>(v); }, nullptr},
};

}  // namespace

const Field* find_field(std::string_view name) {
  if (name == "stranger") name = "other_source";  // its former name
  for (const Field& field : kFields)
    if (field.name == name) return &field;
  return nullptr;
}

std::string field_list() {
  std::string text;
  for (const Field& field : kFields) {
    text += "  " + std::string(field.name);
    text.append(field.name.size() < 13 ? 14 - field.name.size() : 1, ' ');
    text += std::string(field.what) + (field.put ? "" : " (only after <)") +
            (field.take ? "\n" : " (only after >)\n");
  }
  return text;
}

}  // namespace weft::script
