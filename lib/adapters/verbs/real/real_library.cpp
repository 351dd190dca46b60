// SPDX-License-Identifier: BSD-3-Clause
// See real_library.hpp.
#include "lib/adapters/verbs/real/real_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/errors.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kVariable = "WEFT_VERBS_REAL";

// A copy of this library in another namespace has been loaded as the system's: it loads no further.
bool is_in_base_namespace() noexcept {
  Dl_info info;
  Lmid_t space = LM_ID_NEWLM;
  if (::dladdr(reinterpret_cast<void*>(&real_library), &info) == 0) return true;
  void* self = ::dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (self == nullptr) return true;
  const bool known = ::dlinfo(self, RTLD_DI_LMID, &space) == 0;
  ::dlclose(self);
  return !known || space == LM_ID_BASE;
}

// The file that the variable asks for, or null: 1 is the one that the linker finds.
const char* wanted() noexcept {
  const char* const value = std::getenv(kVariable);
  if (value == nullptr || *value == '\0' || std::strcmp(value, "0") == 0) return nullptr;
  return std::strcmp(value, "1") == 0 ? "libibverbs.so.1" : value;
}

std::optional<RealLibrary> load() noexcept {
  const char* const name = wanted();
  if (name == nullptr || !is_in_base_namespace()) return std::nullopt;
  void* const handle = ::dlmopen(LM_ID_NEWLM, name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    refuse(ENOENT, kVariable, "%s", ::dlerror());
    return std::nullopt;
  }
  RealLibrary library;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, symbol));
    if (function == nullptr) missing = symbol;
  };
#define WEFT_REAL_FUNCTION(name) find(library.name, #name);
  WEFT_REAL_FUNCTIONS(WEFT_REAL_FUNCTION)
#undef WEFT_REAL_FUNCTION
  find(library.errno_location, "__errno_location");
  const char* const lacks = missing;
  find(library.ibv_reg_mr_ex, "ibv_reg_mr_ex");
  find(library.ibv_query_port_speed, "ibv_query_port_speed");
  if (lacks != nullptr) {
    refuse(ENOENT, kVariable, "%s has no %s: rdma-core 44 or newer is needed", name, lacks);
    return std::nullopt;
  }
  static ibv_device* none[] = {nullptr};
  library.devices = library.ibv_get_device_list(nullptr);
  if (library.devices == nullptr) library.devices = none;  // the kernel has no RDMA: ENOSYS
  return library;
}

}  // namespace

const RealLibrary* real_library() noexcept {
  static const std::optional<RealLibrary> library = load();
  return library ? &*library : nullptr;
}

bool is_real(const ibv_context* context) noexcept { return !has_own_operations(*context); }

bool is_real(const ibv_device* device) noexcept {
  for (ibv_device** at = real_library()->devices; *at != nullptr; ++at)
    if (*at == device) return true;
  return false;
}

}  // namespace weft::drop_in
