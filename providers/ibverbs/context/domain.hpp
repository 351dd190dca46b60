// SPDX-License-Identifier: BSD-3-Clause
// Protection domains of a device: memory and windows on it, shared receive queues, queue pairs, and
// the address handles of datagrams.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "providers/ibverbs/context/ibverbs_context.hpp"

namespace weft::ibverbs {

class Window;

// The windows of a domain that are there. Its mutex is held while one is bound or freed.
struct Windows {
  std::mutex mutex;
  std::set<Window*> all;
};

class Domain final : public verbs::Domain, public std::enable_shared_from_this<Domain> {
 public:
  Domain(const Device& device, const Context& context, Owned<ibv_pd> pd)
      : device_(device), context_(context), pd_(std::move(pd)) {}

  const Device& device() const noexcept override { return device_; }
  Result<std::shared_ptr<verbs::Region>> register_memory(void* base, size_t size, uint64_t iova,
                                                         Access access) override;
  Result<std::shared_ptr<verbs::Region>> create_null_region() override;
  Result<std::shared_ptr<verbs::Region>> register_dmabuf(int fd, uint64_t offset, size_t size,
                                                         Access access, void* at) override;
  Result<std::shared_ptr<verbs::Window>> create_window(WindowType type, uint32_t engine) override;
  Result<std::shared_ptr<verbs::Srq>> create_srq(const SharedReceiveQueueOptions& options) override;
  Result<std::shared_ptr<verbs::Qp>> create_qp(const QueuePairOptions& options) override;

  const Context& context() const noexcept { return context_; }
  ibv_pd* raw() const noexcept { return pd_.get(); }
  Windows& windows() noexcept { return windows_; }

  // The device's handle of a path, made with its first datagram and kept as long as the domain: a
  // public AddressHandle is a value. nullptr (errno says why) if the device has none.
  ibv_ah* address_handle(const AddressVector& path) noexcept;
  // SRD: creates an address handle for a peer that sends to us, up to a limit, since any peer can
  // send; later peers get one when something is sent to them.
  static constexpr uint32_t kMostMet = 4096;
  void add_peer(const Gid& address) noexcept;
  // SRD: the address of a handle of this domain, by the device's number of it.
  std::optional<Gid> address_of_handle(uint16_t handle) const noexcept;

 private:
  using PathKey = std::tuple<Gid, uint32_t, uint8_t, uint8_t, int64_t>;

  ibv_ah* find_or_make(const AddressVector& path) noexcept;  // with the lock held

  const Device device_;
  const Context& context_;  // the device's
  const Owned<ibv_pd> pd_;
  Windows windows_;
  mutable std::mutex mutex_;
  std::map<PathKey, Owned<ibv_ah>> handles_;
  uint32_t added_peers_ = 0;           // handles that add_peer() made, or tried to
  std::map<uint16_t, Gid> addresses_;  // SRD: by the device's number of a handle
};

}  // namespace weft::ibverbs
