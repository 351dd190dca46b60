// SPDX-License-Identifier: BSD-3-Clause
// See file.hpp.
#include "lib/base/module/file.hpp"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::base {

namespace {

// A file that is closed at the end of its scope.
struct OpenFile {
  explicit OpenFile(const std::string& path)
      : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor >= 0) close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  template <class Header>
  bool read_at(uint64_t offset, Header& header) const {
    return pread(descriptor, &header, sizeof header, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(sizeof header);
  }

  const int descriptor;
};

Error broken(const std::string& why) { return {Code::invalid_argument, why}; }

}  // namespace

Result<void> check_module_file(const std::string& path) {
  const OpenFile file(path);
  struct stat status = {};
  if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0)
    return broken(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return broken("it is not a regular file");
  const auto size = static_cast<uint64_t>(status.st_size);
  ElfW(Ehdr) head = {};
  if (!file.read_at(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return broken("it is not a shared object");
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) segment = {};
    const bool read = file.read_at(head.e_phoff + uint64_t{i} * sizeof segment, segment);
    if (!read || (segment.p_type == PT_LOAD &&
                  (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)))
      return broken("it is truncated at byte " + std::to_string(size));
  }
  return {};
}

}  // namespace weft::base
