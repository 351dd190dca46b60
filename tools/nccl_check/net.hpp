// SPDX-License-Identifier: BSD-3-Clause
// A network plug-in of NCCL in one of the versions that its library exports, with one form of each
// function. Every function that fails throws Failure, whose text names the function and the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/adapters/nccl/abi.hpp"

namespace weft::nccl_check {

// A rule is broken: the text says how.
struct Failure {
  std::string text;
};

// "success", "remote error" ...
std::string name_of(nccl::Outcome outcome);

struct Facts {
  std::string name;  // empty: none was given
  int pointer_support = 0;
  int speed_mbps = 0;
  int max_comms = 0;
  int max_receives = 1;
  int device_type = 0;
  int members = 1;
  uint64_t max_bytes = 0;  // of one message; 0: not said (before v9)
};

class Net {
 public:
  virtual ~Net() = default;

  virtual nccl::Outcome init() = 0;
  virtual int devices() = 0;
  virtual Facts facts(int device) = 0;
  // The number of a virtual device with these members; -1: the version or plug-in has none.
  virtual int make_virtual(const std::vector<int>& members) = 0;
  virtual void* listen(int device, void* handle) = 0;
  // Null: call again. `outcome` is set and nothing is thrown.
  virtual void* connect(int device, void* handle, nccl::Outcome& outcome) = 0;
  virtual void* accept(void* listener, nccl::Outcome& outcome) = 0;
  virtual void* register_memory(void* comm, void* data, size_t size) = 0;
  virtual void deregister(void* comm, void* memory) = 0;
  // Null: call again. `outcome` is set and nothing is thrown.
  virtual void* isend(void* comm, void* data, size_t size, int tag, void* memory,
                      nccl::Outcome& outcome) = 0;
  virtual void* irecv(void* comm, int count, void** data, const size_t* sizes, int* tags,
                      void** memories, bool optional, nccl::Outcome& outcome) = 0;
  virtual void* iflush(void* comm, void* data, size_t size, void* memory) = 0;
  virtual nccl::Outcome test(void* request, int* done, int* sizes) = 0;
  virtual void close_send(void* comm) = 0;
  virtual void close_receive(void* comm) = 0;
  virtual void close_listen(void* comm) = 0;
  virtual void finalize() = 0;

  int version = 0;
};

// The versions that the library exports, oldest first; empty, with the reason in `why`, if it
// cannot be loaded or exports none.
std::vector<int> exported_versions(const std::string& library, std::string& why);
// Loads the library for good. Throws Failure.
std::unique_ptr<Net> load(const std::string& library, int version);
// Writes the plug-in's log to stderr up to this level: kLogWarn, kLogInfo; 0: nothing.
void show_log(int level);

}  // namespace weft::nccl_check
