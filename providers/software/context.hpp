// SPDX-License-Identifier: BSD-3-Clause
// What every software provider has behind the provider seam: a device of one or several engines,
// each a protocol machine that a driver binds to a port of its own, its completion queues, regions
// and domains. A provider adds its queue pairs. How engines stand side by side: README.md.
#pragma once

#include <atomic>

#include "lib/driver/driver.hpp"
#include "lib/verbs/provider.hpp"

namespace weft::software {

inline constexpr const char* kForked =
    "this device was opened before fork(): the child must open its own";

using Drivers = std::vector<std::unique_ptr<driver::Driver>>;  // engine 0 first, never empty

class Cq final : public verbs::Cq {
 public:
  Cq(Device device, driver::Driver& driver, const CompletionQueueOptions& options, bool locked);
  ~Cq() override;
  const Device& device() const noexcept override { return device_; }
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
  Result<std::shared_ptr<verbs::Region>> register_memory(void* base, size_t size,
                                                         Access access) override;

 protected:
  // The rings of a queue pair's completion queues, which must be of one engine of this device.
  struct Queues {
    transport::CompletionQueue* send = nullptr;
    transport::CompletionQueue* recv = nullptr;
    driver::Driver* home = nullptr;  // of both; null: there are none
  };
  Result<Queues> queues_of(const QueuePairOptions& options) const;
  // nullptr: none, or one of another device.
  Cq* cq_of(const CompletionQueue& handle) const noexcept;
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
  // What all machines have in common. False: nobody let us in, and the note says so.
  bool inspect_common(verbs::Inspection& found, const std::atomic<bool>& leaving) const;

  const bool single_thread_;
  DeviceAttributes attributes_;
  Drivers drivers_;                       // as many as ever, until the end
  driver::Driver& driver_;                // of engine 0
  std::atomic<uint32_t> next_domain_{1};  // of protection domains, and of XRC domains

 private:
  int events_ = -1;  // of several engines: readable when an event of one waits
};

}  // namespace weft::software
