// SPDX-License-Identifier: BSD-3-Clause
// See module.hpp. WEFT_VERSION: set by CMake.
#include "lib/base/module/module.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "lib/base/installed/file_of.hpp"
#include "lib/base/module/file.hpp"

namespace weft::base {

const char library_identity = 0;

namespace {

struct Loaded {
  std::string file;  // KIND_NAME.so
  const void* extension = nullptr;
};

struct Table {
  std::mutex mutex;
  std::vector<Loaded> loaded;
};

// Outlives the objects of modules, which may be used in destructors of static objects.
Table& table() {
  static Table* const made = new Table;
  return *made;
}

const void* find(const std::vector<Loaded>& loaded, const std::string& file) {
  for (const Loaded& one : loaded)
    if (one.file == file) return one.extension;
  return nullptr;
}

// Part of a file name, and of a device string that anyone may have written.
bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The path of a module, or "".
std::string path_of(const ModuleName& module) {
  if (!is_name(module.name)) return {};
  for (const std::string& folder : module_folders()) {
    std::string path = folder + "/" + module.file();
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return {};
}

std::string remedy(const ModuleName& module) {
  if (module.package.empty()) return "build it again with this weft, or remove it";
  return "apt-get install --reinstall " + std::string(module.package) + ", of version " +
         WEFT_VERSION;
}

std::string absent(const ModuleName& module) {
  std::string folders;
  for (const std::string& folder : module_folders())
    folders += (folders.empty() ? "" : " or ") + folder;
  std::string text = "there is no module " + module.file() + " in " + folders;
  if (!module.missing.empty())
    return text + ": this weft was built without " + std::string(module.missing) +
           ", and build it again";
  if (!module.package.empty()) text += ": apt-get install " + std::string(module.package);
  return text;
}

Error unusable(const std::string& path, const std::string& why, const ModuleName& module) {
  return {Code::not_supported,
          "the module " + path + " cannot be used: " + why + ": " + remedy(module)};
}

// What a module of `path` says of itself, checked, or why it is none.
Result<const Module*> open_module(const std::string& path, const ModuleName& module) {
  if (const Result<void> complete = check_module_file(path); !complete)
    return unusable(path, complete.error().message, module);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return unusable(path, why != nullptr ? why : "dlopen failed", module);
  }
  const auto* const found = static_cast<const Module*>(dlsym(handle, "weft_module"));
  if (found == nullptr)
    return unusable(path, "it has no symbol weft_module, so it is no module of weft", module);
  if (std::strcmp(found->version, WEFT_VERSION) != 0)
    return unusable(path,
                    std::string("it is for weft ") + found->version + ", and this is " WEFT_VERSION,
                    module);
  if (found->interface_number != kModuleInterface)
    return unusable(path,
                    "it is for the module interface " + std::to_string(found->interface_number) +
                        ", and this weft has " + std::to_string(kModuleInterface),
                    module);
  if (found->name + std::string(".so") != module.file())
    return unusable(path, std::string("it is the module ") + found->name + ".so", module);
  if (found->library != &library_identity)
    return Error{Code::not_supported,
                 "the module " + path + " cannot be used: it is bound to " +
                     file_of(found->library) + ", and this program to the weft in " +
                     file_of(&library_identity) +
                     ": link the program with libweft.so (weft::weft), not with weft::static"};
  return found;
}

}  // namespace

std::vector<std::string> module_folders() {
  std::vector<std::string> folders;
  const char* const listed = secure_getenv("WEFT_MODULE_PATH");
  std::string_view rest = listed != nullptr ? listed : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    if (!folder.empty()) folders.emplace_back(folder);
  }
  const std::string own = file_of(&library_identity);
  if (!own.empty()) folders.push_back(own.substr(0, own.rfind('/')) + "/weft/modules");
  return folders;
}

Result<const void*> load_module(const ModuleName& module) {
  Table& modules = table();
  const std::lock_guard lock(modules.mutex);
  const std::string file = module.file();
  if (const void* const extension = find(modules.loaded, file)) return extension;
  const std::string path = path_of(module);
  if (path.empty()) return Error{Code::not_found, absent(module)};
  const Result<const Module*> opened = open_module(path, module);
  if (!opened) return opened.error();
  const void* const extension = (*opened)->extension();
  modules.loaded.push_back({file, extension});
  return extension;
}

const void* loaded_module(const ModuleName& module) {
  Table& modules = table();
  const std::lock_guard lock(modules.mutex);
  return find(modules.loaded, module.file());
}

std::string unloaded_reason(const ModuleName& module) {
  const std::string path = path_of(module);
  if (path.empty()) return absent(module);
  return "not known: it is in the module " + path +
         ", which is loaded when the device is opened, or by list_devices(LoadModules::yes)";
}

std::vector<std::string> module_names(std::string_view kind) {
  const std::string prefix = std::string(kind) + "_";
  std::vector<std::string> names;
  for (const std::string& folder : module_folders()) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename().string();
      if (!file.starts_with(prefix) || !file.ends_with(".so")) continue;
      const std::string name = file.substr(prefix.size(), file.size() - prefix.size() - 3);
      if (is_name(name)) names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace weft::base
