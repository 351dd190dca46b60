// SPDX-License-Identifier: BSD-3-Clause
// What an EFA lacks of what `srd` has, on the stand-in of tests/fake_efa: each is a capability, and
// refused with a message that names it.
#include "tests/fake_efa/ends.hpp"

namespace weft::test {
namespace {

TEST_CASE("an EFA without RDMA has neither READ nor WRITE, and says so") {
  begin(kSgid);
  Pair pair;
  const DeviceAttributes& a = pair.a.device.attributes();
  CHECK_FALSE(a.has_read);
  CHECK_FALSE(a.has_write);
  CHECK(a.max_message == 8192);
  CHECK(pair.refusal(pair.request(Opcode::read)).find("has_read") != std::string::npos);
  CHECK(pair.refusal(pair.request(Opcode::write)).find("has_write") != std::string::npos);
  CHECK(pair.refusal(pair.request(Opcode::write_with_imm)).find("has_write") != std::string::npos);
}

TEST_CASE("rights that no operation of the device uses are not registered") {
  begin(kRead | kSgid);
  const End end;
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  CHECK(calls().find("reg_mr:" + std::to_string(rights)) != std::string::npos);
}

TEST_CASE("a sender whose address the device does not report is no peer") {
  begin(kRead | kWrite);  // completion queues without addresses
  Pair pair;
  pair.b.expect(7);
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::send)));
  CHECK_FALSE(pair.b.device.peer_address(pair.b.next().source_peer));
}

TEST_CASE("operations that an EFA lacks are refused at post, with the capability to query") {
  begin();
  Pair pair;
  const auto says = [&](const SendRequest& r, const char* text) {
    const std::string reason = pair.refusal(r);
    INFO(reason);
    CHECK(reason.find(text) != std::string::npos);
  };
  says(pair.request(Opcode::fetch_add), "has_atomics");
  says(pair.request(Opcode::compare_swap), "has_atomics");
  says(pair.request(Opcode::write_add), "has_write_add");
  says(pair.request(Opcode::atomic_write), "ATOMIC WRITE");
  says(pair.request(Opcode::send_with_invalidate), "invalidate");
  says(pair.request(Opcode::bind_window), "windows");
  SendRequest r = pair.request(Opcode::send);
  r.flags = SendFlags::fence;
  says(r, "fence");
  r.flags = SendFlags::ordered;
  says(r, "has_ordered");
  r = pair.request(Opcode::send);
  r.imm_high = 1;
  says(r, "imm_high");
  r = pair.request(Opcode::write);
  r.flags = SendFlags::inline_data;
  says(r, "inline data is for SENDs");
  const Sge long_one{pair.a.memory, 8193, pair.a.region.lkey()};
  r = pair.request(Opcode::send);
  r.sges = {&long_one, 1};
  says(r, "max_send");
  r.opcode = Opcode::write;
  REQUIRE(pair.a.qp.post_send(r));  // a WRITE may be longer
  const Sge far{pair.a.memory, (1u << 20) + 1, pair.a.region.lkey()};
  r.sges = {&far, 1};
  says(r, "max_message");
  const Sge three[] = {pair.source, pair.source, pair.source};
  r = pair.request(Opcode::send);
  r.sges = three;
  says(r, "max_sge");
  r.opcode = Opcode::write;
  r.sges = {three, 2};
  says(r, "READ and WRITE have fewer");
  r = pair.request(Opcode::send);
  r.to = nullptr;
  says(r, "no destination");
  const Sge inline_one{pair.a.memory, 33, {}};
  r = pair.request(Opcode::send);
  r.sges = {&inline_one, 1};
  r.flags = SendFlags::inline_data;
  says(r, "max_inline");
}

TEST_CASE("a refused request in a list: those before it are posted, those after it are not") {
  begin();
  Pair pair;
  for (uint64_t id = 7; id < 10; ++id) pair.b.expect(id);
  SendRequest list[4];
  for (uint32_t i = 0; i < 4; ++i) {
    list[i] = pair.request(Opcode::send_with_imm, i);
    list[i].imm = 40 + i;
  }
  of_fake<decltype(fake_efa_refuse_immediate)>("fake_efa_refuse_immediate")(42);
  const PostStatus status = pair.a.qp.post_send(list);
  CHECK(status.code == Code::invalid_argument);
  CHECK(status.accepted == 2);
  CHECK(pair.a.next().id == 0);
  CHECK(pair.a.next().id == 1);
  CHECK(pair.a.quiet());
}

TEST_CASE("a libibverbs that is too old for SRD is named, and what it lacks") {
  begin();
  setenv("WEFT_OLD_IBVERBS_OF", WEFT_FAKE_EFA, 1);
  const Device device = *Device::open(std::string("ibverbs:efa_fake,srd,library=") +
                                      WEFT_OLD_IBVERBS + ",efa_library=" + WEFT_FAKE_EFA);
  const CompletionQueue cq = *device.completion_queue({});
  const ProtectionDomain pd = *device.protection_domain();
  const Result<QueuePair> qp = pd.queue_pair({.type = QpType::srd, .send_cq = cq, .recv_cq = cq});
  REQUIRE_FALSE(qp);
  CHECK(qp.error().code == Code::not_supported);
  CHECK(qp.error().message.find("libibverbs has no ibv_qp_to_qp_ex") == 0);
  CHECK_FALSE(device.attributes().has_dmabuf);
}

TEST_CASE("calls that SRD lacks are refused with a remedy") {
  begin();
  const End end;
  const auto says = [](const Error& error, const char* text) {
    INFO(error.message);
    CHECK(error.code == Code::not_supported);
    CHECK(error.message.find(text) != std::string::npos);
  };
  says(end.pd.queue_pair({.send_cq = end.cq, .recv_cq = end.cq}).error(), "QpType::srd");
  says(end.pd.shared_receive_queue({}).error(), "one queue pair receives from all peers");
  says(end.pd.memory_window(WindowType::one).error(), "no memory windows");
  says(end.pd.register_dmabuf(0, 0, 4096, Access::local_write).error(), "has_dmabuf");
  says(end.device.xrc_domain().error(), "no XRC");
  says(end.device.completion_queue({.timestamps = true}).error(), "timestamps");
  says(CmChannel::create(end.device).error(), "connects nothing");
  says(end.cq.moderate({.count = 2, .period = Duration::from_us(5)}).error(), "cannot moderate");
}

TEST_CASE("without srd an EFA is refused, and the message says how to open it") {
  begin();
  const Error error =
      Device::open(std::string("ibverbs:efa_fake,library=") + WEFT_FAKE_EFA).error();
  CHECK(error.code == Code::not_supported);
  CHECK(error.message.ends_with("ibverbs:efa_fake,srd"));
}

TEST_CASE("srd that is no flag is refused") {
  const Error error = Device::open(kDevice + ",srd=2").error();
  CHECK(error.message.find("srd=2") != std::string::npos);
}

}  // namespace
}  // namespace weft::test
