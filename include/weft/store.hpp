// SPDX-License-Identifier: BSD-3-Clause
// Where the processes of a job find each other: a small map from names to bytes that all of them
// can reach. weft brings one in a directory and one over TCP; a program that has its own (etcd,
// PMIx, a database) derives from Store.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft {

class Store {
 public:
  virtual ~Store() = default;

  // Sets a key, once: a key that has a value keeps it, which is no error, so that of several who
  // decide something the first one does. Errors: io_error, disconnected. Nobody answers it over
  // TCP: that it was refused (the store is full) is the error of the first call after the server's
  // word has come, which a get() waits for.
  virtual Result<void> set(std::string_view key, std::string_view value) = 0;
  // The value of a key, when some process has set it. Errors: timed_out (names the key), io_error,
  // disconnected.
  virtual Result<std::string> get(std::string_view key, Duration limit) = 0;

  // Opens a store by its address:
  //   file:DIRECTORY      a directory that all processes see, made if it is not there; use a new
  //                       one for each job
  //   tcp:HOST:PORT       a server in the process that says serve = true (rank 0), which lives as
  //                       long as its Store; the others try to reach it until `limit`
  // Errors: invalid_argument, io_error, address_in_use, timed_out.
  static Result<std::unique_ptr<Store>> open(std::string_view address, bool serve,
                                             Duration limit = Duration::from_s(30));
};

}  // namespace weft
