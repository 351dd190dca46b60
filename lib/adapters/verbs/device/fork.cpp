// SPDX-License-Identifier: BSD-3-Clause
// What fork() does to devices that are open: they stay the parent's. A child that opens a device
// gets one of its own; the parent's objects do nothing in it, and can be destroyed.
#include <pthread.h>

#include "lib/adapters/verbs/device/device_list.hpp"
#include "lib/adapters/verbs/live.hpp"

namespace weft::drop_in {
namespace {

// Another thread may be in the middle of a change.
void before_fork() {
  for (const auto& entry : devices()) entry->lock.lock();
  prepare_objects_for_fork();
}

void in_parent() {
  release_objects_after_fork();
  for (const auto& entry : devices()) entry->lock.unlock();
}

void in_child() {
  release_objects_after_fork();
  for (const auto& entry : devices()) {
    ++entry->fork;
    entry->users = 0;
    entry->contexts.clear();
    entry->qps.clear();
    entry->srqs.clear();
    entry->cqs.clear();
    entry->mrs.clear();
    entry->xrcds.clear();
    entry->open_device.reset();  // contexts of the parent hold it
    entry->lock.unlock();
  }
}

}  // namespace

void watch_forks() { ::pthread_atfork(before_fork, in_parent, in_child); }

}  // namespace weft::drop_in
