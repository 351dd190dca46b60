// SPDX-License-Identifier: BSD-3-Clause
// See executable.hpp. The rules are those of execve(2), ld.so(8) and, for what makes ld.so ignore
// LD_PRELOAD (AT_SECURE), of getauxval(3).
#include "tools/run/executable.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "tools/run/elf.hpp"

namespace weft::run {
namespace {

constexpr int kMostInterpreters = 5;  // of scripts that name scripts: as the kernel

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Error not_preloaded(const std::string& path, const std::string& why) {
  return {Code::not_supported, path + " " + why};
}

// The first line behind #!, or nothing if `path` is no script.
std::string interpreter_line(const std::string& path) {
  std::ifstream file(path);
  char mark[2] = {};
  std::string line;
  if (file.read(mark, 2) && mark[0] == '#' && mark[1] == '!') std::getline(file, line);
  return line;
}

// The program of `env [-S] [NAME=VALUE]... PROGRAM`.
std::string program_of_env(std::istringstream& words) {
  for (std::string word; words >> word;)
    if (word.front() != '-' && word.find('=') == std::string::npos) return word;
  return "env";
}

// The program that runs the script whose first line is #!`line`.
Result<std::string> interpreter_of(const std::string& script, const std::string& line) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  if (last_part(name) == "env") name = program_of_env(words);
  Result<std::string> found = find_program(name);
  if (!found)
    return Error{found.error().code, "the interpreter of " + script + ": " + found.error().message};
  return found;
}

// Why ld.so ignores LD_PRELOAD, if the kernel raises the rights of who runs the file.
Result<void> check_rights(const std::string& path) {
  struct stat file = {};
  struct statvfs mounted = {};
  if (::stat(path.c_str(), &file) != 0) return {};
  const bool ignored = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
                       (::statvfs(path.c_str(), &mounted) == 0 && (mounted.f_flag & ST_NOSUID));
  if (ignored) return {};
  const std::string remedy =
      ", so ld.so ignores LD_PRELOAD: run weft-run as that user, or a copy of the program without ";
  if ((file.st_mode & S_ISUID) && file.st_uid != ::getuid())
    return not_preloaded(path, "is setuid to user " + std::to_string(file.st_uid) + remedy +
                                   "the bit (cp clears it)");
  const mode_t setgid = S_ISGID | S_IXGRP;
  if ((file.st_mode & setgid) == setgid && file.st_gid != ::getgid())
    return not_preloaded(path, "is setgid to group " + std::to_string(file.st_gid) + remedy +
                                   "the bit (cp clears it)");
  if (::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return not_preloaded(path,
                         "has file capabilities, so ld.so ignores LD_PRELOAD: run weft-run as "
                         "root, or a copy of the program without them (cp drops them)");
  return {};
}

Result<void> check_elf(const std::string& path, const ElfHeaders& program) {
  const std::optional<ElfHeaders> own = read_elf("/proc/self/exe");
  if (!own) return Error{Code::io_error, "weft-run cannot read /proc/self/exe: mount /proc"};
  if (program.bits == 0)
    return not_preloaded(path, "has incomplete ELF headers: the file is damaged, copy it again");
  if (program.bits != own->bits || program.order != own->order || program.machine != own->machine)
    return not_preloaded(path, "is for " + architecture(program) + ", this weft for " +
                                   architecture(*own) +
                                   ": take a program and a weft of one architecture");
  const std::string other =
      ": build it dynamically linked against glibc, or use weft's own API (include/weft)";
  if (program.interpreter.empty() || program.needed == 0)
    return not_preloaded(path, program.go
                                   ? "is a Go program without the C library, which loads no "
                                     "shared library: build it with CGO_ENABLED=1, or use "
                                     "weft's own API (include/weft)"
                                   : "is statically linked and loads no shared library" + other);
  const std::string loader = last_part(program.interpreter);
  if (loader.starts_with("ld-musl"))
    return not_preloaded(
        path, "is linked with musl (" + program.interpreter + "), weft with glibc" + other);
  if (loader != last_part(own->interpreter))
    return not_preloaded(
        path, "is loaded by " + program.interpreter + ", weft by " + own->interpreter + other);
  return check_rights(path);
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  const auto usable_as = [](const std::string& path) {
    struct stat file = {};
    if (::stat(path.c_str(), &file) != 0) return errno == EACCES ? EACCES : ENOENT;
    return S_ISREG(file.st_mode) && ::access(path.c_str(), X_OK) == 0 ? 0 : EACCES;
  };
  int error = ENOENT;
  if (name.find('/') != std::string::npos) {
    error = usable_as(name);
    if (error == 0) return name;
  } else {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string folder; !name.empty() && std::getline(folders, folder, ':');) {
      const std::string file = (folder.empty() ? "." : folder) + "/" + name;
      const int tried = usable_as(file);
      if (tried == 0) return file;
      if (tried == EACCES) error = EACCES;
    }
  }
  if (error == EACCES) return Error{Code::permission_denied, name + ": not an executable file"};
  return Error{Code::not_found, name + ": no such program"};
}

Result<void> check_preload(const std::string& path) {
  std::string file = path;
  for (int depth = 0; depth <= kMostInterpreters; ++depth) {
    if (const std::optional<ElfHeaders> program = read_elf(file)) return check_elf(file, *program);
    const std::string line = interpreter_line(file);
    if (line.empty()) return {};  // execvp() runs it by /bin/sh; or it cannot be read
    Result<std::string> interpreter = interpreter_of(file, line);
    if (!interpreter) return interpreter.error();
    file = *std::move(interpreter);
  }
  return {};  // execve() says ELOOP
}

}  // namespace weft::run
