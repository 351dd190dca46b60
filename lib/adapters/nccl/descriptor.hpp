// SPDX-License-Identifier: BSD-3-Clause
// A socket's descriptor that is closed with the object, and at once in a child process of fork(),
// where the object is empty from then on: TCP tells the peer that this process has ended only when
// no process has the socket any more, and the child must not send to the peer in our place.
#pragma once

namespace weft::nccl {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int fd() const { return fd_; }

 private:
  static void close_all_in_child() noexcept;
  void take(Descriptor& other) noexcept;
  void close() noexcept;

  int fd_;
  // The other open ones of the process, in no order.
  Descriptor* previous_ = nullptr;
  Descriptor* next_ = nullptr;
};

}  // namespace weft::nccl
