// SPDX-License-Identifier: BSD-3-Clause
// dma-bufs of software providers: the buffer is mapped as long as the region exists, and the
// mapping is registered.
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
      : size_(size),
        base_(mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
                   static_cast<off_t>(offset))) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base_ != MAP_FAILED) munmap(base_, size_);
  }
  void* base() const noexcept { return base_ != MAP_FAILED ? base_ : nullptr; }

 private:
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
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (offset % page != 0)
    return Error{Code::invalid_argument,
                 "register_dmabuf: on this device the offset must be a multiple of " +
                     std::to_string(page) + ", the page size"};
  return {};
}

}  // namespace

Result<std::shared_ptr<Region>> Domain::register_dmabuf(int fd, uint64_t offset, size_t size,
                                                        Access access, void* at) {
  if (at != nullptr)
    return Error{Code::not_supported,
                 "register_dmabuf: this device maps the buffer where there is room: leave `at` "
                 "null and name bytes by MemoryRegion::address()"};
  if (const Result<void> ok = check(fd, offset, size); !ok) return ok.error();
  std::shared_ptr<Mapped> mapped(
      new Mapped{{fd, offset, size, has(access, Access::local_write)}, nullptr});
  if (mapped->mapping.base() == nullptr)
    return Error{errno == EACCES || errno == EPERM ? Code::permission_denied : Code::not_supported,
                 std::string("register_dmabuf: the buffer cannot be mapped (") +
                     std::strerror(errno) +
                     "): a buffer whose exporter does not support mmap() can only be used on an "
                     "ibverbs device (DeviceAttributes::has_dmabuf)"};
  Result<std::shared_ptr<Region>> region = register_memory(mapped->mapping.base(), size, access);
  if (!region) return region.error();
  mapped->region = std::move(*region);
  Region* const raw = mapped->region.get();
  return std::shared_ptr<Region>(std::move(mapped), raw);
}

}  // namespace weft::verbs
