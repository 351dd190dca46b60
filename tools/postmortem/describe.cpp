// SPDX-License-Identifier: BSD-3-Clause
// See describe.hpp.
#include "tools/postmortem/describe.hpp"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "lib/base/bytes.hpp"
#include "lib/wire/headers.hpp"
#include "lib/wire/opcode.hpp"
#include "lib/wire/srd_headers.hpp"
#include "weft/device.hpp"
#include "weft/wr.hpp"

namespace weft::postmortem {
namespace {

using driver::EventKind;
using driver::RecordedEvent;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

// The header field at `offset` of `word`, which holds header bytes as they are in memory.
template <class Field>
Field field_at(uint64_t word, size_t offset) noexcept {
  Field field;
  std::memcpy(static_cast<void*>(&field), reinterpret_cast<const std::byte*>(&word) + offset,
              sizeof field);
  return field;
}

std::string note_of(const wire::Aeth& aeth) {
  const uint8_t syndrome = aeth.syndrome;
  if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck) return "";
  if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnr)
    return format("RNR NAK, timer %u", syndrome & wire::kSyndromeValueMask);
  switch (syndrome) {
    case wire::kNakSequence:
      return "NAK: PSN sequence error";
    case wire::kNakInvalidRequest:
      return "NAK: invalid request";
    case wire::kNakRemoteAccess:
      return "NAK: remote access error";
    case wire::kNakRemoteOperation:
      return "NAK: remote operational error";
    default:
      return format("NAK, syndrome 0x%02x", syndrome);
  }
}

PacketFields roce_fields(const RecordedEvent& event) {
  const auto opcode = field_at<uint8_t>(event.head, 0);
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  PacketFields fields{.name = info.name,
                      .destination = field_at<base::Be24>(event.head, 5),
                      .sequence = field_at<base::Be24>(event.place, 1)};
  if (info.operation == wire::Operation::acknowledge)
    fields.note = note_of(field_at<wire::Aeth>(event.place, 4));
  return fields;
}

std::string_view name_of(wire::SrdOpcode opcode) noexcept {
  switch (opcode) {
#define X(name)               \
  case wire::SrdOpcode::name: \
    return "SRD " #name;
    X(send)
    X(write)
    X(read_request)
    X(read_response)
    X(compare_swap)
    X(fetch_add)
    X(atomic_response)
    X(write_add)
    X(failure)
    X(fill)
    X(abort)
    X(acknowledge)
    X(refusal)
    X(reset)
    X(ready)
    X(trimmed)
    X(rails)
    X(hello)
    X(welcome)
#undef X
  }
  return "";
}

PacketFields srd_fields(const RecordedEvent& event) {
  PacketFields fields{
      .name = name_of(static_cast<wire::SrdOpcode>(
          field_at<uint8_t>(event.head, offsetof(wire::SrdBase, opcode)))),
      .destination = field_at<base::Be24>(event.head, offsetof(wire::SrdBase, dest)),
      .sequence = field_at<base::Be48>(event.place, 0)};
  const auto flags = field_at<uint8_t>(event.head, offsetof(wire::SrdBase, flags));
  const auto detail = field_at<uint8_t>(event.place, sizeof(base::Be48));
  if ((flags & wire::srd_flag::kRetransmission) != 0) fields.note = "retransmission";
  if (fields.name == "SRD refusal" || fields.name == "SRD failure")
    fields.note += format("reason %u", detail);
  return fields;
}

std::string describe_packet(const Record& record, const RecordedEvent& event) {
  const PacketFields fields = fields_of(record, event);
  const bool sent = event.kind() == EventKind::sent;
  std::string text = sent ? "> " : "< ";
  if (fields.name.empty())
    text += format("opcode 0x%02x", field_at<uint8_t>(event.head, 0));
  else
    text += fields.name;
  text +=
      format(" qp 0x%06x %s %" PRIu64 ", %u B", fields.destination,
             record.udp_port == wire::kSrdUdpPort ? "seq" : "psn", fields.sequence, event.length());
  text += (sent ? " to " : " from ") + to_string(peer_of(record, event));
  if (!fields.note.empty()) text += " (" + fields.note + ")";
  if (event.ecn() == 3) text += " CE";
  return text;
}

}  // namespace

PacketFields fields_of(const Record& record, const RecordedEvent& event) {
  return record.udp_port == wire::kSrdUdpPort ? srd_fields(event) : roce_fields(event);
}

Gid peer_of(const Record& record, const RecordedEvent& event) noexcept {
  Gid peer = record.address;
  std::memcpy(peer.bytes.data() + 12, &event.peer, sizeof event.peer);
  return peer;
}

std::string describe(const Record& record, const RecordedEvent& event) {
  const auto qp = static_cast<uint32_t>(event.head);
  switch (event.kind()) {
    case EventKind::sent:
    case EventKind::received:
      return describe_packet(record, event);
    case EventKind::counted:
      if (event.head >= transport::kCountEnd) break;
      return "counter " + std::string(transport::kCountNames[event.head]) +
             format(" +%" PRIu64, event.place);
    case EventKind::failed:
      return format("request of qp 0x%06x failed: ", qp) +
             std::string(name(static_cast<Status>(event.place)));
    case EventKind::raised:
      return "event " + std::string(name(static_cast<EventType>(event.place))) +
             (qp != 0 ? format(" of qp 0x%06x", qp) : "");
    case EventKind::state:
      return format("qp 0x%06x is ", qp) +
             (event.place == driver::kDestroyed
                  ? "destroyed"
                  : "in state " + std::string(name(static_cast<QpState>(event.place))));
  }
  return format("unknown event 0x%08x", event.about);
}

std::optional<uint32_t> queue_pair_of(const Record& record, const RecordedEvent& event) {
  switch (event.kind()) {
    case EventKind::received:
      return fields_of(record, event).destination;
    case EventKind::failed:
    case EventKind::raised:
    case EventKind::state:
      return static_cast<uint32_t>(event.head);
    default:
      return std::nullopt;
  }
}

}  // namespace weft::postmortem
