// SPDX-License-Identifier: BSD-3-Clause
// See memif_return.hpp.
#include "providers/port/dpdk/memif_return.hpp"

#include <rte_alarm.h>
#include <rte_ethdev.h>

#include <utility>

#include "providers/port/dpdk/device.hpp"
#include "providers/port/dpdk/unix_socket.hpp"

namespace weft::port::dpdk {
namespace {

constexpr uint64_t kPeriod_us = 100'000;

}  // namespace

MemifReturn::MemifReturn(const Device& device, std::string socket)
    : device_(device), socket_(std::move(socket)), pauses_(new Pause[device.queues()]) {
  call();
}

// Waits for look(), unless this is the thread that it runs on.
MemifReturn::~MemifReturn() { (void)rte_eal_alarm_cancel(look_of, this); }

void MemifReturn::call() noexcept {
  if (rte_eal_alarm_set(kPeriod_us, look_of, this) != 0) looks_.store(false);  // wake() tries again
}

// An alarm takes memory each time: none while all is well.
void MemifReturn::look_of(void* self) noexcept {
  MemifReturn& self_ = *static_cast<MemifReturn*>(self);
  self_.look();
  if (!self_.pausing_ && self_.device_.link_is_up())
    self_.looks_.store(false);
  else
    self_.call();
}

// A server that has not accepted us yet is left alone: see memif_await_link(). The device is
// stopped a period after its link was seen down, at the earliest: by then the control thread has
// done with the events of descriptors that went with the link, whose numbers new ones get.
void MemifReturn::look() noexcept {
  if (device_.link_is_up()) {
    was_up_ = true;
    if (pausing_) resume();
    return;
  }
  if (!has_listener(socket_) || (!was_up_ && is_connected(socket_))) return;
  if (!pausing_) return pause();
  if (all_agreed()) restart();
}

void MemifReturn::pause() noexcept {
  pausing_ = true;
  if (++number_ == 0) ++number_;
  for (uint16_t queue = 0; queue < device_.queues(); ++queue) pauses_[queue].ask(number_);
}

bool MemifReturn::all_agreed() const noexcept {
  for (uint16_t queue = 0; queue < device_.queues(); ++queue)
    if (!pauses_[queue].agreed(number_)) return false;
  return true;
}

// A server that has gone meanwhile leaves the device stopped until another listens.
void MemifReturn::restart() noexcept {
  was_up_ = false;
  if (rte_eth_dev_stop(device_.port()) == 0 && rte_eth_dev_start(device_.port()) == 0) resume();
}

void MemifReturn::resume() noexcept {
  for (uint16_t queue = 0; queue < device_.queues(); ++queue) pauses_[queue].end();
  pausing_ = false;
}

}  // namespace weft::port::dpdk
