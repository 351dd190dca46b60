// SPDX-License-Identifier: BSD-3-Clause
// The flight recorder of an engine: the last 4,096 events, packets above all, in a file that
// outlives a crash of the process (record_folder.hpp). It is always on, and costs some thirty
// instructions a packet. Where no file can be had it records nothing: why() says the reason.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "lib/base/check.hpp"
#include "lib/driver/record/event.hpp"
#include "lib/transport/frame.hpp"
#include "lib/transport/incidents.hpp"
#include "weft/qp.hpp"

namespace weft::driver {

// The packets of a protocol.
struct PacketLayout {
  uint16_t udp_port = 0;      // destination port
  uint16_t place_offset = 8;  // RecordHeader::place_offset, at least 8
  // Bytes from there on that are recorded, 8 at most; all 8 of acknowledgements in the format of
  // RoCE (low five bits of the opcode 0x11 and 0x12).
  uint16_t place_length = 8;
};

// What a record says about its engine.
struct RecordIdentity {
  std::string device;   // device string
  Gid address;          // of the device
  uint32_t engine = 0;  // of the device
};

// Under the driver's lock.
class FlightRecorder {
 public:
  explicit FlightRecorder(const PacketLayout& packets) : packets_(packets) {}
  // Removes the record, unless a request has failed (and not only been flushed).
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Makes the file. Without it, or after an error, nothing is recorded.
  void open(const RecordIdentity& identity, Instant now) noexcept;
  // In a child after fork: the record is the parent's.
  void abandon() noexcept;

  // The file; empty: there is none.
  const std::string& path() const noexcept { return path_; }
  // Why there is none.
  const std::string& why() const noexcept { return why_; }

  void sent(std::span<const transport::TxFrame> frames, Instant now) noexcept {
    if (events_ == nullptr) return;
    for (const transport::TxFrame& frame : frames)
      note_packet(EventKind::sent, frame.head, frame.head_length, frame.length(), frame.ecn,
                  frame.path->destination, now);
    if (now >= clocks_until_) update_clocks(now);
  }
  void received(std::span<const transport::Frame> frames, Instant now) noexcept {
    if (events_ == nullptr) return;
    for (const transport::Frame& frame : frames)
      note_packet(EventKind::received, frame.bytes, frame.length,
                  frame.length + frame.more_length + frame.remote_length, frame.ecn,
                  frame.path->source, now);
    if (now >= clocks_until_) update_clocks(now);
  }
  // Records which counters of exceptions have grown since the last call.
  void counted(const transport::Counters& counters, Instant now) noexcept;
  void happened(const transport::Incident& incident, Instant now) noexcept;
  void changed_state(QpNum qp, QpState state, Instant now) noexcept;
  void destroyed(QpNum qp, Instant now) noexcept;

 private:
  void note_packet(EventKind kind, const std::byte* bytes, uint32_t here, uint32_t length,
                   uint8_t ecn, const Gid& peer, Instant now) noexcept {
    RecordedEvent& event = events_[written_ % kRecordedEvents];
    event.at_ps = now.ps;
    if (here >= packets_.place_offset + sizeof event.place) [[likely]] {
      std::memcpy(&event.head, bytes, sizeof event.head);
      std::memcpy(&event.place, bytes + packets_.place_offset, sizeof event.place);
      const uint32_t operation = static_cast<uint32_t>(bytes[0]) & 0x1F;
      if (operation - 0x11 > 1) event.place &= place_mask_;  // else an AETH follows the BTH
    } else {
      note_short(event, bytes, here);
    }
    std::memcpy(&event.peer, peer.bytes.data() + 12, sizeof event.peer);
    event.about = RecordedEvent::about_of(kind, length, ecn);
    publish();
  }
  void note_short(RecordedEvent& event, const std::byte* bytes, uint32_t here) const noexcept;
  void note(EventKind kind, uint64_t head, uint64_t place, Instant now) noexcept;
  // Lets readers see the event that was written.
  void publish() noexcept { header_->next.store(++written_, std::memory_order_release); }
  void update_clocks(Instant now) noexcept;
  bool make_file(const RecordIdentity& identity, Instant now);

  const PacketLayout packets_;
  RecordedEvent* events_ = nullptr;  // in the file; nullptr: nothing is recorded
  RecordHeader* header_ = nullptr;
  uint64_t written_ = 0;
  uint64_t place_mask_ = 0;  // 0xFF in the first PacketLayout::place_length bytes
  Instant clocks_until_;
  bool kept_ = false;                            // a request has failed
  std::unique_ptr<transport::Counters> before_;  // at the last counted()
  std::string path_, why_;
};

}  // namespace weft::driver
