// SPDX-License-Identifier: BSD-3-Clause
// What every software provider has behind the provider seam: a device whose protocol machine is
// bound to a port by a driver, its completion queues, regions and domains. A provider adds its
// queue pairs.
#pragma once

#include <atomic>

#include "lib/driver/driver.hpp"
#include "lib/verbs/provider.hpp"

namespace weft::software {

inline constexpr const char* kForked =
    "this device was opened before fork(): the child must open its own";

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
  Xrc(Device device, const driver::Driver& driver, uint32_t id)
      : device_(std::move(device)), driver_(driver), id_(id) {}
  const driver::Driver& driver() const noexcept { return driver_; }
  uint32_t id() const noexcept { return id_; }

 private:
  Device device_;  // kept alive
  const driver::Driver& driver_;
  const uint32_t id_;
};

class Domain : public verbs::Domain {
 public:
  Domain(Device device, driver::Driver& driver, uint32_t id)
      : device_(std::move(device)), driver_(driver), id_(id) {}

  const Device& device() const noexcept override { return device_; }
  Result<std::shared_ptr<verbs::Region>> register_memory(void* base, size_t size,
                                                         Access access) override;

 protected:
  // The rings of a queue pair's completion queues, which must be of this device.
  struct Queues {
    engine::CompletionQueue* send = nullptr;
    engine::CompletionQueue* recv = nullptr;
  };
  Result<Queues> queues_of(const QueuePairOptions& options) const;
  // nullptr: none, or one of another device.
  engine::CompletionQueue* ring_of(const CompletionQueue& handle) const noexcept;

  Device device_;
  driver::Driver& driver_;
  const uint32_t id_;
};

class Context : public verbs::Context {
 public:
  Context(std::unique_ptr<engine::Port> port, const driver::MakeMachine& make,
          const driver::DriverOptions& options, DeviceAttributes attributes)
      : single_thread_(options.single_thread),
        attributes_(std::move(attributes)),
        driver_(std::move(port), make, options) {}

  Result<void> start() { return driver_.start(); }

  const DeviceAttributes& attributes() const noexcept override { return attributes_; }
  Result<std::shared_ptr<verbs::Cq>> create_cq(const Device& device,
                                               const CompletionQueueOptions& options) override;
  void progress() noexcept override { driver_.progress(); }
  Instant now() const noexcept override { return driver_.now(); }
  int event_fd() const noexcept override { return driver_.event_fd(); }
  std::optional<AsyncEvent> next_event() override;
  std::vector<Counter> counters() const override;

 protected:
  // What all machines have in common. False: nobody let us in, and the note says so.
  bool inspect_common(verbs::Inspection& found, const std::atomic<bool>& leaving) const;

  const bool single_thread_;
  DeviceAttributes attributes_;
  mutable driver::Driver driver_;
  std::atomic<uint32_t> next_domain_{1};  // of protection domains, and of XRC domains
};

}  // namespace weft::software
