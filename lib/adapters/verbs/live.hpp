// SPDX-License-Identifier: BSD-3-Clause
// The objects of verbs that exist: what a program destroys twice, or as another kind of object than
// it is, is refused and not touched.
#pragma once

#include <cstdint>

#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {

enum class Kind : uint8_t { context, td, pd, mr, dm, mw, xrcd, ah, channel, cq, srq, qp };

// Makes an object known, and counts it in its context, which lives until release(). Throws
// std::bad_alloc.
void adopt(Context& context, const void* object, Kind kind);
// Makes it unknown, before it is deleted: its address may then be that of another. release() of its
// context follows.
void forget(const void* object) noexcept;
// An object that is adopted unless its creation fails.
class Adoption {
 public:
  Adoption(Context& context, const void* object, Kind kind) : context_(context), object_(object) {
    adopt(context, object, kind);
  }
  ~Adoption() {
    if (object_ == nullptr) return;
    forget(object_);
    release(context_);
  }
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  void keep() noexcept { object_ = nullptr; }

 private:
  Context& context_;
  const void* object_;
};

// 0, or EINVAL: `object` is none of this kind, or no longer.
int check_exists(const char* call, const void* object, Kind kind) noexcept;

// Removes an object from a table of its device, where the number is not that of another one: a
// child of fork() may have its own under that number.
template <class Table, class Object>
void erase_own(Table& table, uint32_t number, const Object* object) {
  const auto range = table.equal_range(number);
  for (auto at = range.first; at != range.second; ++at)
    if (at->second == object) return (void)table.erase(at);
}

// Around fork(), so that a child finds them whole.
void prepare_objects_for_fork() noexcept;
void release_objects_after_fork() noexcept;

}  // namespace weft::drop_in
