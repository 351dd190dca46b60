// SPDX-License-Identifier: BSD-3-Clause
// The pcap format: a 24-byte file header, then records of a 16-byte header and a frame.
#include "lib/wire/pcap_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::wire {
namespace {

constexpr uint32_t kMagicNanoseconds = 0xA1B23C4D;
constexpr uint32_t kMagicMicroseconds = 0xA1B2C3D4;
constexpr uint32_t kLinkEthernet = 1;
constexpr size_t kFileBuffer = 256 * 1024;
constexpr int64_t kNsPerSecond = 1'000'000'000;

struct FileHeader {
  uint32_t magic = kMagicNanoseconds;
  uint16_t major = 2;
  uint16_t minor = 4;
  uint32_t zone = 0;
  uint32_t accuracy = 0;
  uint32_t snap_length = kMaxCapture;
  uint32_t link = kLinkEthernet;
};
static_assert(sizeof(FileHeader) == 24);

struct RecordHeader {
  uint32_t seconds = 0;
  uint32_t fraction = 0;
  uint32_t length = 0;
  uint32_t original_length = 0;
};
static_assert(sizeof(RecordHeader) == 16);

Error file_error(const std::string& path, const char* what) {
  const int reason = errno;
  const Code code = reason == ENOENT   ? Code::not_found
                    : reason == EACCES ? Code::permission_denied
                    : reason == ENOMEM ? Code::no_memory
                                       : Code::io_error;
  return {code, std::string("cannot ") + what + " capture file \"" + path +
                    "\": " + std::strerror(reason)};
}

uint32_t maybe_swap(uint32_t value, bool swapped) noexcept {
  return swapped ? __builtin_bswap32(value) : value;
}

bool put(std::FILE* file, const void* data, size_t size) noexcept {
  return size == 0 || std::fwrite(data, 1, size, file) == size;
}

}  // namespace

Result<PcapWriter> PcapWriter::create(const std::string& path) {
  Result<base::File> file = base::create_private_file(path, "capture file");
  if (!file) return file.error();
  std::setvbuf(file->get(), nullptr, _IOFBF, kFileBuffer);
  const FileHeader header;
  if (!put(file->get(), &header, sizeof header) || std::fflush(file->get()) != 0)
    return file_error(path, "write");
  return PcapWriter(*std::move(file));
}

bool PcapWriter::write(int64_t time_ns, std::span<const std::span<const std::byte>> pieces,
                       uint32_t cut) noexcept {
  if (failed_) return false;
  size_t total = 0;
  for (const auto& piece : pieces) total += piece.size();
  WEFT_DCHECK(cut <= total);
  const size_t kept = std::min<size_t>(total - cut, kMaxCapture);
  const RecordHeader header{static_cast<uint32_t>(time_ns / kNsPerSecond),
                            static_cast<uint32_t>(time_ns % kNsPerSecond),
                            static_cast<uint32_t>(kept), static_cast<uint32_t>(total)};
  bool good = put(file_.get(), &header, sizeof header);
  size_t room = kept;
  for (const auto& piece : pieces) {
    const size_t size = piece.size() < room ? piece.size() : room;
    good = good && put(file_.get(), piece.data(), size);
    room -= size;
  }
  failed_ = !good;
  records_ += good;
  return good;
}

bool PcapWriter::flush() noexcept {
  if (std::fflush(file_.get()) != 0) failed_ = true;
  return !failed_;
}

Result<PcapReader> PcapReader::open(const std::string& path) {
  base::File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return file_error(path, "open");
  std::setvbuf(file.get(), nullptr, _IOFBF, kFileBuffer);
  FileHeader header;
  const bool whole = std::fread(&header, 1, sizeof header, file.get()) == sizeof header;
  const bool swapped = header.magic == __builtin_bswap32(kMagicNanoseconds) ||
                       header.magic == __builtin_bswap32(kMagicMicroseconds);
  const uint32_t magic = maybe_swap(header.magic, swapped);
  if (!whole || (magic != kMagicNanoseconds && magic != kMagicMicroseconds))
    return Error{Code::invalid_argument,
                 "\"" + path + "\" is not a pcap file (pcapng? convert it: editcap -F nsecpcap)"};
  // The upper bits of the link field say whether frames include an FCS, which most do not.
  if ((maybe_swap(header.link, swapped) & 0xFFFF) != kLinkEthernet)
    return Error{Code::invalid_argument, "\"" + path + "\" does not hold Ethernet frames"};
  return PcapReader(std::move(file), swapped, magic == kMagicNanoseconds);
}

bool PcapReader::next(Record& record) {
  RecordHeader header;
  const size_t got = std::fread(&header, 1, sizeof header, file_.get());
  truncated_ = got != 0;  // until the record is whole
  if (got != sizeof header) return false;
  const uint32_t length = maybe_swap(header.length, swapped_);
  if (length > kMaxCapture) return false;
  if (buffer_.size() < length) buffer_.resize(length);
  if (std::fread(buffer_.data(), 1, length, file_.get()) != length) return false;
  truncated_ = false;
  const int64_t fraction = maybe_swap(header.fraction, swapped_);
  record.time_ns = maybe_swap(header.seconds, swapped_) * kNsPerSecond +
                   (nanoseconds_ ? fraction : fraction * 1000);
  record.bytes = {buffer_.data(), length};
  record.original_length = maybe_swap(header.original_length, swapped_);
  return true;
}

}  // namespace weft::wire
