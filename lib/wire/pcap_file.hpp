// SPDX-License-Identifier: BSD-3-Clause
// Capture files of Ethernet frames in the classic pcap format, written with nanosecond timestamps
// in host byte order; the reader supports all four variants. Uses stdio with one large buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/private_file.hpp"
#include "weft/result.hpp"

namespace weft::wire {

// The longest record that is written or accepted.
inline constexpr uint32_t kMaxCapture = 262'144;

class PcapWriter {
 public:
  // Creates or empties the file, which only its owner can read. Errors: those of
  // base::create_private_file().
  static Result<PcapWriter> create(const std::string& path);

  // Writes one frame, given in pieces, of which the last `cut` bytes are left out. False after a
  // failed write (such as a full disk): nothing more is written then, so that at most the last
  // record is incomplete.
  bool write(int64_t time_ns, std::span<const std::span<const std::byte>> pieces,
             uint32_t cut = 0) noexcept;

  bool flush() noexcept;
  uint64_t records() const noexcept { return records_; }

 private:
  explicit PcapWriter(base::File file) : file_(std::move(file)) {}
  base::File file_;
  uint64_t records_ = 0;
  bool failed_ = false;
};

class PcapReader {
 public:
  // Errors: not_found, io_error; invalid_argument if it is no pcap file of Ethernet frames.
  static Result<PcapReader> open(const std::string& path);

  struct Record {
    int64_t time_ns = 0;
    std::span<const std::byte> bytes;  // the reader's, until the next call
    uint32_t original_length = 0;      // longer than bytes if the capture was truncated
  };

  // False at the end of the file; truncated() says if it ended inside a record or an invalid one.
  bool next(Record& record);
  bool truncated() const noexcept { return truncated_; }

 private:
  PcapReader(base::File file, bool swapped, bool nanoseconds)
      : file_(std::move(file)), swapped_(swapped), nanoseconds_(nanoseconds) {}
  base::File file_;
  std::vector<std::byte> buffer_;
  bool swapped_ = false;
  bool nanoseconds_ = true;
  bool truncated_ = false;
};

}  // namespace weft::wire
