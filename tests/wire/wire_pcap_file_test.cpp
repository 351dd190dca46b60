// SPDX-License-Identifier: BSD-3-Clause
// Capture files: records are read as written, other byte orders and precisions are supported, and
// an incomplete file is reported.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lib/wire/pcap_file.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::wire;

namespace {

// A temporary file, removed at the end.
struct TemporaryFile {
  std::string path =
      (std::filesystem::temp_directory_path() / ("weft_pcap_" + std::to_string(getpid()) + ".pcap"))
          .string();
  ~TemporaryFile() { std::remove(path.c_str()); }
};

std::vector<std::byte> filled(size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

bool write_one(PcapWriter& writer, int64_t time_ns, const std::vector<std::byte>& a,
               const std::vector<std::byte>& b) {
  const std::span<const std::byte> pieces[] = {a, b};
  return writer.write(time_ns, pieces);
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("records are read as they were written") {
  TemporaryFile file;
  {
    auto writer = PcapWriter::create(file.path);
    REQUIRE(writer);
    for (int i = 0; i < 1000; ++i)
      REQUIRE(write_one(*writer, 1'700'000'000'123'456'789 + i, filled(66, i),
                        filled(static_cast<size_t>(i) * 5, i + 1)));
    CHECK(writer->records() == 1000);
  }
  auto reader = PcapReader::open(file.path);
  REQUIRE(reader);
  PcapReader::Record record;
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(reader->next(record));
    REQUIRE(record.time_ns == 1'700'000'000'123'456'789 + i);
    REQUIRE(record.bytes.size() == 66 + static_cast<size_t>(i) * 5);
    REQUIRE(record.original_length == record.bytes.size());
    REQUIRE(record.bytes.front() == static_cast<std::byte>(i));
    if (i > 0) REQUIRE(record.bytes.back() == static_cast<std::byte>(i + 1));
  }
  CHECK_FALSE(reader->next(record));
  CHECK_FALSE(reader->truncated());
}

TEST_CASE("flush makes records readable while the writer lives") {
  TemporaryFile file;
  auto writer = PcapWriter::create(file.path);
  REQUIRE(writer);
  CHECK(std::filesystem::file_size(file.path) == 24);
  REQUIRE(write_one(*writer, 5, filled(10, 1), {}));
  REQUIRE(writer->flush());
  CHECK(std::filesystem::file_size(file.path) == 24 + 16 + 10);
}

TEST_CASE("a frame that is too long is truncated, with its original length") {
  TemporaryFile file;
  {
    auto writer = PcapWriter::create(file.path);
    REQUIRE(writer);
    REQUIRE(write_one(*writer, 5, filled(60, 1), filled(300'000, 2)));
    REQUIRE(write_one(*writer, 6, filled(60, 3), {}));
  }
  auto reader = PcapReader::open(file.path);
  REQUIRE(reader);
  PcapReader::Record record;
  REQUIRE(reader->next(record));
  CHECK(record.bytes.size() == kMaxCapture);
  CHECK(record.original_length == 300'060);
  REQUIRE(reader->next(record));
  CHECK(record.bytes.size() == 60);
}

TEST_CASE("files of the other byte order and of microseconds are read") {
  TemporaryFile file;
  using namespace std::string_literals;
  write_file(file.path, "\xA1\xB2\xC3\xD4\0\2\0\4\0\0\0\0\0\0\0\0\0\0\xFF\xFF\0\0\0\1"s +
                            "\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\7"s + "abcd");
  auto reader = PcapReader::open(file.path);
  REQUIRE(reader);
  PcapReader::Record record;
  REQUIRE(reader->next(record));
  CHECK(record.time_ns == 2'000'003'000);
  CHECK(record.bytes.size() == 4);
  CHECK(record.original_length == 7);
  CHECK_FALSE(reader->next(record));
  CHECK_FALSE(reader->truncated());
}

TEST_CASE("incomplete files and other formats are reported") {
  TemporaryFile file;
  PcapReader::Record record;
  {
    auto writer = PcapWriter::create(file.path);
    REQUIRE(writer);
    REQUIRE(write_one(*writer, 5, filled(100, 1), {}));
  }
  for (uintmax_t cut : {1u, 99u, 100u, 101u, 115u}) {
    std::filesystem::resize_file(file.path, 24 + 116 - cut);
    auto reader = PcapReader::open(file.path);
    REQUIRE(reader);
    CHECK_FALSE(reader->next(record));
    CHECK(reader->truncated());
  }
  write_file(file.path, "no capture");
  CHECK(PcapReader::open(file.path).error().code == Code::invalid_argument);
  using namespace std::string_literals;
  write_file(file.path, "\xA1\xB2\xC3\xD4\0\2\0\4\0\0\0\0\0\0\0\0\0\0\xFF\xFF\0\0\0\x65"s);
  CHECK(PcapReader::open(file.path).error().code == Code::invalid_argument);
  CHECK(PcapReader::open(file.path + ".none").error().code == Code::not_found);
  CHECK(PcapWriter::create("/nowhere/x.pcap").error().code == Code::not_found);
}

TEST_CASE("pieces of a frame may be empty or of one byte, and its end may be left out") {
  TemporaryFile file;
  {
    auto writer = PcapWriter::create(file.path);
    REQUIRE(writer);
    const std::vector<std::byte> one = filled(1, 7), none, more = filled(20, 9);
    const std::span<const std::byte> pieces[] = {one, none, more, one};
    REQUIRE(writer->write(0, pieces));
    REQUIRE(writer->write(0, pieces, 21));
  }
  auto reader = PcapReader::open(file.path);
  REQUIRE(reader);
  PcapReader::Record record;
  for (const size_t kept : {22u, 1u}) {
    REQUIRE(reader->next(record));
    REQUIRE(record.bytes.size() == kept);
    CHECK(record.original_length == 22);
    CHECK(record.bytes.front() == std::byte{7});
    CHECK(record.bytes.back() == std::byte{7});
  }
  CHECK_FALSE(reader->next(record));
}

TEST_CASE("the file header is that of the pcap format") {
  TemporaryFile file;
  REQUIRE(PcapWriter::create(file.path));
  std::ifstream in(file.path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  REQUIRE(bytes.size() == 24);
  uint32_t words[6];
  std::memcpy(words, bytes.data(), sizeof words);
  CHECK(words[0] == 0xA1B23C4D);  // nanoseconds
  CHECK(words[1] == (2 | 4 << 16));
  CHECK(words[2] == 0);  // time zone
  CHECK(words[3] == 0);  // accuracy
  CHECK(words[4] == kMaxCapture);
  CHECK(words[5] == 1);  // Ethernet
}

TEST_CASE("a full disk is an error when the file is created") {
  if (!std::filesystem::exists("/dev/full")) return;
  auto writer = PcapWriter::create("/dev/full");
  CHECK_FALSE(writer);  // the header does not fit already
}
