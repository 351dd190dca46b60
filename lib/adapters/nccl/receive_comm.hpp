// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of a connection: announces posted receives, and counts what is written into
// them.
#pragma once

#include "lib/adapters/nccl/announcement.hpp"
#include "lib/adapters/nccl/comm.hpp"

namespace weft::nccl {

class ReceiveComm final : public Comm {
 public:
  // Creates the queue pairs. Errors: those of the objects.
  static Result<std::unique_ptr<ReceiveComm>> create(const NetDevice& device);
  // The queue pairs first: nothing meets the memory without its keys.
  ~ReceiveComm() override { lanes_.clear(); }

  // See Tables. *request is null if there is no room now.
  Outcome irecv(int count, void* const* data, const size_t* sizes, const int* tags,
                void* const* memories, void** request);

  Access access() const override { return Access::local_write | Access::remote_write; }

 private:
  friend class Bootstrap;
  struct Receive {
    uint32_t arrived = 0;  // parts
    uint32_t parts = 0;    // of the send; 0: none has arrived
    uint32_t most = 0;     // parts that may arrive on a lane; 0: not posted, or complete
    uint64_t size = 0;
    uint64_t bytes = 0;
  };
  // An announcement whose entry of the ring is in use.
  struct Entry {
    bool used = false;
    bool written = false;  // the WRITE of the announcement has completed
    uint32_t sequence = 0;
    uint32_t left = 0;  // receives that are not complete
    Request* request = nullptr;
    std::array<Receive, kMaxReceives> receives{};
  };
  struct Staging {
    std::array<Announcement, kRingSize> entries{};
  };

  ReceiveComm(const NetDevice& device, std::vector<Lane> lanes, std::unique_ptr<Staging> staging,
              MemoryRegion region);

  void on_arrival(const Completion& received) override;
  void on_executed(const Completion& sent) override;
  void on_goodbye(uint32_t) override {}
  uint32_t completed() const override;

  void finish_if_complete(Entry& entry);
  Outcome check(int count, void* const* data, const size_t* sizes, void* const* memories);
  bool fits(const Entry& entry, uint32_t count) const;
  Outcome post(Entry& entry, const Announcement& announcement);

  std::unique_ptr<Staging> staging_;  // announcements while they are being written
  MemoryRegion staging_region_;
  uint64_t ring_address_ = 0;  // of the sender
  RKey ring_rkey_;
  std::array<Entry, kRingSize> entries_{};
  uint32_t next_ = 0;  // number of the next announcement
};

}  // namespace weft::nccl
