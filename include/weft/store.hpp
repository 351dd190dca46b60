// SPDX-License-Identifier: BSD-3-Clause
// The key-value store through which the processes of a job exchange addresses at start
// (rendezvous). weft has one in a directory and one over TCP; a program with a store of its own
// (etcd, PMIx, a database) derives from Store.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/result.hpp"
#include "weft/security.hpp"
#include "weft/units.hpp"

namespace weft {

// A map from keys to values that all processes of a job can reach. Any thread.
class Store {
 public:
  virtual ~Store() = default;

  // Sets a key that has no value yet. A key that has a value keeps it, without an error: of several
  // processes that set a key the first one wins. Errors: io_error, disconnected. Over TCP the
  // server sends no reply, so a refusal (the store is full) is returned by a later call, at the
  // latest by the next get().
  virtual Result<void> set(std::string_view key, std::string_view value) = 0;
  // Blocks until a process has set the key, and returns its value. Errors: timed_out after `limit`
  // (names the key), io_error, disconnected.
  virtual Result<std::string> get(std::string_view key, Duration limit) = 0;

  // Opens a store by its address:
  //   file:DIRECTORY      a directory that all processes can access, created if it does not exist;
  //                       use a new one for each job
  //   tcp:HOST:PORT       a server in the process with `serve` = true (rank 0), which runs as long
  //                       as that Store exists; the others retry to connect until `limit`.
  //                       `security` says who may; a directory has the rights of its files
  // Errors: invalid_argument, io_error, address_in_use, timed_out, permission_denied (the sides do
  // not agree who may).
  static Result<std::unique_ptr<Store>> open(std::string_view address, bool serve,
                                             Duration limit = Duration::from_s(30),
                                             const Security& security = {});
};

}  // namespace weft
