// SPDX-License-Identifier: BSD-3-Clause
// Reconnects a memif client whose server has closed to the next server at its socket. The driver
// connects only when a device is started, so the device is stopped and started again, on the EAL's
// control thread (where the driver handles its control messages) and never during a burst.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace weft::port::dpdk {

// Handshake between the control thread, which needs a queue without bursts, and the thread that
// polls the queue. Neither waits: the pause of a queue that is not polled is never granted.
class Pause {
 public:
  // Call before each burst; true: skip it.
  bool holds() noexcept {
    const uint32_t requested = requested_.load(std::memory_order_acquire);
    if (requested == 0) [[likely]]
      return false;
    granted_.store(requested, std::memory_order_release);
    return true;
  }

  // For the control thread. `number`, not 0, identifies a pause; grants of older ones do not count.
  void request(uint32_t number) noexcept { requested_.store(number, std::memory_order_release); }
  bool is_granted(uint32_t number) const noexcept {
    return granted_.load(std::memory_order_acquire) == number;
  }
  void end() noexcept { requested_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> requested_{0}, granted_{0};
};

class Device;

class MemifReconnect {
 public:
  // For `device`, a started client of `socket`. Polls on the control thread until the link is up,
  // and again after start(). Destroyed on that thread too.
  MemifReconnect(const Device& device, std::string socket);
  ~MemifReconnect();
  MemifReconnect(const MemifReconnect&) = delete;
  MemifReconnect& operator=(const MemifReconnect&) = delete;

  Pause& pause(uint16_t queue) noexcept { return pauses_[queue]; }
  // Schedules reconnection, since the link is down. Any thread; repeated calls are cheap.
  void start() noexcept {
    if (!scheduled_.exchange(true)) schedule();
  }

 private:
  static void run_of(void* self) noexcept;
  void schedule() noexcept;
  void try_reconnect() noexcept;
  void pause() noexcept;
  bool all_agreed() const noexcept;
  void restart() noexcept;
  void resume() noexcept;

  const Device& device_;
  const std::string socket_;
  const std::unique_ptr<Pause[]> pauses_;  // of each queue
  uint32_t number_ = 0;                    // of the last pause
  bool pausing_ = false;
  bool was_up_ = false;  // since the last start
  std::atomic<bool> scheduled_{true};
};

}  // namespace weft::port::dpdk
