// SPDX-License-Identifier: BSD-3-Clause
// Child processes of the report: measuring programs, each pinned to a core, with their output in a
// file, so that a failure can be reported.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::bench {

struct Placement {
  int core = -1;          // -1: not pinned
  bool realtime = false;  // SCHED_RR, if the system allows it
};

// A started program. Killed and reaped by the destructor, or when this process ends.
class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  // Output of the program goes to the file `log`.
  static Result<Child> start(const std::vector<std::string>& argv, const std::string& log,
                             Placement placement);
  // The exit code (128 + signal if it was killed), or -1 after `seconds`.
  int wait(double seconds);

 private:
  pid_t pid_ = -1;
};

// A directory under the system's temporary one, removed with its files at the end.
class Scratch {
 public:
  static Result<Scratch> make();
  Scratch(Scratch&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  ~Scratch();
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string read_file(const std::string& path);
// The folder of the running program.
std::string program_folder();
// The cores that this process may use.
std::vector<int> usable_cores();
// A TCP port that is currently unused.
int free_port();

}  // namespace weft::bench
