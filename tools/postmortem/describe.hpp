// SPDX-License-Identifier: BSD-3-Clause
// What an event says, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/postmortem/record.hpp"

namespace weft::postmortem {

// A packet's header fields that its event holds.
struct PacketFields {
  std::string_view name;     // of the opcode; empty: unknown
  uint32_t destination = 0;  // queue pair, or endpoint
  uint64_t sequence = 0;     // PSN
  std::string note;          // of acknowledgements: what they say
};
PacketFields fields_of(const Record& record, const driver::RecordedEvent& event);

// "> RC RDMA WRITE Only qp 0x000123 psn 17, 84 B to 10.0.0.2", "retry_exceeded at qp 0x000123".
std::string describe(const Record& record, const driver::RecordedEvent& event);

// The queue pair that an event is about; nullopt: none, or it is that of a peer.
std::optional<uint32_t> queue_pair_of(const Record& record, const driver::RecordedEvent& event);

// The peer of a packet. The record has its last four bytes only; the others are the device's own.
Gid peer_of(const Record& record, const driver::RecordedEvent& event) noexcept;

}  // namespace weft::postmortem
