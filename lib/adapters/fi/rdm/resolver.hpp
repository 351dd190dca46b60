// SPDX-License-Identifier: BSD-3-Clause
// The name service of an endpoint: a UDP port of the host, which says the address and the queue
// pair number of the endpoint to who asks. So a peer can be named as host:port before it has sent
// its own name. Port and datagrams are those of the kernel, whatever the device's port is; devices
// whose address is not one of this host listen at all addresses.
//
// A question: 4 bytes of magic, 4 of the asker's choice. The answer: the same 8, 16 bytes of GID, 4
// of queue pair number, big endian. No question is answered with more than an answer's 28 bytes to
// 28 bytes of question: it is padded to that size, so that nothing is amplified.
#pragma once

#include <cstdint>
#include <functional>

#include "lib/adapters/fi/common/address.hpp"

namespace weft::fi {

// One thread at a time.
class Resolver {
 public:
  Resolver() = default;
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Listens at the port of `own` (0: any) and answers with its gid and queue. Errors:
  // address_in_use, io_error.
  Result<void> open(const Name& own);
  uint16_t port() const noexcept { return port_; }
  int fd() const noexcept { return fd_; }

  // Asks the name service at an address; the answer carries `cookie`.
  void ask(const Name& peer, uint32_t cookie) noexcept;
  // Answers and hands out some of what has come: answered(cookie, gid, queue). Never blocks.
  void progress(const std::function<void(uint32_t, const Gid&, QpNum)>& answered);

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
  Name own_;
  bool is_v6_ = false;
};

}  // namespace weft::fi
