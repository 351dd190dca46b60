// SPDX-License-Identifier: BSD-3-Clause
// See plugin.hpp.
#include "lib/base/module/plugin.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>

#include "lib/base/module/file.hpp"

namespace weft::base {

namespace {

Error unusable(const std::string& path, const std::string& why) {
  return {Code::not_supported, "the plug-in " + path + " cannot be used: " + why};
}

// dlopen() looks in the folders of the system for a name without a slash.
std::string with_slash(const std::string& path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

}  // namespace

Result<const void*> load_plugin(const std::string& name, const PluginKind& kind) {
  if (getauxval(AT_SECURE) != 0)
    return Error{Code::permission_denied,
                 "the plug-in " + name +
                     " is not loaded: this process has more rights than its caller (setuid, file "
                     "capabilities), who must not choose its code"};
  const std::string path = with_slash(name);
  if (access(path.c_str(), F_OK) != 0)
    return Error{Code::not_found, "there is no plug-in " + path +
                                      ": name a shared object by its "
                                      "path, absolute or from the current folder"};
  if (const Result<void> whole = check_module_file(path); !whole)
    return unusable(path, whole.error().message);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return unusable(path, why != nullptr ? why : "dlopen failed");
  }
  const void* const exported = dlsym(handle, kind.symbol);
  if (exported == nullptr)
    return unusable(path, "it has no symbol " + std::string(kind.symbol) +
                              ": end its source with " + kind.macro + " of <" + kind.header + ">");
  uint32_t number = 0;
  std::memcpy(&number, exported, sizeof number);
  if (number != kind.interface_number)
    return unusable(path, "it is for the interface " + std::to_string(number) + " of <" +
                              kind.header + ">, and this weft has " +
                              std::to_string(kind.interface_number) +
                              ": compile it again with the headers of this weft");
  return exported;
}

}  // namespace weft::base
