// SPDX-License-Identifier: BSD-3-Clause
// What both ends of a connection have: lanes, the TCP connection that shows whether the peer lives
// (or, where a cut path takes it away from a device with others, empty WRITEs), requests, and the
// error in which the connection has ended, if it has. A connection carries data one way, from a
// SendComm to a ReceiveComm. One thread at a time, but for registration of memory.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/adapters/nccl/calls.hpp"
#include "lib/adapters/nccl/control.hpp"
#include "lib/adapters/nccl/lane.hpp"

namespace weft::nccl {

class Comm;

// What isend() and irecv() return, until test() has said that it is done.
struct Request {
  Comm* comm = nullptr;
  Request* next_free = nullptr;
  bool done = false;
  int count = 1;                               // sub-receives; of a send 1
  uint32_t sequence = 0;                       // number of the announcement that it belongs to
  uint32_t parts_left = 0;                     // WRITEs of a send without completion
  std::array<uint64_t, kMaxReceives> sizes{};  // bytes that were transferred
};

// Registered memory, for all lanes of the device.
struct Memory {
  std::vector<MemoryRegion> regions;
  void* address = nullptr;
  size_t size = 0;

  bool contains(const void* data, size_t length) const;
};

class Comm {
 public:
  Comm(const NetDevice& device, std::vector<Lane> lanes, size_t requests);
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // Registers memory of this process for the data of this connection; `access` of the region.
  Result<Memory*> register_memory(void* data, size_t size, Access access) const;
  Result<Memory*> register_dmabuf(void* data, size_t size, uint64_t offset, int fd,
                                  Access access) const;

  // Handles completions and what the peer says. After an error it returns that error only.
  Outcome progress();
  // See Tables::test. Releases the request if it is done.
  Outcome test(Request& request, int* done, int* sizes);
  // Tells the peer that this end closes. The destructor does not.
  void say_goodbye();

  virtual Access access() const = 0;

 protected:
  friend class Bootstrap;

  // A WRITE with immediate data of the peer has arrived.
  virtual void on_arrival(const Completion& received) = 0;
  // A request of ours has been executed.
  virtual void on_executed(const Completion& sent) = 0;
  // The peer has closed; requests before `completed` have all their data.
  virtual void on_goodbye(uint32_t completed) = 0;
  // See emit_goodbye.
  virtual uint32_t completed() const = 0;

  // Whether the connection has neither failed nor been left by the peer.
  bool is_open() const { return outcome_ == Outcome::success && gone_ms_ == 0; }
  Request* take_request();
  void release(Request& request);
  // The first error counts: it is logged, told to the peer, and returned from then on.
  Outcome fail(Outcome outcome, const std::string& text);
  // After post_send() or post_recv() has refused.
  Outcome fail_post(const PostStatus& status);

  const NetDevice& device_;
  std::vector<Lane> lanes_;
  Control control_;
  std::string peer_ = "the peer";  // for messages
  uint32_t part_size_ = 0;         // bytes of one WRITE, at most

 private:
  struct Failure {
    Status status = Status::success;
    int64_t since_ms = 0;
  };

  void poll(Lane& lane);
  void on_completion(Lane& lane, const Completion& completion);
  void on_receive(Lane& lane, const Completion& received);
  void look_at_peer();
  void receive_from_peer();
  void peer_is_gone(const std::string& why);
  void lose_control(const std::string& why);
  void beat();

  std::vector<Request> requests_;
  Request* free_ = nullptr;
  Outcome outcome_ = Outcome::success;
  int64_t next_look_ms_ = 0;
  bool saw_other_sender_ = false;
  int64_t gone_ms_ = 0;  // when the peer closed or ended; 0: it has not
  std::string gone_why_;
  std::optional<Failure> failure_;  // the first
  bool has_control_ = true;         // TCP: false once it is lost while other paths may be there
  int64_t next_beat_ms_ = 0;        // of beat()
};

// Milliseconds of the monotonic clock, at the cost of a memory access; steps of up to 4 ms.
int64_t coarse_ms();

}  // namespace weft::nccl
