// SPDX-License-Identifier: BSD-3-Clause
// An open device: a domain of libfabric, the regions registered with it, and a thread that makes
// progress where libfabric's provider makes none by itself (FI_PROGRESS_MANUAL): for peers that
// read our memory while the program does something else.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lib/base/fork.hpp"
#include "lib/verbs/provider.hpp"
#include "providers/libfabric/fabric.hpp"

namespace weft::libfabric {

class Cq;
class Region;

inline constexpr const char* kForked =
    "this device was opened before fork(): the child must open its own";

class Context final : public verbs::Context {
 public:
  Context(Info info, Owned<fid_fabric> fabric, Owned<fid_domain> domain, Owned<fid_av> addresses,
          DeviceAttributes attributes, bool confirms);
  ~Context() override;

  const DeviceAttributes& attributes() const noexcept override { return attributes_; }
  Result<std::shared_ptr<verbs::Domain>> create_domain(const Device& device) override;
  Result<std::shared_ptr<verbs::Cq>> create_cq(const Device& device,
                                               const CompletionQueueOptions& options) override;
  void progress() noexcept override;
  Instant now() const noexcept override;
  int event_fd() const noexcept override { return event_fd_; }
  std::optional<AsyncEvent> next_event() override;
  std::vector<Counter> counters() const override;

  bool forked() const noexcept { return mark_.passed(); }
  fi_info& info() const noexcept { return *info_; }
  fid_domain& domain() const noexcept { return *domain_; }
  fid_av& addresses() const noexcept { return *addresses_; }
  // Flags of each SEND and WRITE: its completion says that the peer has it, or that it left.
  uint64_t confirmation() const noexcept { return confirmation_; }

  // Queues an asynchronous event.
  void raise(const AsyncEvent& event) noexcept;

  // Completion queues that the thread looks after.
  void enter(Cq& cq);
  void leave(Cq& cq) noexcept;
  // Starts the thread, where it is needed: with the first queue pair.
  void need_progress();

  // Held while objects of libfabric are made, closed or told of peers: not all of its providers
  // bear that while a queue is read. Drains are short, and none begins while this is waited for.
  class Control {
   public:
    explicit Control(const Context& context) : context_(context) {
      ++context_.controls_;
      context_.control_.lock();
    }
    ~Control() {
      context_.control_.unlock();
      --context_.controls_;
    }
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;

   private:
    const Context& context_;
  };
  // What a drain holds; without the lock: not now.
  std::shared_lock<std::shared_mutex> try_drain() const noexcept {
    if (controls_ != 0) return {};
    return std::shared_lock(control_, std::try_to_lock);
  }

  // Regions by their local key.
  LKey enter(Region& region);
  void leave(LKey key) noexcept;
  // The region of `key` if it has [address, +length) and belongs to `owner`; null: it does not.
  fid_mr* find(LKey key, const verbs::Domain& owner, const void* address, uint32_t length,
               bool written) const noexcept;

  // Counted by queue pairs and completion queues.
  std::atomic<uint64_t> sends{0}, receives{0}, errors{0}, delayed{0}, overruns{0};

 private:
  void run() noexcept;

  const Info info_;
  const Owned<fid_fabric> fabric_;
  const Owned<fid_domain> domain_;
  const Owned<fid_av> addresses_;
  const DeviceAttributes attributes_;
  const uint64_t confirmation_;
  const base::ForkMark mark_;
  int event_fd_ = -1;  // readable while there are events
  std::mutex events_mutex_;
  std::deque<AsyncEvent> events_;
  mutable std::shared_mutex control_;
  mutable std::atomic<uint32_t> controls_{0};
  mutable std::shared_mutex regions_mutex_;
  std::unordered_map<uint32_t, Region*> regions_;
  uint32_t next_key_ = 1;
  std::mutex cqs_mutex_;
  std::vector<Cq*> cqs_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace weft::libfabric
