// SPDX-License-Identifier: BSD-3-Clause
// See environment.hpp. Libraries are preloaded by path: DT_RPATH of a program wins over
// LD_LIBRARY_PATH, and a preloaded SONAME serves dlopen() and dlvsym() as well.
#include "tools/run/environment.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace weft::run {
namespace {

// The view of paths comes first: it interposes functions of the C library, the others do not.
constexpr const char* kLibraries[] = {"libweft-paths.so", "libibverbs.so.1", "librdmacm.so.1",
                                      "libefa.so.1"};

// The folder that has the library `name`: `built` from the folder of weft's programs in the build,
// `installed` where they are installed.
Result<std::filesystem::path> folder_with(const char* name, const char* built,
                                          const std::string& installed, const char* remedy) {
  std::error_code error;
  const std::filesystem::path programs =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return Error{Code::io_error, "cannot read /proc/self/exe: mount /proc"};
  std::string tried;
  for (const std::string& relative : {std::string(built), installed}) {
    const std::filesystem::path folder = (programs / relative).lexically_normal();
    if (std::filesystem::exists(folder / name, error)) return folder;
    tried += (tried.empty() ? "" : " or ") + folder.string();
  }
  return Error{Code::not_found,
               std::string("there is no ") + name + " in " + tried + ": " + remedy};
}

Result<std::filesystem::path> drop_in_folder() {
  return folder_with("libibverbs.so.1", "../lib/drop-in", WEFT_DROP_IN_INSTALLED,
                     "build weft with libibverbs-dev installed, or install it");
}

std::string joined(const std::vector<std::string>& devices) {
  std::string list;
  for (const std::string& device : devices) list += (list.empty() ? "" : ";") + device;
  return list;
}

// The list of folders that the variable holds, with `folder` before them.
Variable first_in(const char* name, const std::filesystem::path& folder) {
  const char* const there = std::getenv(name);
  std::string list = folder.string();
  if (list.size() > 1 && list.back() == '/') list.pop_back();
  if (there != nullptr && *there != '\0') list += std::string(":") + there;
  return {name, list};
}

// The entries of LD_PRELOAD are separated by blanks or colons.
bool is_preloaded(const std::string& list, const std::string& path) {
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ':');) {
    std::istringstream words(entry);
    for (std::string word; words >> word;)
      if (word == path) return true;
  }
  return false;
}

std::string quoted(const std::string& value, char mark) {
  std::string result(1, mark);
  for (const char c : value) {
    if (mark == '\'' && c == '\'')
      result += "'\\'";
    else if (mark == '"' && (c == '"' || c == '\\' || c == '$'))
      result += '\\';
    result += c;
  }
  return result + mark;
}

}  // namespace

Result<std::vector<Variable>> preloading(const std::vector<std::string>& devices) {
  const Result<std::filesystem::path> folder = drop_in_folder();
  if (!folder) return folder.error();
  if (folder->string().find_first_of(" :") != std::string::npos)
    return Error{Code::not_supported, folder->string() +
                                          ": LD_PRELOAD cannot hold a blank or colon in a path: "
                                          "move weft to another directory"};
  const char* const there = std::getenv("LD_PRELOAD");
  std::string preload = there != nullptr ? there : "";
  for (const char* const name : kLibraries) {
    const std::filesystem::path library = *folder / name;
    std::error_code error;
    if (is_preloaded(preload, library.string()) || !std::filesystem::exists(library, error))
      continue;
    preload += (preload.empty() ? "" : ":") + library.string();
  }
  return std::vector<Variable>{{"LD_PRELOAD", preload}, {"WEFT_VERBS_DEVICES", joined(devices)}};
}

Result<std::vector<Variable>> selecting_nccl_plugin() {
  const Result<std::filesystem::path> found =
      folder_with("libnccl-net-weft.so", "../lib", WEFT_DROP_IN_INSTALLED + std::string("/../.."),
                  "build the target weft_nccl_net, or install weft");
  if (!found) return found.error();
  return std::vector<Variable>{{"NCCL_NET_PLUGIN", "weft"}, first_in("LD_LIBRARY_PATH", *found)};
}

Result<std::vector<Variable>> offering_libfabric_providers() {
  const Result<std::filesystem::path> found = folder_with(
      "libweft-fi.so", "../lib/libfabric", WEFT_DROP_IN_INSTALLED + std::string("/../libfabric"),
      "build the target weft_fi with libfabric-dev installed, or install weft");
  if (!found) return found.error();
  return std::vector<Variable>{first_in("FI_PROVIDER_PATH", *found)};
}

Variable naming_devices(const std::vector<std::string>& devices) {
  return {"WEFT_DEVICE", joined(devices)};
}

std::string lines_for(const std::string& format, const std::vector<Variable>& variables) {
  std::string lines;
  for (const auto& [name, value] : variables) {
    if (format == "docker")
      lines += "ENV " + name + "=" + quoted(value, '"');
    else if (format == "file")
      lines += name + "=" + value;
    else if (format == "mpirun")
      lines += "-x " + name + "=" + value;
    else
      lines += "export " + name + "=" + quoted(value, '\'');
    lines += '\n';
  }
  return lines;
}

}  // namespace weft::run
