// SPDX-License-Identifier: BSD-3-Clause
// See memif_reconnect.hpp.
#include "providers/port/dpdk/memif_reconnect.hpp"

#include <rte_alarm.h>
#include <rte_ethdev.h>

#include <utility>

#include "providers/port/dpdk/device.hpp"
#include "providers/port/dpdk/unix_socket.hpp"

namespace weft::port::dpdk {
namespace {

constexpr uint64_t kPeriod_us = 100'000;

}  // namespace

MemifReconnect::MemifReconnect(const Device& device, std::string socket)
    : device_(device), socket_(std::move(socket)), pauses_(new Pause[device.queues()]) {
  schedule();
}

// Waits for try_reconnect(), unless this is the thread that it runs on.
MemifReconnect::~MemifReconnect() { (void)rte_eal_alarm_cancel(run_of, this); }

void MemifReconnect::schedule() noexcept {
  if (rte_eal_alarm_set(kPeriod_us, run_of, this) != 0)
    scheduled_.store(false);  // start() tries again
}

// An alarm takes memory each time: none while all is well.
void MemifReconnect::run_of(void* self) noexcept {
  MemifReconnect& self_ = *static_cast<MemifReconnect*>(self);
  self_.try_reconnect();
  if (!self_.pausing_ && self_.device_.link_is_up())
    self_.scheduled_.store(false);
  else
    self_.schedule();
}

// A server that has not accepted us yet is left alone: see memif_await_link(). The device is
// stopped a period after its link was seen down, at the earliest: by then the control thread has
// done with the events of descriptors that went with the link, whose numbers new ones get.
void MemifReconnect::try_reconnect() noexcept {
  if (device_.link_is_up()) {
    was_up_ = true;
    if (pausing_) resume();
    return;
  }
  if (!has_listener(socket_) || (!was_up_ && is_connected(socket_))) return;
  if (!pausing_) return pause();
  if (all_agreed()) restart();
}

void MemifReconnect::pause() noexcept {
  pausing_ = true;
  if (++number_ == 0) ++number_;
  for (uint16_t queue = 0; queue < device_.queues(); ++queue) pauses_[queue].request(number_);
}

bool MemifReconnect::all_agreed() const noexcept {
  for (uint16_t queue = 0; queue < device_.queues(); ++queue)
    if (!pauses_[queue].is_granted(number_)) return false;
  return true;
}

// If the server exits meanwhile, the device stays stopped until another one listens.
void MemifReconnect::restart() noexcept {
  was_up_ = false;
  if (rte_eth_dev_stop(device_.port()) == 0 && rte_eth_dev_start(device_.port()) == 0) resume();
}

void MemifReconnect::resume() noexcept {
  for (uint16_t queue = 0; queue < device_.queues(); ++queue) pauses_[queue].end();
  pausing_ = false;
}

}  // namespace weft::port::dpdk
