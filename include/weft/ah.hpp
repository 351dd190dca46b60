// SPDX-License-Identifier: BSD-3-Clause
// Address handles: where a request of a connectionless queue pair goes. A request names the handle
// and the number of the queue pair at the other end (SendRequest::to, remote_qpn). Making a handle
// sends nothing; any number of requests and threads may use one at the same time.
#pragma once

#include "weft/types.hpp"

namespace weft {

class AddressHandle {
 public:
  AddressHandle() = default;
  const AddressVector& path() const noexcept { return path_; }

 private:
  friend class ProtectionDomain;
  explicit AddressHandle(const AddressVector& path) : path_(path) {}
  AddressVector path_;
};

}  // namespace weft
