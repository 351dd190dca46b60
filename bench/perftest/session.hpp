// SPDX-License-Identifier: BSD-3-Clause
// The resources of a measurement: an open device, connected queue pairs, registered memory on both
// sides. open() does everything before the first message, on the server and on the client.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/perftest/control.hpp"
#include "bench/perftest/meeting.hpp"
#include "bench/perftest/options.hpp"
#include "weft/weft.hpp"

namespace weft::bench {

// An anonymous mapping, unmapped by the destructor.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& o) noexcept : data_(o.data_), size_(o.size_) { o.data_ = nullptr; }
  Pages& operator=(Pages&& o) noexcept;
  ~Pages();
  static Result<Pages> map(size_t size);
  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// One queue pair and its part of the memory. `source`: data to send or write, and the target of the
// peer's READs and atomics; `target`: where SENDs, WRITEs and results of READs and atomics arrive.
struct Lane {
  QueuePair qp;
  QueuePair in;  // XRC: target of the peer's initiator
  std::byte* source = nullptr;
  std::byte* target = nullptr;
  AddressHandle to;  // UD: the peer's address, with peer_qpn
  QpNum peer_qpn;
  uint64_t peer_source = 0;
  uint64_t peer_target = 0;
};

struct Session {
  Options options;
  Device device;
  ProtectionDomain pd;
  CompletionQueue send_cq;
  CompletionQueue recv_cq;
  XrcDomain xrc;
  SharedReceiveQueue pool;  // of all lanes, with --use-srq
  Pages pages;
  MemoryRegion region;
  std::vector<Lane> lanes;
  std::unique_ptr<Meeting> meeting;
  std::unique_ptr<Control> control;
  size_t area = 0;    // bytes of a lane's source, and of its target
  size_t header = 0;  // UD: bytes of the network header, before each message that arrives
  uint32_t inline_limit = 0;
  RKey peer_rkey;
  uint32_t peer_srq = 0;  // XRC
  Gid peer_gid;
  uint32_t path_mtu = 0;
  // Latency runs number requests across sizes: a completion may arrive during the next size.
  uint64_t posted = 0;
  uint64_t completed = 0;

  static Result<Session> open(const Options& options);

  // Messages of `size` start at multiples of this.
  uint64_t stride(uint64_t size) const { return (size + header + 63) / 64 * 64; }
  // The number of messages of `size` that have their own buffers.
  uint64_t slots(uint64_t size) const { return area / stride(size); }
  Sge sge(const std::byte* at, uint64_t size) const {
    return region.sge(static_cast<size_t>(at - pages.data()), static_cast<uint32_t>(size));
  }
  // What a receive at `at` of a lane's target needs for a message of `size`.
  Sge receive_sge(const std::byte* at, uint64_t size) const {
    return sge(at - header, size + header);
  }
  PostStatus post_receives(const Lane& lane, std::span<const RecvRequest> requests) const noexcept {
    return pool ? pool.post_recv(requests) : lane.qp.post_recv(requests);
  }
  bool is_active() const { return !options.is_server() || options.bidirectional; }
  bool is_passive() const { return options.is_server() || options.bidirectional; }

 private:
  Session(Options o, Device d, ProtectionDomain p)
      : options(std::move(o)), device(std::move(d)), pd(std::move(p)) {}
  Result<void> check_sizes() const;
  Result<void> make_memory();
  Result<void> make_queues();
  Result<void> share_receives();
  Result<void> make_lanes();
  Result<void> connect_all();
  Result<void> connect_lane(Lane& lane, const ConnectOptions& how);
  Result<void> accept_introduction(const Connection& connection);
};

}  // namespace weft::bench
