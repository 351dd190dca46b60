// SPDX-License-Identifier: BSD-3-Clause
// The flight recorder: what its file holds, what it never holds, which files stay, and that a
// device without a place for it works as before.
//
// program: own
// The folder comes from the environment of the process.
#include "lib/driver/record/flight_recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/driver/record/record_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

namespace weft::driver {
namespace {

constexpr PacketLayout kRoce{.udp_port = 4791, .place_length = 4};
constexpr Instant kNow{5'000'000};

// A folder of the test's own, in which the process records.
struct Folder {
  Folder() {
    char name[] = "/tmp/weft-records-XXXXXX";
    path = mkdtemp(name);
    setenv("WEFT_RECORDS", path.c_str(), 1);
  }
  ~Folder() {
    unsetenv("WEFT_RECORDS");
    std::filesystem::remove_all(path);
  }
  std::string path;
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

RecordedEvent event_in(const std::string& file, uint64_t n) {
  RecordedEvent event;
  std::memcpy(&event, file.data() + kRecordHeaderSize + n % kRecordedEvents * sizeof event,
              sizeof event);
  return event;
}

uint64_t next_in(const std::string& file) {
  uint64_t next;
  std::memcpy(&next, file.data() + offsetof(RecordHeader, next), sizeof next);
  return next;
}

// A received packet with the opcode `opcode`, whose other bytes count up from 1.
struct Packet {
  explicit Packet(uint8_t opcode, uint32_t length = 48) : bytes(length) {
    for (uint32_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i);
    if (length != 0) bytes[0] = static_cast<std::byte>(opcode);
    path.source.bytes[12] = 10;
    path.source.bytes[15] = 7;
    frame.path = &path;
    frame.bytes = bytes.data();
    frame.length = length;
    frame.ecn = 3;
  }
  std::vector<std::byte> bytes;
  transport::Path path;
  transport::Frame frame;
};

TEST_CASE("flight recorder: a packet's event holds its headers, its time and its peer") {
  const Folder folder;
  FlightRecorder recorder(kRoce);
  recorder.open({.device = "roce+udp:lo", .engine = 2}, kNow);
  REQUIRE(recorder.why().empty());
  const Packet packet(0x11);  // ACK
  recorder.received({&packet.frame, 1}, kNow + Duration::from_ns(3));
  const std::string file = bytes_of(recorder.path());
  REQUIRE(file.size() == kRecordSize);
  CHECK(next_in(file) == 1);
  const RecordedEvent event = event_in(file, 0);
  CHECK(event.kind() == EventKind::received);
  CHECK(event.length() == 48);
  CHECK(event.ecn() == 3);
  CHECK(event.at_ps == (kNow + Duration::from_ns(3)).ps);
  CHECK(std::memcmp(&event.head, packet.bytes.data(), 8) == 0);
  CHECK(std::memcmp(&event.place, packet.bytes.data() + 8, 8) == 0);
  CHECK(std::memcmp(&event.peer, packet.path.source.bytes.data() + 12, 4) == 0);
}

// Of a SEND payload follows the BTH, of a datagram the Q_Key, of a WRITE an address.
TEST_CASE("flight recorder: neither payload nor keys are in the file") {
  const Folder folder;
  FlightRecorder recorder(kRoce);
  recorder.open({}, kNow);
  for (const uint8_t opcode : {0x04, 0x0A, 0x64, 0x2A}) {
    const Packet packet(opcode);
    recorder.received({&packet.frame, 1}, kNow);
  }
  transport::TxFrame sent;
  const Packet packet(0x64);
  sent.path = &packet.path;
  sent.head = packet.bytes.data();
  sent.head_length = 48;
  recorder.sent({&sent, 1}, kNow);
  const std::string file = bytes_of(recorder.path());
  for (uint64_t n = 0; n < 5; ++n) {
    CAPTURE(n);
    const RecordedEvent event = event_in(file, n);
    CHECK(std::memcmp(&event.place, packet.bytes.data() + 8, 4) == 0);
    CHECK(std::memcmp(reinterpret_cast<const std::byte*>(&event.place) + 4, "\0\0\0\0", 4) == 0);
  }
}

TEST_CASE("flight recorder: packets shorter than the headers are recorded as they are") {
  const Folder folder;
  FlightRecorder recorder(kRoce);
  recorder.open({}, kNow);
  for (uint32_t length = 0; length <= 16; ++length) {
    const Packet packet(0x11, length);
    recorder.received({&packet.frame, 1}, kNow);
    const RecordedEvent event = event_in(bytes_of(recorder.path()), length);
    CAPTURE(length);
    CHECK(event.length() == length);
    std::byte recorded[16] = {}, there[16] = {};
    std::memcpy(recorded, &event.head, 8);
    std::memcpy(recorded + 8, &event.place, 8);
    std::copy(packet.bytes.begin(), packet.bytes.end(), there);
    if (length < 16) std::fill(std::begin(there) + 12, std::end(there), std::byte{});
    CHECK(std::equal(std::begin(there), std::end(there), recorded));
  }
}

TEST_CASE("flight recorder: the ring holds the newest events") {
  const Folder folder;
  FlightRecorder recorder(kRoce);
  recorder.open({}, kNow);
  for (uint32_t i = 0; i < kRecordedEvents + 100; ++i)
    recorder.changed_state(QpNum{i}, QpState::rts, kNow);
  const std::string file = bytes_of(recorder.path());
  const uint64_t next = next_in(file);
  CHECK(next == kRecordedEvents + 100);
  CHECK(event_in(file, next - 1).head == next - 1);
  CHECK(event_in(file, next).head == 100);
}

TEST_CASE("flight recorder: counters of exceptions are recorded with what they grew by") {
  const Folder folder;
  FlightRecorder recorder(kRoce);
  recorder.open({}, kNow);
  transport::Counters counters;
  counters.add(transport::Count::tx_packets, 9);
  CHECK_FALSE(counters.take_exceptions());
  counters.add(transport::Count::rx_icrc_error, 2);
  CHECK(counters.take_exceptions());
  CHECK_FALSE(counters.take_exceptions());
  recorder.counted(counters, kNow);
  recorder.counted(counters, kNow);
  counters.add(transport::Count::rx_icrc_error, 3);
  recorder.counted(counters, kNow);
  const std::string file = bytes_of(recorder.path());
  REQUIRE(next_in(file) == 2);
  for (const uint64_t n : {0, 1}) {
    CHECK(event_in(file, n).kind() == EventKind::counted);
    CHECK(event_in(file, n).head == static_cast<uint64_t>(transport::Count::rx_icrc_error));
    CHECK(event_in(file, n).place == 2 + n);
  }
}

TEST_CASE("flight recorder: the file goes with its device, unless a request has failed") {
  const Folder folder;
  const auto left_after = [&](Status status) {
    FlightRecorder recorder(kRoce);
    recorder.open({}, kNow);
    CHECK(records_in(folder.path).size() == 1);
    recorder.happened({.event = {}, .status = status, .qp = QpNum{5}}, kNow);
  };
  left_after(Status::flushed);
  CHECK(records_in(folder.path).empty());
  left_after(Status::retry_exceeded);
  const std::vector<std::string> left = records_in(folder.path);
  REQUIRE(left.size() == 1);
  const RecordedEvent event = event_in(bytes_of(left[0]), 0);
  CHECK(event.kind() == EventKind::failed);
  CHECK(event.head == 5);
  CHECK(event.place == static_cast<uint64_t>(Status::retry_exceeded));
}

TEST_CASE("flight recorder: a killed process leaves its record, and only the newest stay") {
  const Folder folder;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      FlightRecorder recorder(kRoce);
      recorder.open({}, kNow);
      recorder.changed_state(QpNum{1}, QpState::err, kNow);
      raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
  }
  FlightRecorder recorder(kRoce);
  recorder.open({}, kNow);
  CHECK(records_in(folder.path).size() == 17);
  for (const std::string& path : records_in(folder.path)) {
    struct stat about {};
    REQUIRE(stat(path.c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
    if (path != recorder.path()) CHECK(next_in(bytes_of(path)) == 1);
  }
}

TEST_CASE("flight recorder: a child after fork leaves the record alone") {
  const Folder folder;
  FlightRecorder recorder(kRoce);
  recorder.open({}, kNow);
  const pid_t child = fork();
  if (child == 0) {
    recorder.abandon();
    recorder.changed_state(QpNum{1}, QpState::err, kNow);
    recorder.~FlightRecorder();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(records_in(folder.path).size() == 1);
  CHECK(next_in(bytes_of(recorder.path())) == 0);
}

TEST_CASE("flight recorder: folders of others are refused, and nothing is recorded") {
  const Folder folder;
  const auto refused = [&](const std::string& path, const std::string& reason) {
    setenv("WEFT_RECORDS", path.c_str(), 1);
    FlightRecorder recorder(kRoce);
    recorder.open({}, kNow);
    CHECK(recorder.path().empty());
    CHECK_THAT(recorder.why(), WEFT_CONTAINS(reason));
    const Packet packet(0x11);
    recorder.received({&packet.frame, 1}, kNow);
    recorder.changed_state(QpNum{1}, QpState::err, kNow);
    recorder.counted({}, kNow);
    CHECK(records_in(path).empty());
  };
  REQUIRE(chmod(folder.path.c_str(), 0770) == 0);
  refused(folder.path, "other users may write to it");
  REQUIRE(chmod(folder.path.c_str(), 0700) == 0);
  const std::string link = folder.path + "/link";
  REQUIRE(symlink(folder.path.c_str(), link.c_str()) == 0);
  refused(link, "is not a folder");
  refused(folder.path + "/missing/folder", "No such file");
  refused("0", "WEFT_RECORDS=0");
  if (geteuid() == 0) {
    REQUIRE(chown(folder.path.c_str(), 65534, 65534) == 0);
    refused(folder.path, "belongs to another user");
  }
}

}  // namespace
}  // namespace weft::driver
