// SPDX-License-Identifier: BSD-3-Clause
// See waitable.hpp.
#include "lib/adapters/fi/common/waitable.hpp"

namespace weft::fi {

int Waitable::control(int command, void* arg) const noexcept {
  if (command == FI_GETWAITOBJ) return *static_cast<fi_wait_obj*>(arg) = wait_obj, 0;
  if (command != FI_GETWAIT) return -FI_ENOSYS;
  if (wait_obj != FI_WAIT_FD) return wait_obj == FI_WAIT_NONE ? -FI_ENODATA : -FI_ENOSYS;
  return *static_cast<int*>(arg) = waiting.fd(), 0;
}

void Waitable::prepare() noexcept {
  sleeps.store(true);
  waiting.unsignal();
  waiting.arm();
  waiting.progress();
}

}  // namespace weft::fi
