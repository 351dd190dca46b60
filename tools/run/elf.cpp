// SPDX-License-Identifier: BSD-3-Clause
// See elf.hpp. Files are not trusted: each offset and size is checked by the read itself.
#include "tools/run/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "lib/base/tcp.hpp"

namespace weft::run {
namespace {

constexpr uint8_t kOwnOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
constexpr size_t kLargestPart = 1 << 20;  // bytes of a segment that are read

template <class T>
bool read_at(int fd, uint64_t offset, T& value) {
  return ::pread(fd, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
}

std::vector<char> read_part(int fd, uint64_t offset, uint64_t size) {
  std::vector<char> part(std::min<uint64_t>(size, kLargestPart));
  const ssize_t got = ::pread(fd, part.data(), part.size(), static_cast<off_t>(offset));
  part.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return part;
}

uint32_t count_needed(const std::vector<char>& dynamic) {
  uint32_t needed = 0;
  for (size_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.size(); at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, dynamic.data() + at, sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    needed += entry.d_tag == DT_NEEDED;
  }
  return needed;
}

// The first note's owner is "Go": the Go linker writes its build id into a segment of its own.
bool is_go_note(const std::vector<char>& notes) {
  constexpr char kOwner[4] = {'G', 'o', 0, 0};
  return notes.size() >= sizeof(Elf64_Nhdr) + sizeof kOwner &&
         std::memcmp(notes.data() + sizeof(Elf64_Nhdr), kOwner, sizeof kOwner) == 0;
}

void read_segment(int fd, const Elf64_Phdr& segment, ElfHeaders& headers) {
  if (segment.p_type != PT_INTERP && segment.p_type != PT_DYNAMIC && segment.p_type != PT_NOTE)
    return;
  const std::vector<char> part = read_part(fd, segment.p_offset, segment.p_filesz);
  if (segment.p_type == PT_INTERP)
    headers.interpreter.assign(part.begin(), std::find(part.begin(), part.end(), '\0'));
  else if (segment.p_type == PT_DYNAMIC)
    headers.needed = count_needed(part);
  else
    headers.go = headers.go || is_go_note(part);
}

}  // namespace

std::optional<ElfHeaders> read_elf(const std::string& path) {
  const base::Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char magic[SELFMAG];
  if (!file || !read_at(file.fd(), 0, magic)) return {};
  if (std::memcmp(magic, ELFMAG, SELFMAG) != 0) return {};
  ElfHeaders headers;
  // What both classes have in common comes first.
  Elf32_Ehdr common{};
  if (!read_at(file.fd(), 0, common)) return headers;
  Elf64_Ehdr header{};
  headers.bits = common.e_ident[EI_CLASS];
  headers.order = common.e_ident[EI_DATA];
  if (headers.order != kOwnOrder) return headers;
  headers.machine = common.e_machine;
  if (headers.bits != ELFCLASS64 || !read_at(file.fd(), 0, header)) return headers;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(file.fd(), header.e_phoff + i * sizeof segment, segment)) break;
    read_segment(file.fd(), segment, headers);
  }
  return headers;
}

std::string architecture(const ElfHeaders& headers) {
  switch (headers.machine) {
    case EM_X86_64:
      return headers.bits == ELFCLASS64 ? "x86-64" : "x32";
    case EM_386:
      return "i386";
    case EM_AARCH64:
      return "aarch64";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    default:
      break;
  }
  return std::string(headers.bits == ELFCLASS64 ? "64" : "32") + "-bit " +
         (headers.order == ELFDATA2LSB ? "little" : "big") + "-endian machine " +
         std::to_string(headers.machine);
}

}  // namespace weft::run
