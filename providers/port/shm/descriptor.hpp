// SPDX-License-Identifier: BSD-3-Clause
// Owners of what the kernel lends: a file descriptor and a mapping, given back with the object.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace weft::port::shm {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }

  int fd() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, size_t size) noexcept
      : address_(address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address)), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(other.size_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      unmap();
      address_ = std::exchange(other.address_, nullptr);
      size_ = other.size_;
    }
    return *this;
  }
  ~Mapping() { unmap(); }

  std::byte* data() const noexcept { return address_; }
  size_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return address_ != nullptr; }

 private:
  void unmap() noexcept {
    if (address_ != nullptr) munmap(std::exchange(address_, nullptr), size_);
  }
  std::byte* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weft::port::shm
