// SPDX-License-Identifier: BSD-3-Clause
// udaddy of librdmacm, over weft: both roles, one client. The client finds the service (SIDR) and
// sends it ten datagrams of 100 bytes, each with the number of its queue pair as immediate data;
// the server answers there with as many.
//
//   weft_udaddy DEVICE server PORT           prints `listening`, then `done`
//   weft_udaddy DEVICE client ADDRESS:PORT   prints `done`
#include <vector>

#include "tests/interop/cm_side.hpp"

using namespace weft;
using interop::fail;
using interop::must;

namespace {

constexpr uint32_t kMessages = 10, kSize = 100, kSlot = kNetworkHeaderLength + kSize;

struct Datagrams : interop::CmEnd {
  explicit Datagrams(const char* spec) : CmEnd(spec) {
    must(qp.modify(
        {.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .qkey = kCmQkey}));
    must(qp.modify({.state = QpState::rtr}));
    must(qp.modify({.state = QpState::rts, .sq_psn = Psn{0}}));
    for (uint32_t i = 0; i < kMessages; ++i) {
      const Sge sge = region.sge(i * kSlot, kSlot);
      if (!qp.post_recv({.id = i, .sges = {&sge, 1}})) fail("cannot post a receive");
    }
  }
  void send(const CmDatagramService& to) {
    const AddressHandle way(to.path);
    const Sge sge = region.sge(kMessages * kSlot, kSize);
    for (uint32_t i = 0; i < kMessages; ++i)
      if (!qp.post_send({.opcode = Opcode::send_with_imm,
                         .imm = qp.number().value,
                         .sges = {&sge, 1},
                         .to = &way,
                         .remote_qpn = to.qpn,
                         .remote_qkey = to.qkey}))
        fail("cannot post a datagram");
    while (sent < kMessages) take();
  }
  void receive() {
    while (received < kMessages) take();
  }
  void take() {
    Completion c;
    if (cq.wait({&c, 1}, Duration::from_s(20)) == 0) fail("nothing for 20 s");
    if (c.status != Status::success) fail("a datagram ended with " + std::string(name(c.status)));
    if (c.type != WorkType::recv && c.type != WorkType::recv_with_imm) return void(++sent);
    ++received;
    const auto* const header = memory.data() + c.id * kSlot;
    from = {
        sender_of(std::span<const std::byte, kNetworkHeaderLength>(header, kNetworkHeaderLength)),
        QpNum{c.imm_or_key}, kCmQkey};
  }

  std::vector<std::byte> memory = std::vector<std::byte>((kMessages + 1) * kSlot);
  MemoryRegion region = must(pd.register_memory(memory.data(), memory.size(), Access::all));
  QueuePair qp = must(pd.queue_pair({.type = QpType::ud, .send_cq = cq, .recv_cq = cq}));
  uint32_t sent = 0, received = 0;
  CmDatagramService from;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("weft_udaddy DEVICE server PORT | DEVICE client ADDRESS:PORT");
  Datagrams end(argv[1]);
  if (std::string(argv[2]) == "server") {
    const CmId listener =
        end.listen(static_cast<uint16_t>(std::atoi(argv[3])), CmService::datagrams);
    const CmEvent asked = end.expect(CmEventType::connect_request);
    must(asked.id.accept(end.qp));
    end.receive();
    end.send(end.from);
  } else {
    const CmId id = end.way_to(argv[3], CmService::datagrams);
    must(id.find_service());
    const CmEvent found = end.expect(CmEventType::established);
    end.send(*found.service);
    end.receive();
  }
  std::printf("done\n");
  return 0;
}
