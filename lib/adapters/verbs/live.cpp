// SPDX-License-Identifier: BSD-3-Clause
// See live.hpp.
#include "lib/adapters/verbs/live.hpp"

#include <cerrno>
#include <mutex>
#include <unordered_map>

#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kNames[] = {
    "a device that is open", "a thread domain",    "a protection domain",    "a memory region",
    "device memory",         "a memory window",    "an XRC domain",          "an address handle",
    "a completion channel",  "a completion queue", "a shared receive queue", "a queue pair"};

struct Known {
  std::mutex lock;
  std::unordered_map<const void*, Kind> kinds;
};
// Never destroyed: a program may destroy its objects in handlers of exit().
Known& known() {
  static auto& objects = *new Known;
  return objects;
}

}  // namespace

void adopt(Context& context, const void* object, Kind kind) {
  Known& objects = known();
  const std::lock_guard guard(objects.lock);
  objects.kinds[object] = kind;
  context.references.add(1);
}

void forget(const void* object) noexcept {
  Known& objects = known();
  const std::lock_guard guard(objects.lock);
  objects.kinds.erase(object);
}

int check_exists(const char* call, const void* object, Kind kind) noexcept {
  Known& objects = known();
  bool exists = false;
  {
    const std::lock_guard guard(objects.lock);
    const auto found = objects.kinds.find(object);
    exists = found != objects.kinds.end() && found->second == kind;
  }
  if (exists) return 0;
  return refuse(EINVAL, call, "%p is not %s, or not any more", object,
                kNames[static_cast<size_t>(kind)]);
}

void prepare_objects_for_fork() noexcept { known().lock.lock(); }
void release_objects_after_fork() noexcept { known().lock.unlock(); }

}  // namespace weft::drop_in
