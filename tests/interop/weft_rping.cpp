// SPDX-License-Identifier: BSD-3-Clause
// rping of librdmacm, over weft: both roles, so that either can talk to the original. The client
// sends where its source buffer lies, the server READs it and says so; the client sends where its
// sink lies, the server WRITEs there what it has read and says so; the client compares.
//
//   weft_rping DEVICE server PORT                   one client: prints `listening`, `served N`
//   weft_rping DEVICE client ADDRESS:PORT N SIZE    N rounds: prints `verified N`
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/bytes.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

constexpr Duration kLimit = Duration::from_s(20);
constexpr uint32_t kLargest = 65536;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "weft_rping: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(*result);
}
void must(Result<void> result) {
  if (!result) fail(result.error().message);
}

// What the two sides tell each other.
struct Place {
  base::Be64 address;
  base::Be32 rkey;
  base::Be32 size;
};
static_assert(sizeof(Place) == 16);

class Side {
 public:
  explicit Side(const char* device) : device_(must(Device::open(device))) {
    // INIT before the connection, so that the first receive is there when it begins.
    must(qp_.modify({.state = QpState::init,
                     .pkey_index = uint16_t{0},
                     .port = uint8_t{1},
                     .access = Access::all}));
    post_receive();
  }

  CmEvent expect(CmEventType type) {
    std::optional<CmEvent> event = channel_.wait(kLimit);
    if (!event) fail("no event within 20 s, wanted " + std::string(name(type)));
    if (event->type != type)
      fail("event " + std::string(name(event->type)) +
           (event->error ? ": " + event->error->message : std::string()));
    return std::move(*event);
  }

  void serve(uint16_t port) {
    const CmId listener = must(channel_.create_id());
    must(listener.listen(port));
    std::printf("listening\n");
    std::fflush(stdout);
    const CmEvent asked = expect(CmEventType::connect_request);
    must(asked.id.accept(qp_, {.responder_resources = 1, .initiator_depth = 1}));
    (void)expect(CmEventType::established);
    uint32_t rounds = 0;
    for (; hear(); ++rounds) {
      const uint32_t size = theirs_.size;
      if (size > kLargest) fail("the client's buffer is too large");
      carry(Opcode::read, size);
      say(0);
      if (!hear()) break;
      carry(Opcode::write, static_cast<uint32_t>(strnlen(buffer_.data(), size - 1) + 1));
      say(0);
    }
    std::printf("served %u\n", rounds);
  }

  void ask(const char* address, uint32_t rounds, uint32_t size) {
    const CmId id = must(channel_.create_id());
    must(id.resolve_address(address));
    (void)expect(CmEventType::address_resolved);
    must(id.resolve_route());
    (void)expect(CmEventType::route_resolved);
    must(id.connect(qp_, {.responder_resources = 1, .initiator_depth = 1}));
    (void)expect(CmEventType::established);
    for (uint32_t round = 0; round < rounds; ++round) {
      char* const source = buffer_.data();
      char* const sink = source + kLargest;
      for (uint32_t i = 0; i + 1 < size; ++i) source[i] = static_cast<char>('A' + (i + round) % 58);
      source[size - 1] = 0;
      std::memset(sink, 0, size);
      tell(0, size);
      tell(kLargest, size);
      if (std::memcmp(source, sink, size) != 0) fail("round " + std::to_string(round) + " differs");
    }
    std::printf("verified %u\n", rounds);
    must(id.disconnect());
    (void)expect(CmEventType::disconnected);
  }

 private:
  void post_receive() {
    const Sge sge = region_of_theirs_.sge(0, sizeof theirs_);
    if (!qp_.post_recv({.sges = {&sge, 1}})) fail("cannot post a receive");
  }

  // The other side's next word. False: it has gone.
  bool hear() {
    while (!heard_)
      if (!take()) return false;
    heard_ = false;
    post_receive();
    return true;
  }
  bool take() {
    Completion c;
    while (cq_.wait({&c, 1}, Duration::from_ms(100)) == 0)
      if (channel_.next()) return false;
    if (c.status == Status::flushed) return false;
    if (c.status != Status::success) fail("a request ended with " + std::string(name(c.status)));
    (c.type == WorkType::recv ? heard_ : done_) = true;
    return true;
  }
  void post(const SendRequest& request) {
    if (!qp_.post_send(request)) fail("cannot post a request");
    while (!done_)
      if (!take()) fail("the other side has gone");
    done_ = false;
  }
  void say(size_t offset, uint32_t size = 0) {
    ours_.address = reinterpret_cast<uint64_t>(buffer_.data() + offset);
    ours_.rkey = region_.rkey().value;
    ours_.size = size;
    const Sge sge = region_of_ours_.sge(0, sizeof ours_);
    post({.sges = {&sge, 1}});
  }
  void tell(size_t offset, uint32_t size) {
    say(offset, size);
    if (!hear()) fail("the server has gone");
  }
  void carry(Opcode opcode, uint32_t size) {
    const Sge sge = region_.sge(0, size);
    post({.opcode = opcode,
          .sges = {&sge, 1},
          .remote_address = theirs_.address,
          .rkey = RKey{theirs_.rkey}});
  }

  Device device_;
  CmChannel channel_ = must(CmChannel::create(device_));
  CompletionQueue cq_ = must(device_.completion_queue({.capacity = 32}));
  ProtectionDomain pd_ = must(device_.protection_domain());
  QueuePair qp_ = must(pd_.queue_pair({.send_cq = cq_, .recv_cq = cq_}));
  Place ours_, theirs_;
  std::vector<char> buffer_ = std::vector<char>(2 * kLargest);
  MemoryRegion region_ = must(pd_.register_memory(buffer_.data(), buffer_.size(), Access::all));
  MemoryRegion region_of_ours_ = must(pd_.register_memory(&ours_, sizeof ours_, Access::all));
  MemoryRegion region_of_theirs_ = must(pd_.register_memory(&theirs_, sizeof theirs_, Access::all));
  bool heard_ = false, done_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 3 ? argv[2] : "";
  if (role == "server" && argc == 4)
    Side(argv[1]).serve(static_cast<uint16_t>(std::atoi(argv[3])));
  else if (role == "client" && argc == 6)
    Side(argv[1]).ask(argv[3], static_cast<uint32_t>(std::atoi(argv[4])),
                      static_cast<uint32_t>(std::atoi(argv[5])));
  else
    fail("DEVICE server PORT | DEVICE client ADDRESS:PORT ROUNDS SIZE");
  return 0;
}
