// SPDX-License-Identifier: BSD-3-Clause
// The faults of a device on a time line (fault.timeline=FILE): a thread changes the faults of
// frames and does to the objects of verbs what the file says, each at its time after the device was
// opened. A device without a time line has no such thread.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/driver/driver.hpp"
#include "providers/port/middleware/fault_port.hpp"

namespace weft::software {

using Drivers = std::vector<std::unique_ptr<driver::Driver>>;  // engine 0 first, never empty

class DeviceFaults {
 public:
  // Moves the queue pairs of an engine to ERR, under its lock.
  using FailQueuePairs = std::function<void(driver::Driver& driver, bool raises)>;

  DeviceFaults(const Drivers& drivers, FailQueuePairs fail)
      : drivers_(drivers), fail_queue_pairs_(std::move(fail)) {}
  // stop() was called.
  ~DeviceFaults();
  DeviceFaults(const DeviceFaults&) = delete;
  DeviceFaults& operator=(const DeviceFaults&) = delete;

  // Starts the thread if there is a time line. Errors: invalid_argument (single_thread=1),
  // no_memory.
  Result<void> start(const std::string& spec, bool single_thread);
  // `forked`: in the child of a fork, which has no thread.
  void stop(bool forked) noexcept;

  // What has happened. From any thread.
  bool port_is_down() const noexcept { return port_down_ || removed_; }
  bool gid_is_gone() const noexcept { return gid_gone_; }
  bool device_is_removed() const noexcept { return removed_; }
  // fault_port_down and so on, of a device with a time line.
  void append_counters(std::vector<Counter>& counters) const;

 private:
  using Event = middleware::FaultEvent;
  void run();
  void apply(const middleware::FaultStep& step);
  void apply_to(driver::Driver& driver, const middleware::FaultStep& step);
  void note(Event event) noexcept;
  void release_completions();
  void log(const middleware::FaultStep& step) const;

  const Drivers& drivers_;
  const FailQueuePairs fail_queue_pairs_;
  std::string spec_;
  middleware::FaultTimeline steps_;
  std::atomic<bool> port_down_{false}, gid_gone_{false}, removed_{false};
  std::array<std::atomic<uint64_t>, middleware::kFaultEventEnd> counts_{};
  Instant begin_;
  Instant release_at_ = Instant::never();  // when completions are no longer held; of the thread

  int stop_fd_ = -1;  // readable: the thread is to end
  std::thread thread_;
};

}  // namespace weft::software
