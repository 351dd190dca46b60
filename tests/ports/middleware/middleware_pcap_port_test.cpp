// SPDX-License-Identifier: BSD-3-Clause
// The capturing port over a port made here: frames pass unchanged, and the file is RoCEv2 in the
// eyes of tests/oracle (Python, its own CRC), of scapy, and of tshark.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/memory/guarded_copy.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/parse.hpp"
#include "providers/port/middleware/pcap_port.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/skip.hpp"

using namespace weft;
using namespace weft::transport;
using middleware::PcapPort;

namespace {

using Bytes = std::vector<std::byte>;

// Frames that were sent are received again in order, from where `reflect` says.
class Mirror final : public Port {
 public:
  Capabilities can;
  Path path;
  bool hide_id = false;  // as UDP sockets do
  uint16_t receive_ecn = 0;
  size_t take = SIZE_MAX;  // frames that transmit accepts
  std::deque<std::pair<Bytes, uint16_t>> queue;
  RemoteMemory* remote = nullptr;
  uint32_t remote_length = 0;
  size_t split = 0;  // payload bytes that are lent apart, as `more`
  Bytes more;
  int released = 0;

  const Capabilities& capabilities() const noexcept override { return can; }
  Gid address() const noexcept override { return path.source; }
  uint16_t source_port(uint16_t wanted, uint32_t) noexcept override {
    return static_cast<uint16_t>(wanted | 1);
  }
  size_t receive(std::span<Frame> frames) noexcept override {
    size_t count = 0;
    for (; count < frames.size() && count < queue.size(); ++count) {
      Frame& frame = frames[count];
      const auto& [bytes, id] = queue[count];
      frame = Frame{};
      frame.path = &path;
      frame.bytes = bytes.data();
      frame.length = static_cast<uint32_t>(bytes.size());
      frame.ip_id = hide_id ? uint16_t{0} : id;
      frame.ip_id_known = !hide_id;
      frame.ecn = static_cast<uint8_t>(receive_ecn);
      frame.more = more.data();
      frame.more_length = static_cast<uint32_t>(more.size());
      frame.remote = remote;
      frame.remote_length = remote_length;
    }
    return count;
  }
  void release(std::span<const Frame> frames) noexcept override {
    released += static_cast<int>(frames.size());
    queue.erase(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(frames.size()));
  }
  size_t transmit(std::span<const TxFrame> frames) noexcept override {
    const size_t count = std::min(take, frames.size());
    for (const TxFrame& f : frames.first(count)) {
      Bytes bytes(f.head, f.head + f.head_length);
      for (uint32_t i = 0; i < f.span_count; ++i)
        bytes.insert(bytes.end(), f.spans[i].data, f.spans[i].data + f.spans[i].length);
      bytes.insert(bytes.end(), f.tail, f.tail + f.tail_length);
      queue.emplace_back(bytes, f.ip_id);
    }
    return count;
  }
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return true; }
  void append_counters(std::vector<Counter>& counters) const override {
    counters.push_back({"mirror", 1});
  }
};

struct Setup {
  std::string file;
  Mirror* mirror = nullptr;  // owned by port
  std::unique_ptr<Port> port;
  int64_t clock = 1'000'000'000;

  explicit Setup(const char* name, const Capabilities& can = {}, bool ipv6 = false) {
    file = (std::filesystem::temp_directory_path() /
            ("weft_" + std::string(name) + std::to_string(getpid()) + ".pcap"))
               .string();
    auto inner = std::make_unique<Mirror>();
    mirror = inner.get();
    mirror->can = can;
    mirror->path.source = ipv6 ? *parse_gid("fd00::1") : Gid::from_ipv4(10, 0, 0, 1);
    mirror->path.destination = ipv6 ? *parse_gid("fd00::2") : Gid::from_ipv4(10, 0, 0, 2);
    mirror->path.traffic_class = 0x68;
    port = *PcapPort::wrap(std::move(inner), file, {}, [this] { return clock += 1000; });
  }
  ~Setup() { std::remove(file.c_str()); }
  wire::OuterHeader covered(uint16_t ip_id) const {
    const Path& p = mirror->path;
    return {&p.source, &p.destination, p.source_port, p.destination_port, ip_id};
  }
};

// One packet of any opcode, signed unless the port carries no ICRC.
Bytes make_packet(const Setup& s, uint8_t opcode, uint32_t payload, uint16_t ip_id, bool sign) {
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  if (!info.payload) payload = 0;
  const uint32_t pad = (0u - payload) & 3;
  Bytes bytes(info.header_length + payload + pad + (sign ? 4 : 0));
  const wire::BthFields bth{
      .opcode = opcode, .pad = static_cast<uint8_t>(pad), .dest = QpNum{0x11}, .psn = Psn{opcode}};
  std::byte* at = wire::emit_bth(bytes.data(), bth);
  if (info.xrceth) at = wire::emit_xrceth(at, 0x00FEDCBA);
  if (info.feth) at = wire::emit_feth(at, wire::kPlaceVisible, wire::kSelectRange);
  if (info.reth)
    at = wire::emit_reth(at, 0x1000, RKey{7},
                         payload + (info.place == wire::Place::first ? 100 : 0));
  if (info.deth) at = wire::emit_deth(at, 0x11111111, QpNum{9});
  // No payload looks like an EtherType: tshark would guess what is inside.
  for (uint32_t i = 0; i < payload; ++i)
    bytes[info.header_length + i] = static_cast<std::byte>(0xF0 | (i + opcode));
  if (sign) {
    const auto length = static_cast<uint32_t>(bytes.size());
    const uint32_t sum = wire::icrc(s.covered(ip_id), bytes.data(), length);
    for (uint32_t i = 0; i < 4; ++i) bytes[length - 4 + i] = static_cast<std::byte>(sum >> 8 * i);
  }
  return bytes;
}

// Sends every opcode, receives it back, and asks that the frames were passed on as they were.
void exchange(Setup& s, bool sign) {
  uint16_t id = 0;
  for (int round = 0; round < 3; ++round) {
    for (int opcode = 0; opcode < 0xC0; ++opcode) {  // above: the manufacturers', not the oracle's
      if (!wire::opcode_info(static_cast<uint8_t>(opcode)).known()) continue;
      const auto payload = static_cast<uint32_t>(1 + round + opcode % 4 + round * 400);
      ++id;
      const Bytes packet = make_packet(s, static_cast<uint8_t>(opcode), payload, id, sign);
      TxFrame tx;
      tx.path = &s.mirror->path;
      tx.head = packet.data();
      tx.head_length = 16;  // the rest is gathered
      const Span span{packet.data() + 16, static_cast<uint32_t>(packet.size()) - 16};
      tx.spans = &span;
      tx.span_count = 1;
      tx.payload_length = span.length;
      tx.ip_id = id;
      tx.ecn = 2;
      REQUIRE(s.port->transmit({&tx, 1}) == 1);
      Frame rx[4];
      REQUIRE(s.port->receive(rx) == 1);
      REQUIRE(Bytes(rx[0].bytes, rx[0].bytes + rx[0].length) == packet);
      s.port->release({rx, 1});
    }
  }
}

std::string run(const std::string& command, int& status) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[512];
  while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
  const int raw = pclose(pipe);
  status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
  return output;
}

std::string oracle() {
  const auto tests = test::source_root() / "tests";
  // The system's python3 first: it has scapy if anything has.
  const char* python = access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
  return std::string(python) + " '" + (tests / "oracle" / "roce_oracle.py").string() + "' ";
}

// The oracle's verdict on a capture.
void check_capture(const std::string& file, int frames) {
  int status = 0;
  const std::string output =
      run(oracle() + "check '" + file + "' --min " + std::to_string(frames), status);
  INFO(output);
  CHECK(status == 0);
}

constexpr int kFrames = 65 * 3 * 2;  // every opcode of IBTA, three rounds, sent and received

}  // namespace

TEST_CASE("a capture of every opcode satisfies the oracle C-HDR-1 C-ICRC-11") {
  for (bool ipv6 : {false, true}) {
    Setup s("pcap_all", {}, ipv6);
    exchange(s, true);
    s.port.reset();  // flushes
    check_capture(s.file, kFrames);
  }
}

TEST_CASE("the oracle refuses a capture with one wrong bit") {
  Setup s("pcap_bad");
  const Bytes packet = make_packet(s, wire::kRcSendOnly, 100, 1, true);
  Bytes damaged = packet;
  damaged[50] ^= std::byte{1};
  TxFrame tx[2];
  for (TxFrame& frame : tx) frame.path = &s.mirror->path, frame.ip_id = 1;
  tx[0].head = packet.data();
  tx[1].head = damaged.data();
  tx[0].head_length = tx[1].head_length = static_cast<uint32_t>(packet.size());
  REQUIRE(s.port->transmit(tx) == 2);
  s.port.reset();
  int status = 0;
  const std::string output = run(oracle() + "check '" + s.file + "'", status);
  INFO(output);
  CHECK(status == 1);
  CHECK(output.find("frame 2: ICRC") != std::string::npos);
  CHECK(output.find("frame 1:") == std::string::npos);
}

TEST_CASE("a hidden identification is written as the one that was signed") {
  Setup s("pcap_hidden");
  s.mirror->hide_id = true;
  exchange(s, true);
  s.port.reset();
  check_capture(s.file, kFrames);
}

TEST_CASE("a port without ICRC gets one in the file and stays as it is") {
  Capabilities can;
  can.integrity_bits = 0;
  can.max_mtu = can.active_mtu = 65536;
  can.by_reference = true;
  can.gather = can.signs = true;
  for (bool ipv6 : {false, true}) {
    Setup s("pcap_shm", can, ipv6);
    CHECK(s.port->capabilities().integrity_bits == 0);
    CHECK(s.port->capabilities().max_mtu == 4096);
    CHECK(s.port->capabilities().active_mtu == 4096);
    CHECK_FALSE(s.port->capabilities().by_reference);
    CHECK((s.port->capabilities().gather && !s.port->capabilities().signs));
    exchange(s, false);
    s.port.reset();
    check_capture(s.file, kFrames);
  }
}

TEST_CASE("separate and referenced payload is written to the file in its place") {
  struct Peer final : RemoteMemory {
    Bytes memory = Bytes(64, std::byte{0x77});
    bool alive = true;
    bool pull(void* to, uint64_t address, size_t size) noexcept override {
      if (alive) std::memcpy(to, memory.data() + address, size);
      return alive;
    }
  } peer;
  Capabilities can;
  can.integrity_bits = 0;
  Setup s("pcap_apart", can);
  const Bytes headers = make_packet(s, wire::kRcSendMiddle, 0, 0, false);
  Frame rx[1];
  s.mirror->queue.emplace_back(headers, uint16_t{0});
  s.mirror->more = Bytes(32, std::byte{0x55});
  REQUIRE(s.port->receive(rx) == 1);
  s.mirror->more.clear();
  s.mirror->remote = &peer;
  s.mirror->remote_length = 64;
  REQUIRE(s.port->receive(rx) == 1);
  peer.alive = false;
  REQUIRE(s.port->receive(rx) == 1);  // still passed on: the engine decides
  std::vector<Counter> counters;
  s.port->append_counters(counters);
  REQUIRE(counters.size() == 3);
  CHECK(counters[0].name == "mirror");
  CHECK((counters[1].name == "pcap_frames" && counters[1].value == 2));
  CHECK((counters[2].name == "pcap_lost" && counters[2].value == 1));
  s.port.reset();
  check_capture(s.file, 2);
  auto reader = wire::PcapReader::open(s.file);
  REQUIRE(reader);
  wire::PcapReader::Record record;
  REQUIRE(reader->next(record));
  CHECK(record.bytes.size() == 42 + 12 + 32 + 4);
  CHECK(record.bytes[42 + 12] == std::byte{0x55});
  REQUIRE(reader->next(record));
  CHECK(record.bytes.size() == 42 + 12 + 64 + 4);
}

TEST_CASE("memory that the user unmapped costs the record, not the process") {
  Setup s("pcap_unmapped");
  memory::install_fault_guard();
  const Bytes head = make_packet(s, wire::kRcSendOnly, 0, 1, true);
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  struct Blind final : Port {  // takes frames without looking at them
    Capabilities can;
    const Capabilities& capabilities() const noexcept override { return can; }
    Gid address() const noexcept override { return {}; }
    size_t receive(std::span<Frame>) noexcept override { return 0; }
    void release(std::span<const Frame>) noexcept override {}
    size_t transmit(std::span<const TxFrame> f) noexcept override { return f.size(); }
    bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return true; }
  };
  auto port = *PcapPort::wrap(std::make_unique<Blind>(), s.file);
  const Span span{static_cast<const std::byte*>(page), 64};
  TxFrame tx;
  tx.path = &s.mirror->path;
  tx.head = head.data();
  tx.head_length = 12;
  tx.spans = &span;
  tx.span_count = 1;
  tx.payload_length = 64;
  CHECK(port->transmit({&tx, 1}) == 1);
  std::vector<Counter> counters;
  port->append_counters(counters);
  CHECK(counters.back().value == 1);
  munmap(page, 4096);
}

TEST_CASE("only what the inner port took is written, with the ECN bits that it can carry") {
  Capabilities can;
  can.ecn = true;
  Setup s("pcap_ecn", can);
  CHECK(s.port->source_port(0xC000, 0) == 0xC001);
  CHECK(s.port->address() == s.mirror->path.source);
  const Bytes packet = make_packet(s, wire::kRcSendOnly, 8, 3, true);
  TxFrame tx[2];
  for (TxFrame& frame : tx) {
    frame.path = &s.mirror->path;
    frame.head = packet.data();
    frame.head_length = static_cast<uint32_t>(packet.size());
    frame.ip_id = 3;
    frame.ecn = 1;
  }
  s.mirror->take = 1;
  CHECK(s.port->transmit(tx) == 1);
  s.mirror->receive_ecn = 3;
  Frame rx[2];
  CHECK(s.port->receive(rx) == 1);
  std::vector<pollfd> descriptors;
  CHECK(s.port->prepare_wait(descriptors, false));  // flushes too
  auto reader = wire::PcapReader::open(s.file);
  REQUIRE(reader);
  wire::PcapReader::Record record;
  wire::Outer outer;
  wire::Transport transport;
  for (uint8_t ecn : {1, 3}) {
    REQUIRE(reader->next(record));
    REQUIRE(wire::parse_outer(record.bytes.data(), static_cast<uint32_t>(record.bytes.size()),
                              outer, transport) == wire::OuterError::none);
    CHECK(outer.traffic_class == (0x68 | ecn));
    CHECK(outer.ip_id == 3);
    CHECK(record.time_ns == s.clock - (ecn == 1 ? 1000 : 0));
  }
  CHECK_FALSE(reader->next(record));
}
TEST_CASE("scapy computes the same ICRC C-ICRC-11") {
  Setup s("pcap_scapy");
  exchange(s, true);
  s.port.reset();
  int status = 0;
  const std::string output = run(oracle() + "check --cross-check-scapy '" + s.file + "'", status);
  INFO(output);
  if (status == 77) WEFT_SKIP("scapy computes the same ICRC", "this python3 has no scapy");
  CHECK(status == 0);
  CHECK(output.find("scapy agreed on " + std::to_string(kFrames)) != std::string::npos);
}

TEST_CASE("tshark finds no malformed packet") {
  int status = 0;
  run("tshark --version", status);
  if (status != 0) WEFT_SKIP("tshark finds no malformed packet", "no tshark");
  for (bool ipv6 : {false, true}) {
    Setup s("pcap_tshark", {}, ipv6);
    exchange(s, true);
    s.port.reset();
    // The payload is no RPC over RDMA, whatever tshark guesses.
    const std::string tshark = "(tshark --disable-protocol rpcordma -r '" + s.file +
                               "' -T fields -e infiniband.bth.opcode ";
    const std::string all = run(tshark + "-Y infiniband.bth 2>/dev/null)", status);
    CHECK(status == 0);
    CHECK(std::count(all.begin(), all.end(), '\n') == kFrames);
    const std::string bad =
        run(tshark + "-Y '_ws.malformed || udp.checksum.zero' 2>/dev/null)", status);
    CHECK(status == 0);
    INFO(bad);
    CHECK(bad.empty());
  }
}
