// SPDX-License-Identifier: BSD-3-Clause
// Processes of one network namespace that see different /dev/shm, as containers of a pod do, are
// members of one group all the same.
// ctest: serial
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <set>

#include "tests/ports/udp/udp_members.hpp"

using namespace udp_test;

namespace {

const std::string kAt = "127.78.6.1";
constexpr uint8_t kSenderSlot = 0xFE;

// A /dev/shm of this process's own from now on.
bool take_own_folder() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

// A process with a folder of its own, which opens a member when told to and echoes frames.
class Container {
 public:
  Container() {
    REQUIRE((::pipe(go_) == 0 && ::pipe(answer_) == 0));
    pid_ = child([&] {
      ::close(go_[1]);
      ::close(answer_[0]);
      char mark = 0;
      if (!take_own_folder() || ::write(answer_[1], "+", 1) != 1) return 1;
      if (::read(go_[0], &mark, 1) != 1) return 2;
      const auto port = try_open(kAt);
      const uint8_t mine = port ? slot(*port) : 0;
      if (::write(answer_[1], &mine, 1) != 1 || mine == 0) return 3;
      return echo(*port, -1, uint32_t{kSenderSlot} << 16, go_[0]);
    });
    ::close(go_[0]);
    ::close(answer_[1]);
    able_ = next() == '+';
  }
  ~Container() {
    ::kill(pid_, SIGKILL);
    result_of(pid_);
    ::close(go_[1]);
    ::close(answer_[0]);
  }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  bool able() const { return able_; }
  void open() const { REQUIRE(::write(go_[1], "+", 1) == 1); }
  // Once it has opened a member; 0: it could not.
  uint8_t slot_claimed() const { return next(); }

 private:
  uint8_t next() const {
    uint8_t byte = 0;
    return ::read(answer_[0], &byte, 1) == 1 ? byte : uint8_t{0};
  }

  int go_[2], answer_[2];
  pid_t pid_;
  bool able_;
};

std::unique_ptr<Port> open_sender() {
  transport::PortOptions options;
  options.where = kAt;
  options.first_slot = options.last_slot = kSenderSlot;
  Result<std::unique_ptr<Port>> port = port::open_udp_port(options);
  INFO((port ? "" : port.error().message));
  REQUIRE(port.ok());
  return std::move(*port);
}

// Each member echoes what is sent to its slot, to ours.
void check_echoes(Port& port, const std::vector<uint8_t>& slots) {
  for (uint32_t round = 0; round < 16; ++round)
    for (const uint8_t to : slots) {
      Path path;
      path.source = path.destination = port.address();
      path.source_port = port.source_port(static_cast<uint16_t>(0xC000 + round), 0);
      Bytes bytes = frame_bytes(round, 80, static_cast<uint32_t>(to) << 16);
      const TxFrame frame = whole_frame(path, bytes);
      REQUIRE(port.transmit({&frame, 1}) == 1);
      const std::vector<Got> got = drain(port, 1);
      REQUIRE(got.size() == 1);
      bytes[5] = static_cast<std::byte>(slot(port));
      CHECK(got[0].bytes == bytes);
    }
}

}  // namespace

TEST_CASE("udp: processes with different /dev/shm share one table") {
  const std::string name = "udp: processes with different /dev/shm share one table";
  const Namespace network;
  if (!network) WEFT_SKIP(name, "a network namespace needs root");
  std::vector<std::unique_ptr<Container>> containers;
  for (int i = 0; i < 4; ++i) containers.push_back(std::make_unique<Container>());
  for (const auto& one : containers)
    if (!one->able()) WEFT_SKIP(name, "a /dev/shm of a process's own needs root");
  // Three at once: one of them is the first.
  for (int i = 0; i < 3; ++i) containers[static_cast<size_t>(i)]->open();
  std::vector<uint8_t> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(containers[static_cast<size_t>(i)]->slot_claimed());
  CHECK(std::set<uint8_t>(slots.begin(), slots.end()).size() == 3);
  REQUIRE(std::count(slots.begin(), slots.end(), 0) == 0);
  const auto port = open_sender();
  check_echoes(*port, slots);
  // Two of them are killed, perhaps with the one whose folder has the file; then another one comes.
  for (int i = 0; i < 2; ++i) {
    containers.erase(containers.begin());
    slots.erase(slots.begin());
  }
  check_echoes(*port, slots);
  containers.back()->open();
  // It asks us, too; the one that is left answers.
  slots.push_back(containers.back()->slot_claimed());
  REQUIRE(slots.back() != 0);
  check_echoes(*port, slots);
}
