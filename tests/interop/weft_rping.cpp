// SPDX-License-Identifier: BSD-3-Clause
// rping of librdmacm, over weft: both roles, so that either can talk to the original. The client
// sends where its source buffer lies, the server READs it and says so; the client sends where its
// sink lies, the server WRITEs there what it has read and says so; the client compares.
//
//   weft_rping DEVICE server PORT N                 one client: prints `listening`, `served N`
//   weft_rping DEVICE client ADDRESS:PORT N SIZE    N rounds: prints `verified N`
#include <cstring>
#include <vector>

#include "lib/base/bytes.hpp"
#include "tests/interop/cm_side.hpp"

using namespace weft;

using interop::fail;
using interop::must;

namespace {

constexpr uint32_t kLargest = 65536;

// What the two sides tell each other.
struct Place {
  base::Be64 address;
  base::Be32 rkey;
  base::Be32 size;
};
static_assert(sizeof(Place) == 16);

class Side : interop::CmSide {
 public:
  explicit Side(const char* spec) : CmSide(spec) { post_receive(); }

  // The last word's acknowledgement may be lost, and the client is gone when it is asked for again.
  // Then a good-bye is waited for, since the client may lack an acknowledgement; but not for ever:
  // the kernel says it once when its program ends.
  void serve(uint16_t port, uint32_t rounds) {
    const CmId id = await(port);
    for (uint32_t round = 0; round < rounds; ++round) {
      listen_for_place();
      carry(Opcode::read, theirs_.size);
      say(0);
      listen_for_place();
      const size_t length = strnlen(buffer_.data(), theirs_.size - 1) + 1;
      carry(Opcode::write, static_cast<uint32_t>(length));
      last_word_ = round + 1 == rounds;
      say(0);
    }
    if (!gone_) (void)channel.wait(Duration::from_s(15));
    std::printf("served %u\n", rounds);
  }

  void ask(const char* address, uint32_t rounds, uint32_t size) {
    const CmId id = dial(address);
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
    if (!qp.post_recv({.sges = {&sge, 1}})) fail("cannot post a receive");
  }

  void listen_for_place() {
    if (!receive()) fail("the client has gone");
    if (theirs_.size > kLargest) fail("the client's buffer is too large");
  }
  // Waits for the peer's next message. False: it has disconnected.
  bool receive() {
    while (!received_)
      if (!take()) return false;
    received_ = false;
    post_receive();
    return true;
  }
  bool take() {
    Completion c;
    while (cq.wait({&c, 1}, Duration::from_ms(100)) == 0)
      if (channel.next()) return false;
    if (c.status == Status::flushed || (last_word_ && c.status == Status::retry_exceeded))
      return false;
    if (c.status != Status::success) fail("a request ended with " + std::string(name(c.status)));
    (c.type == WorkType::recv ? received_ : done_) = true;
    return true;
  }
  void post(const SendRequest& request) {
    if (!qp.post_send(request)) fail("cannot post a request");
    while (!done_)
      if (!take()) {
        if (!last_word_) fail("the other side has gone");
        gone_ = true;
        return;
      }
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
    if (!receive()) fail("the server has gone");
  }
  void carry(Opcode opcode, uint32_t size) {
    const Sge sge = region_.sge(0, size);
    post({.opcode = opcode,
          .sges = {&sge, 1},
          .remote_address = theirs_.address,
          .rkey = RKey{theirs_.rkey}});
  }

  Place ours_, theirs_;
  std::vector<char> buffer_ = std::vector<char>(2 * kLargest);
  MemoryRegion region_ = must(pd.register_memory(buffer_.data(), buffer_.size(), Access::all));
  MemoryRegion region_of_ours_ = must(pd.register_memory(&ours_, sizeof ours_, Access::all));
  MemoryRegion region_of_theirs_ = must(pd.register_memory(&theirs_, sizeof theirs_, Access::all));
  bool received_ = false, done_ = false, last_word_ = false, gone_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 3 ? argv[2] : "";
  if (role == "server" && argc == 5)
    Side(argv[1]).serve(static_cast<uint16_t>(std::atoi(argv[3])),
                        static_cast<uint32_t>(std::atoi(argv[4])));
  else if (role == "client" && argc == 6)
    Side(argv[1]).ask(argv[3], static_cast<uint32_t>(std::atoi(argv[4])),
                      static_cast<uint32_t>(std::atoi(argv[5])));
  else
    fail("DEVICE server PORT ROUNDS | DEVICE client ADDRESS:PORT ROUNDS SIZE");
  return 0;
}
