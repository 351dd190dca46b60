// SPDX-License-Identifier: BSD-3-Clause
// The device of a software provider, with one or several engines: each is a protocol machine that a
// driver joins to a port of its own. Completion queues, regions and domains are here; a provider
// adds its queue pairs. Several engines: README.md.
#pragma once

#include <atomic>

#include "lib/driver/driver.hpp"
#include "lib/verbs/provider.hpp"
#include "providers/software/device_faults.hpp"

namespace weft::software {

inline constexpr const char* kForked =
    "this device was opened before fork(): the child must open its own";

class Cq final : public verbs::Cq {
 public:
  Cq(Device device, driver::Driver& driver, const CompletionQueueOptions& options, bool locked,
     uint32_t number);
  ~Cq() override;
  const Device& device() const noexcept override { return device_; }
  uint32_t number() const noexcept override { return handle_.ring.number(); }
  size_t poll(std::span<Completion> out) noexcept override { return driver_.poll(handle_, out); }
  size_t poll(std::span<Completion> out, std::span<Instant> times) noexcept override {
    return driver_.poll(handle_, out, times.data());
  }
  void arm(Notify notify) noexcept override { driver_.arm(handle_, notify); }
  int fd() const noexcept override { return handle_.event_fd; }
  void acknowledge() noexcept override;
  uint32_t capacity() const noexcept override { return handle_.ring.capacity(); }
  Result<bool> resize(uint32_t capacity) override;
  Result<void> moderate(const CqModeration& moderation) override;
  driver::CqHandle& handle() noexcept { return handle_; }
  driver::Driver& driver() noexcept { return driver_; }

 private:
  Device device_;
  driver::Driver& driver_;
  driver::CqHandle handle_;
};

class Xrc final : public verbs::Xrc {
 public:
  Xrc(Device device, driver::Driver& driver, uint32_t id)
      : device_(std::move(device)), driver_(driver), id_(id) {}
  driver::Driver& driver() const noexcept { return driver_; }
  uint32_t id() const noexcept { return id_; }

 private:
  Device device_;  // kept alive
  driver::Driver& driver_;
  const uint32_t id_;
};

class Domain : public verbs::Domain {
 public:
  Domain(Device device, const Drivers& drivers, uint32_t id)
      : device_(std::move(device)), drivers_(drivers), driver_(*drivers.front()), id_(id) {}

  const Device& device() const noexcept override { return device_; }
  Result<std::shared_ptr<verbs::Region>> register_memory(void* base, size_t size, uint64_t iova,
                                                         Access access) override;
  Result<std::shared_ptr<verbs::Region>> create_null_region() override;

  // The number of the domain if it is of these engines, 0 if it is of another device.
  uint32_t id_on(const Drivers& drivers) const noexcept { return &drivers == &drivers_ ? id_ : 0; }

 protected:
  // The completion queues of a queue pair, which must be on one engine of this device.
  struct Queues {
    transport::CompletionQueue* send = nullptr;
    transport::CompletionQueue* recv = nullptr;
    driver::Driver* home = nullptr;  // the driver of both; null: there are no completion queues
  };
  Result<Queues> queues_of(const QueuePairOptions& options) const;
  // nullptr: an empty handle, or a queue of another device.
  Cq* cq_of(const CompletionQueue& handle) const noexcept;
  Result<std::shared_ptr<verbs::Region>> make_region(memory::Registration registration);
  bool is_ours(const driver::Driver& driver) const noexcept;
  bool forked() const noexcept { return driver_.forked(); }

  Device device_;
  const Drivers& drivers_;  // the context's
  driver::Driver& driver_;  // of engine 0
  const uint32_t id_;
};

class Context : public verbs::Context {
 public:
  using Ports = std::vector<std::unique_ptr<transport::Port>>;

  // One engine for each port.
  Context(Ports ports, const driver::MakeMachine& make, const driver::DriverOptions& options,
          DeviceAttributes attributes);
  ~Context() override;

  Result<void> start();

  const DeviceAttributes& attributes() const noexcept override { return attributes_; }
  Result<PortAttributes> query_port() const override;
  Result<std::vector<GidTableEntry>> query_gid_table() const override;
  Result<std::shared_ptr<verbs::Cq>> create_cq(const Device& device,
                                               const CompletionQueueOptions& options) override;
  void progress() noexcept override {
    if (drivers_.size() == 1) return driver_.progress();
    for (const auto& driver : drivers_) driver->progress();
  }
  Instant now() const noexcept override { return driver_.now(); }
  int event_fd() const noexcept override { return events_ >= 0 ? events_ : driver_.event_fd(); }
  std::optional<AsyncEvent> next_event() override;
  std::vector<Counter> counters() const override;

 protected:
  // Moves all queue pairs of an engine to ERR, with an event if `raises`. Under its lock.
  virtual void fail_queue_pairs(driver::Driver& driver, bool raises) = 0;
  // Before the destructor of a derived class ends.
  void stop_faults() noexcept { faults_.stop(driver_.forked()); }
  // Counters and events. False: the lock could not be taken, and the note says so.
  bool inspect_common(verbs::Inspection& found, const std::atomic<bool>& closing) const;

  // Whether objects can be created.
  Result<void> usable() const;

  const bool single_thread_;
  DeviceAttributes attributes_;
  Drivers drivers_;                       // does not change until destruction
  driver::Driver& driver_;                // of engine 0
  std::atomic<uint32_t> next_domain_{1};  // number of the next protection or XRC domain
  std::atomic<uint32_t> next_cq_{1};      // number of the next completion queue
  DeviceFaults faults_;

 private:
  int events_ = -1;  // several engines: readable when one of them has an event
};

}  // namespace weft::software
