// SPDX-License-Identifier: BSD-3-Clause
// See real_library.hpp.
#include "lib/adapters/verbs/real/real_library.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

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

// The libibverbs.so.1 in the loader's directories that is not this file, or nothing. The name alone
// would be looked for beside this file first.
std::string path_of_system() {
  const auto is_own = [](const char* path) {
    Dl_info info;
    struct stat own, other;
    return ::dladdr(reinterpret_cast<void*>(&real_library), &info) != 0 &&
           ::stat(info.dli_fname, &own) == 0 && ::stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
  };
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size;
  if (program == nullptr || ::dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<std::byte> room(size.dls_size);
  auto& list = *new (room.data()) Dl_serinfo{};
  if (::dlinfo(program, RTLD_DI_SERINFOSIZE, &list) != 0 ||
      ::dlinfo(program, RTLD_DI_SERINFO, &list) != 0)
    return {};
  for (unsigned i = 0; i < list.dls_cnt; ++i) {
    std::string path = std::string(list.dls_serpath[i].dls_name) + "/libibverbs.so.1";
    if (::access(path.c_str(), R_OK) == 0 && !is_own(path.c_str())) return path;
  }
  return {};
}

// The file that the variable asks for; empty without it.
std::string wanted() {
  const char* const value = std::getenv(kVariable);
  if (value == nullptr || std::strcmp(value, "0") == 0) return {};
  if (std::strcmp(value, "1") != 0) return value;
  std::string path = path_of_system();
  if (path.empty())
    refuse(ENOENT, kVariable, "no libibverbs.so.1 in the loader's directories: say its path");
  return path;
}

std::optional<RealLibrary> load() {
  if (!is_in_base_namespace()) return std::nullopt;
  const std::string path = wanted();
  if (path.empty()) return std::nullopt;
  const char* const name = path.c_str();
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
  find(library.ibv_query_gid_type, "ibv_query_gid_type");
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
  static const std::optional<RealLibrary> library = [] {
    try {
      return load();
    } catch (const std::bad_alloc&) {
      return std::optional<RealLibrary>();
    }
  }();
  return library ? &*library : nullptr;
}

bool is_real(const ibv_context* context) noexcept { return !has_own_operations(*context); }

bool is_real(const ibv_device* device) noexcept {
  for (ibv_device** at = real_library()->devices; *at != nullptr; ++at)
    if (*at == device) return true;
  return false;
}

}  // namespace weft::drop_in
