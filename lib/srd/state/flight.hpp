// SPDX-License-Identifier: BSD-3-Clause
// What is in flight to one peer: a record per packet from the oldest unacknowledged one on, and
// the state of the paths and of congestion control. Taken from a pool when something is sent; idle
// peers keep theirs unless there are many. Records are a ring that doubles when it is full, so that
// a peer with few packets in flight touches few cache lines.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/srd/state/flow.hpp"
#include "lib/srd/state/message.hpp"
#include "lib/srd/state/path_set.hpp"
#include "weft/units.hpp"

namespace weft::srd {

// Sequence numbers that may be in use at once: what the receiver's bitmap holds.
inline constexpr uint32_t kWindow = 1024;

struct Record {
  enum class State : uint8_t { free, in_flight, lost, acked };
  enum class Kind : uint8_t { data, fill, abort };
  State state = State::free;
  Kind kind = Kind::data;
  uint8_t path = 0;
  uint8_t tries = 0;  // transmissions
  uint16_t path_sequence = 0;
  uint16_t older = 0, newer = 0;  // in the RecordList of its state: kNone or an index
  uint32_t offset = 0;            // of its payload in the message
  uint32_t length = 0;
  uint32_t before_us = 0;      // retransmitted: from the previous transmission to this one
  Message* message = nullptr;  // null: a probe, or its message has ended
  Instant sent;

  // Whether congestion control counts it. Fills are small, probe bad paths, and the stream waits
  // for them: they neither wait for a window nor fill one.
  bool counts() const { return kind != Kind::fill; }
};

// A list through Record::older and Record::newer.
struct RecordList {
  static constexpr uint16_t kNone = 0xFFFF;
  uint16_t oldest = kNone, newest = kNone;
  bool empty() const { return oldest == kNone; }
};

class Flight {
 public:
  Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  Record& operator[](uint64_t sequence) { return records_[sequence & mask_]; }
  const Record& operator[](uint64_t sequence) const { return records_[sequence & mask_]; }
  Record& at(uint16_t index) {
    WEFT_DCHECK(index <= mask_);
    return records_[index];
  }
  uint32_t capacity() const { return mask_ + 1; }
  // The sequence number of the record at `index`, where `una` is the oldest one.
  uint64_t sequence_at(uint16_t index, uint64_t una) const { return una + ((index - una) & mask_); }

  // A record for packet `next`, behind those of [una, next). Null: there is no memory for more.
  Record* begin(uint64_t una, uint64_t next) noexcept {
    WEFT_DCHECK(una <= next && next - una < kWindow);
    if (next - una > mask_ && !grow(una, next)) return nullptr;
    return &((*this)[next] = Record{});
  }
  // Gives back the records that only many packets in flight need. None is in flight.
  void shrink() {
    WEFT_DCHECK(in_flight.empty() && lost.empty());
    mask_ = kFirstRoom - 1;
    records_ = first_.data();
    more_.reset();
  }

  void append(RecordList& list, uint64_t sequence) {
    const auto index = static_cast<uint16_t>(sequence & mask_);
    Record& r = records_[index];
    WEFT_DCHECK(list.empty() == (list.newest == RecordList::kNone));
    r.older = list.newest;
    r.newer = RecordList::kNone;
    (list.newest != RecordList::kNone ? records_[list.newest].newer : list.oldest) = index;
    list.newest = index;
  }
  void remove(RecordList& list, uint64_t sequence) {
    Record& r = (*this)[sequence];
    WEFT_DCHECK(!list.empty());
    WEFT_DCHECK(r.older != RecordList::kNone || &records_[list.oldest] == &r);
    WEFT_DCHECK(r.newer != RecordList::kNone || &records_[list.newest] == &r);
    (r.older != RecordList::kNone ? records_[r.older].newer : list.oldest) = r.newer;
    (r.newer != RecordList::kNone ? records_[r.newer].older : list.newest) = r.older;
  }
  // Clears the records of [begin, end) and both lists.
  void clear(uint64_t begin, uint64_t end) {
    WEFT_DCHECK(begin <= end && end - begin <= capacity());
    in_flight = lost = RecordList{};
    for (uint64_t sequence = begin; sequence != end; ++sequence) (*this)[sequence] = Record{};
  }

  RecordList in_flight;  // oldest transmission first
  RecordList lost;       // to be retransmitted, first lost first
  PathSet paths;
  Flow flow;

 private:
  static constexpr uint32_t kFirstRoom = 16;

  bool grow(uint64_t una, uint64_t next) noexcept {
    const uint32_t mask = 2 * mask_ + 1;
    std::unique_ptr<Record[]> records(new (std::nothrow) Record[mask + size_t{1}]);
    if (records == nullptr) return false;
    const auto moved = [&](uint16_t index) {
      if (index == RecordList::kNone) return index;
      return static_cast<uint16_t>(sequence_at(index, una) & mask);
    };
    for (uint64_t sequence = una; sequence != next; ++sequence) {
      Record& r = records[sequence & mask] = (*this)[sequence];
      r.older = moved(r.older);
      r.newer = moved(r.newer);
    }
    for (RecordList* list : {&in_flight, &lost}) *list = {moved(list->oldest), moved(list->newest)};
    first_ = {};
    more_ = std::move(records);
    records_ = more_.get();
    mask_ = mask;
    return true;
  }

  uint32_t mask_ = kFirstRoom - 1;
  std::array<Record, kFirstRoom> first_;
  Record* records_ = first_.data();
  std::unique_ptr<Record[]> more_;  // instead of them
};

// Unused flights. Keeps a few: memory follows the number of active peers.
class FlightPool {
 public:
  FlightPool() { free_.reserve(kKeep); }
  // Throws std::bad_alloc.
  std::unique_ptr<Flight> take() {
    if (free_.empty()) return std::unique_ptr<Flight>(new Flight);
    std::unique_ptr<Flight> flight = std::move(free_.back());
    free_.pop_back();
    return flight;
  }
  // Nothing is in flight in it.
  void give(std::unique_ptr<Flight> flight) {
    WEFT_DCHECK(flight != nullptr && flight->in_flight.empty() && flight->lost.empty());
    if (free_.size() < kKeep) free_.push_back(std::move(flight));
  }

 private:
  static constexpr size_t kKeep = 16;
  std::vector<std::unique_ptr<Flight>> free_;
};

}  // namespace weft::srd
