// SPDX-License-Identifier: BSD-3-Clause
// See descriptor.hpp.
#include "lib/adapters/nccl/descriptor.hpp"

#include <pthread.h>
#include <unistd.h>

#include <mutex>

#include "lib/base/check.hpp"

namespace weft::nccl {
namespace {

// Neither has a destructor: descriptors of other static objects may be closed later.
constinit std::mutex mutex;
constinit Descriptor* first = nullptr;

}  // namespace

Descriptor::Descriptor(int fd) : fd_(fd) {
  if (fd_ < 0) return;
  static const int failed =
      ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, close_all_in_child);
  WEFT_CHECK(failed == 0);
  const std::lock_guard<std::mutex> lock(mutex);
  next_ = first;
  if (next_ != nullptr) next_->previous_ = this;
  first = this;
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(-1) { take(other); }

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  take(other);
  return *this;
}

Descriptor::~Descriptor() { close(); }

// Its place in the list, too.
void Descriptor::take(Descriptor& other) noexcept {
  const std::lock_guard<std::mutex> lock(mutex);
  WEFT_DCHECK(fd_ < 0);
  if (other.fd_ < 0) return;
  fd_ = other.fd_;
  previous_ = other.previous_;
  next_ = other.next_;
  (previous_ != nullptr ? previous_->next_ : first) = this;
  if (next_ != nullptr) next_->previous_ = this;
  other.fd_ = -1;
  other.previous_ = other.next_ = nullptr;
}

void Descriptor::close() noexcept {
  const std::lock_guard<std::mutex> lock(mutex);
  if (fd_ < 0) return;
  (previous_ != nullptr ? previous_->next_ : first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  previous_ = next_ = nullptr;
  ::close(fd_);
  fd_ = -1;
}

// The forking thread has the mutex.
void Descriptor::close_all_in_child() noexcept {
  for (Descriptor* each = first; each != nullptr;) {
    Descriptor* const next = each->next_;
    ::close(each->fd_);
    each->fd_ = -1;
    each->previous_ = each->next_ = nullptr;
    each = next;
  }
  first = nullptr;
  mutex.unlock();
}

}  // namespace weft::nccl
