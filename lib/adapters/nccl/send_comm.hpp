// SPDX-License-Identifier: BSD-3-Clause
// The sending end of a connection: takes announcements of receives, and writes payload into them.
#pragma once

#include "lib/adapters/nccl/announcement.hpp"
#include "lib/adapters/nccl/comm.hpp"

namespace weft::nccl {

class SendComm final : public Comm {
 public:
  // Creates the queue pairs and the ring. Errors: those of the objects.
  static Result<std::unique_ptr<SendComm>> create(const NetDevice& device);
  // The queue pairs first: nothing meets the ring without its keys.
  ~SendComm() override { lanes_.clear(); }

  // See Tables. *request is null if there is no receive for this tag yet, or no room.
  Outcome isend(const void* data, size_t size, int tag, const Memory* memory, void** request);

  Access access() const override { return Access::none; }

 private:
  friend class Bootstrap;
  struct Ring {
    std::array<Announcement, kRingSize> entries{};
  };
  // A copy of what the receiver wrote, which it cannot change any more.
  struct Arrival {
    bool arrived = false;
    uint32_t matched = 0;  // bit i: receive i has its send
    Announcement announcement;
  };
  struct Part {
    size_t lane = 0, offset = 0;
    uint32_t length = 0;
  };

  SendComm(const NetDevice& device, std::vector<Lane> lanes, std::unique_ptr<Ring> ring,
           MemoryRegion region);

  void on_arrival(const Completion& received) override;
  void on_executed(const Completion& sent) override;
  void on_goodbye(uint32_t completed) override;
  uint32_t completed() const override { return 0; }

  // Of the oldest announcement that has receives without a send.
  Arrival& oldest() { return arrivals_[next_ % kRingSize]; }
  bool is_possible(const Announcement& announcement) const;
  static int receive_for(const Arrival& arrival, int tag);
  bool divide(size_t size);
  Outcome write_parts(Request& request, const std::byte* data, const Memory* memory,
                      const AnnouncedReceive& to, uint32_t receive);
  void advance(uint32_t receive);

  std::unique_ptr<Ring> ring_;
  MemoryRegion ring_region_;
  std::array<Arrival, kRingSize> arrivals_{};
  uint32_t next_ = 0;              // number of the announcement that sends are matched to
  uint32_t next_lane_ = 0;         // for sends that are not divided
  std::vector<Part> parts_;        // of the send at hand
  std::vector<Request*> sending_;  // requests that are not done
};

}  // namespace weft::nccl
