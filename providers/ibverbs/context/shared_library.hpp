// SPDX-License-Identifier: BSD-3-Clause
// A library that is loaded at run time, for tables of its functions: it is opened, what a table
// needs is looked up, and an error names the library or the function that is missing, and what to
// install.
#pragma once

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>

#include "weft/result.hpp"

namespace weft::ibverbs {

// The words of its errors.
struct LibraryPurpose {
  const char* user;     // of the library: "the ibverbs provider"
  const char* remedy;   // where there is none: "install it: ..."
  const char* version;  // that has all functions: "the libibverbs of rdma-core, version 15 ..."
};

// Never unloaded: what it made may be destroyed as late as at exit.
class SharedLibrary {
 public:
  // Error: not_found.
  static Result<SharedLibrary> open(const std::string& name, const LibraryPurpose& purpose);

  template <class Function>
  void require(Function*& function, const char* symbol) {
    find(function, symbol);
    if (function == nullptr) missing_ = symbol;
  }
  // Null where the library has none.
  template <class Function>
  void find(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(dlsym(handle_, symbol));
  }
  // Error: not_supported, if a function that is required is missing.
  Result<void> complete() const;

 private:
  SharedLibrary(std::string name, const LibraryPurpose& purpose, void* handle)
      : name_(std::move(name)), purpose_(purpose), handle_(handle) {}

  std::string name_;
  LibraryPurpose purpose_;
  void* handle_;
  const char* missing_ = nullptr;
};

// The table of each name, which load() made. One that could not be made is tried again. `Table` is
// of one kind of library. Any thread.
template <class Table>
Result<const Table*> load_once(const std::string& name, Result<Table> (*load)(const std::string&)) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, Table>;  // outlives every user
  const std::lock_guard lock(mutex);
  const auto known = loaded.find(name);
  if (known != loaded.end()) return &known->second;
  const Result<Table> table = load(name);
  if (!table) return table.error();
  return &loaded.emplace(name, *table).first->second;
}

}  // namespace weft::ibverbs
