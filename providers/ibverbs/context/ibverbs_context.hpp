// SPDX-License-Identifier: BSD-3-Clause
// The `ibverbs` provider: one port of a real RDMA device behind the provider seam. The device makes
// all progress, so there is no thread, lock or engine here: calls are translated and passed to
// libibverbs. Objects hold a Device handle, which keeps the context alive until they are destroyed.
#pragma once

#include "lib/verbs/provider.hpp"
#include "providers/ibverbs/context/library.hpp"

namespace weft::ibverbs {

inline constexpr const char* kForked =
    "this device was opened before fork(): the child must open its own";

// Which part of a device is used, and how.
struct PortChoice {
  uint8_t port = 1;
  uint8_t gid_index = 0;
  uint8_t max_retry_count = 7;  // rxe takes 7 for "for ever": a dead peer would never be noticed
};

struct EfaSrd;

class Context final : public verbs::Context {
 public:
  // `siw_reserved_cq`: of reserve_siw_mmap_key(), kept until the end. `cm_library`: the name of a
  // librdmacm. `srd`: of an EFA that was opened for SRD, else null.
  Context(const Library& library, Owned<ibv_context> context, Owned<ibv_cq> siw_reserved_cq,
          PortChoice choice, DeviceAttributes attributes, std::string cm_library,
          std::shared_ptr<EfaSrd> srd);

  const DeviceAttributes& attributes() const noexcept override { return attributes_; }
  Result<std::shared_ptr<verbs::Domain>> create_domain(const Device& device) override;
  Result<std::shared_ptr<verbs::Cq>> create_cq(const Device& device,
                                               const CompletionQueueOptions& options) override;
  Result<std::shared_ptr<verbs::Xrc>> create_xrc(const Device& device, uint32_t engine) override;
  Result<std::shared_ptr<verbs::CmChannel>> create_cm_channel(const Device& device) override;
  Result<PortAttributes> query_port() const override;
  Result<std::vector<GidTableEntry>> query_gid_table() const override;
  void progress() noexcept override {}
  Instant now() const noexcept override;
  int event_fd() const noexcept override { return context_->async_fd; }
  std::optional<AsyncEvent> next_event() override;
  std::vector<Counter> counters() const override;
  std::optional<Gid> peer_address(uint32_t number) const override;

  const Library& library() const noexcept { return library_; }
  ibv_context* raw() const noexcept { return context_.get(); }
  const PortChoice& choice() const noexcept { return choice_; }
  EfaSrd* srd() const noexcept { return srd_.get(); }
  bool forked() const noexcept { return mark_.passed(); }

 private:
  const Library& library_;
  const Owned<ibv_context> context_;
  const Owned<ibv_cq> siw_reserved_cq_;
  const PortChoice choice_;
  const DeviceAttributes attributes_;
  const std::string cm_library_;
  const std::shared_ptr<EfaSrd> srd_;
  const base::ForkMark mark_;
  std::vector<std::pair<std::string, std::string>> counters_;  // name, file
};

}  // namespace weft::ibverbs
