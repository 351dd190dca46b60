// SPDX-License-Identifier: BSD-3-Clause
// ucmatose of librdmacm, over weft: both roles, one connection. The server sends ten messages of
// 100 bytes, the client answers with as many, the server disconnects.
//
//   weft_cmatose DEVICE server PORT           prints `listening`, then `done`
//   weft_cmatose DEVICE client ADDRESS:PORT   prints `done`
#include <vector>

#include "tests/interop/cm_side.hpp"

using namespace weft;
using interop::fail;
using interop::must;

namespace {

constexpr uint32_t kMessages = 10, kSize = 100;

struct Mate : interop::CmSide {
  explicit Mate(const char* spec) : CmSide(spec) {
    const Sge sge = region.sge(kSize, kSize);
    for (uint32_t i = 0; i < kMessages; ++i)
      if (!qp.post_recv({.sges = {&sge, 1}})) fail("cannot post a receive");
  }
  void send() {
    const Sge sge = region.sge(0, kSize);
    for (uint32_t i = 0; i < kMessages; ++i)
      if (!qp.post_send({.sges = {&sge, 1}})) fail("cannot post a message");
    while (sent < kMessages) take();
  }
  void receive() {
    while (received < kMessages) take();
  }
  void take() {
    Completion c;
    if (cq.wait({&c, 1}, Duration::from_s(20)) == 0) fail("nothing for 20 s");
    if (c.status != Status::success) fail("a message ended with " + std::string(name(c.status)));
    ++(c.type == WorkType::recv ? received : sent);
  }
  std::vector<std::byte> memory = std::vector<std::byte>(2 * kSize);
  MemoryRegion region = must(pd.register_memory(memory.data(), memory.size(), Access::all));
  uint32_t sent = 0, received = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("weft_cmatose DEVICE server PORT | DEVICE client ADDRESS:PORT");
  Mate mate(argv[1]);
  if (std::string(argv[2]) == "server") {
    const CmId id = mate.await(static_cast<uint16_t>(std::atoi(argv[3])));
    mate.send();
    mate.receive();
    must(id.disconnect());
    (void)mate.expect(CmEventType::disconnected);
  } else {
    const CmId id = mate.dial(argv[3]);
    mate.receive();
    mate.send();
    (void)mate.expect(CmEventType::disconnected);
  }
  std::printf("done\n");
  return 0;
}
