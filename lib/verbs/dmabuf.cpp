// SPDX-License-Identifier: BSD-3-Clause
// dma-bufs of software providers: the buffer is mapped as long as the region exists, from the page
// with its first byte on, and the mapping is registered.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/verbs/provider.hpp"

namespace weft::verbs {

namespace {

class Mapping {
 public:
  Mapping(int fd, uint64_t offset, size_t size, bool writable) noexcept
      : before_(offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE))),
        size_(size + before_),
        base_(mmap(nullptr, size_, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
                   static_cast<off_t>(offset - before_))) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base_ != MAP_FAILED) munmap(base_, size_);
  }
  // The byte at `offset`; null: it could not be mapped.
  void* base() const noexcept {
    return base_ != MAP_FAILED ? static_cast<std::byte*>(base_) + before_ : nullptr;
  }

 private:
  size_t before_;  // bytes of the mapping before `offset`
  size_t size_;
  void* base_;
};

// A region and its mapping: the region is destroyed first.
struct Mapped {
  Mapping mapping;
  std::shared_ptr<Region> region;
};

Result<void> check(int fd, uint64_t offset, size_t size) {
  struct stat file {};
  if (fstat(fd, &file) != 0)
    return Error{Code::invalid_argument, "register_dmabuf: " + std::to_string(fd) +
                                             " is no open descriptor: pass that of a dma-buf"};
  // The size of a dma-buf is found by lseek() only. A file's size is found without, because its
  // position belongs to the caller.
  const off_t end = S_ISREG(file.st_mode) ? file.st_size : lseek(fd, 0, SEEK_END);
  if (end < 0 || offset > static_cast<uint64_t>(end) ||
      size > static_cast<uint64_t>(end) - offset || size == 0)
    return Error{Code::invalid_argument, "register_dmabuf: " + std::to_string(size) +
                                             " bytes from " + std::to_string(offset) +
                                             " on are not in a buffer of " +
                                             std::to_string(end < 0 ? 0 : end) + " bytes"};
  return {};
}

}  // namespace

Result<std::shared_ptr<Region>> Domain::register_dmabuf(int fd, uint64_t offset, size_t size,
                                                        Access access, void* at) {
  if (has(access, Access::on_demand))
    return Error{Code::invalid_argument,
                 "register_dmabuf: a dma-buf is mapped as a whole: leave on_demand out"};
  if (const Result<void> ok = check(fd, offset, size); !ok) return ok.error();
  std::shared_ptr<Mapped> mapped(
      new Mapped{{fd, offset, size, has(access, Access::local_write)}, nullptr});
  if (mapped->mapping.base() == nullptr)
    return Error{errno == EACCES || errno == EPERM ? Code::permission_denied : Code::not_supported,
                 std::string("register_dmabuf: the buffer cannot be mapped (") +
                     std::strerror(errno) +
                     "): a buffer whose exporter does not support mmap() can only be used on an "
                     "ibverbs device (DeviceAttributes::has_dmabuf)"};
  void* const base = mapped->mapping.base();
  const auto iova = reinterpret_cast<uintptr_t>(at != nullptr ? at : base);
  if (size - 1 > UINTPTR_MAX - iova)
    return Error{Code::invalid_argument,
                 "register_dmabuf: the addresses from `at` on end beyond 2^64"};
  Result<std::shared_ptr<Region>> region = register_memory(base, size, iova, access);
  if (!region) return region.error();
  mapped->region = std::move(*region);
  Region* const raw = mapped->region.get();
  return std::shared_ptr<Region>(std::move(mapped), raw);
}

}  // namespace weft::verbs
