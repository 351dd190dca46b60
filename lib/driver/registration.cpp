// SPDX-License-Identifier: BSD-3-Clause
// Memory regions of a driver: what may be registered, the key in the machine's table, and the
// memory that the port may reference.
#include <bit>
#include <string>

#include "lib/base/check.hpp"
#include "lib/base/undo.hpp"
#include "lib/driver/driver.hpp"
#include "lib/memory/guarded_copy.hpp"

namespace weft::driver {

namespace {

using memory::KeyKind;
using memory::Registration;

// The rights of a region. //= roce:C-OPS-89
Result<void> check_access_flags(Access access) {
  const bool writable = has(access, Access::remote_write) || has(access, Access::remote_atomic);
  if (writable && !has(access, Access::local_write))
    return Error{Code::invalid_argument,
                 "remote_write and remote_atomic need local_write too (IBTA 10.6.3.3)"};
  if (has(access, Access::on_demand) && has(access, Access::flush_persistent))
    return Error{Code::invalid_argument,
                 "flush_persistent needs a file that is mapped at registration: leave on_demand "
                 "out"};
  return {};
}

void* base_of(const Registration& region) noexcept { return region.memory.base; }

}  // namespace

Result<void> Driver::check_registration(const Registration& region) {
  memory::install_fault_guard();
  if (region.kind == KeyKind::null_region) return {};
  const auto& [base, size, iova] = region.memory;
  if (const Result<void> valid = check_access_flags(region.access); !valid) return valid;
  if (size == 0) return {};
  if (!has(region.access, Access::on_demand))
    return memory::verify_mapped(
        base, size,
        {has(region.access, Access::local_write), has(region.access, Access::flush_persistent)});
  if (size - 1 > ~std::bit_cast<uintptr_t>(base))
    return Error{Code::invalid_argument, "the region reaches beyond the end of the address space"};
  return {};
}

Result<uint32_t> Driver::register_memory(const Registration& region) {
  Holder hold(lock_);
  if (machine_->keys().full())
    return Error{Code::no_memory, "the device has all its " +
                                      std::to_string(memory::KeyTable::kMost) +
                                      " regions and windows in use"};
  port_->attach(base_of(region), region.memory.length);
  base::Undo undo([&] { port_->detach(base_of(region), region.memory.length); });
  const uint32_t key = machine_->keys().insert(region);
  WEFT_DCHECK(key != 0);
  undo.forget();
  return key;
}

bool Driver::register_memory_with_key(uint32_t key, const Registration& region) {
  Holder hold(lock_);
  port_->attach(base_of(region), region.memory.length);
  base::Undo undo([&] { port_->detach(base_of(region), region.memory.length); });
  if (!machine_->keys().insert_with_key(key, region)) return false;
  undo.forget();
  return true;
}

bool Driver::replace_memory(uint32_t key, const Registration& before,
                            const Registration& after) noexcept {
  Holder hold(lock_);
  WEFT_DCHECK(key != 0);
  const bool moves =
      after.memory.base != before.memory.base || after.memory.length != before.memory.length;
  if (moves) port_->attach(base_of(after), after.memory.length);
  const bool replaced = machine_->keys().replace(key, after);
  if (moves) release_memory(replaced ? before : after);
  return replaced;
}

void Driver::deregister_memory(uint32_t key, const Registration& region) noexcept {
  if (forked()) return;
  Holder hold(lock_);
  WEFT_DCHECK(key != 0);
  machine_->keys().remove(key);
  release_memory(region);
}

// Sends what can be sent, and drops frames and references to the memory of a region that is gone.
void Driver::release_memory(const Registration& region) noexcept {
  WEFT_DCHECK(lock_.held());
  const Instant now = clock_.now();
  machine_->set_time(now);
  tx_.flush(now);
  notify();
  tx_.drop_memory(base_of(region), region.memory.length);
  port_->detach(base_of(region), region.memory.length);
}

}  // namespace weft::driver
