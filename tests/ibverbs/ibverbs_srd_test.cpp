// SPDX-License-Identifier: BSD-3-Clause
// SRD of an EFA (providers/ibverbs/efa) on a stand-in for libibverbs and libefa, tests/fake_efa:
// which calls a request becomes, what the device's words become, and that a program of `srd` finds
// what it knows. Nothing here is said of hardware.
#include <poll.h>

#include <atomic>
#include <thread>

#include "tests/fake_efa/ends.hpp"

namespace weft::test {
namespace {

TEST_CASE("an EFA reports its capabilities and the limits of the device") {
  begin();
  const Device device = *Device::open(kDevice);
  const DeviceAttributes& a = device.attributes();
  CHECK(a.qp_type == QpType::srd);
  CHECK(a.provider == "ibverbs");
  CHECK(a.has_read);
  CHECK(a.has_write);
  CHECK_FALSE(a.has_atomics);
  CHECK_FALSE(a.has_write_add);
  CHECK_FALSE(a.has_ordered);
  CHECK_FALSE(a.has_uc);
  CHECK_FALSE(a.has_ud);
  CHECK(a.max_send == 8192);
  CHECK(a.max_message == 1u << 20);
  CHECK(a.max_inline == 32);
  CHECK(a.max_sge == 2);
  CHECK(a.max_qp_wr == 4096);
  CHECK_FALSE(a.has_dmabuf);
}

TEST_CASE("a queue pair walks with what an EFA needs: Q_Key, PSN, RNR retries") {
  begin();
  const End end;
  const std::string walk = calls();
  const auto step = [](int mask) { return " modify:" + std::to_string(mask); };
  CHECK(walk.find(step(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) +
                  step(IBV_QP_STATE) + step(IBV_QP_STATE | IBV_QP_SQ_PSN)) != std::string::npos);
  begin();
  REQUIRE(end.qp.modify({.state = QpState::reset}));
  REQUIRE(end.qp.modify({.state = QpState::init}));
  REQUIRE(end.qp.modify({.state = QpState::rtr}));
  REQUIRE(end.qp.modify({.state = QpState::rts, .rnr_retry = uint8_t{3}}));
  CHECK(calls().ends_with(step(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY)));
  CHECK(end.qp.modify({.state = QpState::rtr}).error().code == Code::bad_state);
  CHECK(end.qp.modify({.rnr_retry = uint8_t{2}}).error().code == Code::not_supported);
}

TEST_CASE("each request is one sequence of ibv_wr calls") {
  begin();
  Pair pair;
  pair.b.expect(7);
  pair.b.expect(8);
  pair.b.expect(9);
  SendRequest r = pair.request(Opcode::send);
  REQUIRE(pair.a.qp.post_send(r));  // the handle of its peer is made
  const auto sequence = [&] {
    begin();
    REQUIRE(pair.a.qp.post_send(r));
    return calls();
  };
  CHECK(sequence() == "wr_start wr_send wr_set_sge_list:1 wr_set_ud_addr wr_complete");
  r = pair.request(Opcode::send_with_imm);
  r.imm = 0xA1B2C3D4;
  CHECK(sequence() ==
        "wr_start wr_send_imm:2712847316 wr_set_sge_list:1 wr_set_ud_addr wr_complete");
  r = pair.request(Opcode::write);
  CHECK(sequence() == "wr_start wr_rdma_write wr_set_sge_list:1 wr_set_ud_addr wr_complete");
  r = pair.request(Opcode::read);
  CHECK(sequence() == "wr_start wr_rdma_read wr_set_sge_list:1 wr_set_ud_addr wr_complete");
  r = pair.request(Opcode::write_with_imm);
  r.imm = 5;
  CHECK(sequence() == "wr_start wr_rdma_write_imm:5 wr_set_sge_list:1 wr_set_ud_addr wr_complete");
  r = pair.request(Opcode::send);
  r.flags = SendFlags::inline_data | SendFlags::signaled | SendFlags::solicited;
  CHECK(sequence() == "wr_start wr_send wr_set_inline_data_list:1 wr_set_ud_addr wr_complete");
}

TEST_CASE("a list is one batch") {
  begin();
  Pair pair;
  const SendRequest r = pair.request(Opcode::write);
  REQUIRE(pair.a.qp.post_send(r));
  begin();
  const SendRequest both[] = {r, r};
  REQUIRE(pair.a.qp.post_send(both).accepted == 2);
  CHECK(calls() ==
        "wr_start wr_rdma_write wr_set_sge_list:1 wr_set_ud_addr "
        "wr_rdma_write wr_set_sge_list:1 wr_set_ud_addr wr_complete");
}

TEST_CASE("a SEND arrives, and its receive reports sender and payload") {
  begin();
  Pair pair;
  pair.b.expect(7);
  std::strcpy(pair.a.memory, "hello");
  SendRequest r = pair.request(Opcode::send_with_imm, 33);
  r.imm = 0x01020304;
  REQUIRE(pair.a.qp.post_send(r));
  const Completion sent = pair.a.next();
  CHECK(sent.id == 33);
  CHECK(sent.status == Status::success);
  CHECK(sent.type == WorkType::send);
  CHECK(sent.byte_count == 16);
  CHECK(sent.qp == pair.a.qp.number());
  const Completion got = pair.b.next();
  CHECK(got.id == 7);
  CHECK(got.type == WorkType::recv_with_imm);
  CHECK(got.flags == CompletionFlags::with_imm);
  CHECK(got.imm_or_key == 0x01020304);
  CHECK(got.byte_count == 16);
  CHECK(got.source_qp == pair.a.qp.number());
  CHECK(std::string(pair.b.memory + 2048) == "hello");
  const std::optional<Gid> from = pair.b.device.peer_address(got.source_peer);
  REQUIRE(from);
  CHECK(*from == pair.a.device.attributes().gid);
  CHECK_FALSE(pair.b.device.peer_address(got.source_peer + 1));
}

TEST_CASE("a sender gets an address handle, so that its WRITEs and READs are served") {
  begin();
  Pair pair;
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::write)));
  CHECK(pair.a.next().status == Status::fatal);  // the device does not know the peer
  pair.b.expect(7);
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::send)));
  (void)pair.b.next();
  (void)pair.a.next();
  std::strcpy(pair.a.memory, "written");
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::write, 2)));
  const Completion written = pair.a.next();
  CHECK(written.status == Status::success);
  CHECK(written.type == WorkType::write);
  CHECK(std::string(pair.b.memory + 1024) == "written");
  std::memset(pair.a.memory, 0, 16);
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::read, 3)));
  const Completion read = pair.a.next();
  CHECK(read.type == WorkType::read);  // libefa says of a READ that it is a SEND
  CHECK(read.byte_count == 16);
  CHECK(std::string(pair.a.memory) == "written");
  pair.b.expect(8);
  SendRequest r = pair.request(Opcode::write_with_imm, 4);
  r.imm = 9;
  REQUIRE(pair.a.qp.post_send(r));
  const Completion received = pair.b.next();
  CHECK(received.flags == (CompletionFlags::with_imm | CompletionFlags::rdma_write));
  CHECK(received.imm_or_key == 9);
  CHECK(received.id == 8);
}

TEST_CASE("successes complete only if signaled, failures always") {
  begin();
  Pair pair;
  SendRequest r = pair.request(Opcode::send);
  r.flags = SendFlags::none;
  pair.b.expect(7);
  REQUIRE(pair.a.qp.post_send(r));
  CHECK(pair.a.quiet());
  CHECK(pair.b.next().id == 7);
  REQUIRE(pair.a.qp.post_send(r));  // no receive
  const Completion failed = pair.a.next();
  CHECK(failed.status == Status::rnr_retry_exceeded);
  CHECK(failed.id == 1);
}

TEST_CASE("an error is of its request, the queue pair goes on, and the device's reason is kept") {
  begin();
  Pair pair;
  struct {
    ibv_wc_status said;
    Status status;
  } const words[] = {{IBV_WC_LOC_QP_OP_ERR, Status::local_qp_operation_error},
                     {IBV_WC_LOC_PROT_ERR, Status::local_protection_error},
                     {IBV_WC_LOC_LEN_ERR, Status::local_length_error},
                     {IBV_WC_REM_ABORT_ERR, Status::remote_aborted},
                     {IBV_WC_RNR_RETRY_EXC_ERR, Status::rnr_retry_exceeded},
                     {IBV_WC_REM_INV_RD_REQ_ERR, Status::remote_invalid_request},
                     {IBV_WC_BAD_RESP_ERR, Status::bad_response},
                     {IBV_WC_REM_INV_REQ_ERR, Status::remote_invalid_request},
                     {IBV_WC_RESP_TIMEOUT_ERR, Status::retry_exceeded},
                     {IBV_WC_GENERAL_ERR, Status::fatal}};
  uint32_t vendor = 2;
  for (const auto& word : words) {
    fail_next(word.said, vendor);
    REQUIRE(pair.a.qp.post_send(pair.request(Opcode::read, 100 + vendor)));
    const Completion c = pair.a.next();
    CHECK(c.status == word.status);
    CHECK(c.vendor_error == vendor);
    CHECK(c.id == 100 + vendor);
    CHECK(c.type == WorkType::read);
    ++vendor;
  }
  CHECK(pair.a.qp.state() == QpState::rts);
}

TEST_CASE("queues have the requested length") {
  begin();
  Pair pair;
  End end({.max_send_wr = 2, .max_recv_wr = 2});
  SendRequest r = pair.request(Opcode::write);
  REQUIRE(end.qp.post_send(r));
  REQUIRE(end.qp.post_send(r));
  CHECK(end.qp.post_send(r).code == Code::queue_full);
  (void)end.next();
  CHECK(end.qp.post_send(r));
  end.expect(1);
  end.expect(2);
  const Sge sge = end.region.sge(0, 16);
  CHECK(end.qp.post_recv({.id = 3, .sges = {&sge, 1}}).code == Code::queue_full);
}

TEST_CASE("in ERR receives are flushed, and requests posted later too") {
  begin();
  Pair pair;
  pair.b.expect(7);
  REQUIRE(pair.b.qp.modify({.state = QpState::err}));
  CHECK(pair.b.next().status == Status::flushed);
  pair.b.expect(8);
  const Completion receive = pair.b.next();
  CHECK(receive.status == Status::flushed);
  CHECK(receive.id == 8);
  CHECK(receive.type == WorkType::recv);
  SendRequest r = pair.request(Opcode::write, 9);
  r.flags = SendFlags::none;
  REQUIRE(pair.b.qp.post_send(r));
  const Completion send = pair.b.next();
  CHECK(send.status == Status::flushed);
  CHECK(send.id == 9);
  CHECK(send.type == WorkType::write);
}

TEST_CASE("requests in flight at a RESET do not complete") {
  begin();
  Pair pair;
  pair.b.expect(7);
  fail_next(IBV_WC_GENERAL_ERR, 9);
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::send, 1)));
  REQUIRE(pair.a.qp.modify({.state = QpState::reset}));
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts})
    REQUIRE(pair.a.qp.modify({.state = state}));
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::send, 2)));
  const Completion c = pair.a.next();
  CHECK(c.id == 2);
  CHECK(c.status == Status::success);  // not the status of what was there before
  CHECK(pair.a.quiet());
}

TEST_CASE("completions of a destroyed queue pair are skipped") {
  begin();
  Pair pair;
  {
    End other;
    QueuePairOptions options;
    options.type = QpType::srd;
    options.send_cq = options.recv_cq = pair.a.cq;
    const QueuePair destroyed = *pair.a.pd.queue_pair(options);
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts})
      REQUIRE(destroyed.modify({.state = state}));
    REQUIRE(destroyed.post_send(pair.request(Opcode::write, 1)));
  }
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::write, 2)));
  CHECK(pair.a.next().id == 2);
}

TEST_CASE("a default destination, a Q_Key of one's own, and one of another") {
  begin();
  Pair pair;
  REQUIRE(pair.a.qp.modify({.path = AddressVector{.destination = pair.b.device.attributes().gid},
                            .dest_qpn = pair.b.qp.number()}));
  SendRequest r = pair.request(Opcode::send);
  r.to = nullptr;
  pair.b.expect(7);
  REQUIRE(pair.a.qp.post_send(r));
  CHECK(pair.a.next().status == Status::success);
  (void)pair.b.next();
  REQUIRE(pair.b.qp.modify({.qkey = 0x1234}));
  pair.b.expect(8);
  REQUIRE(pair.a.qp.post_send(r));
  CHECK(pair.a.next().status == Status::retry_exceeded);  // the receiver's is another
  r.remote_qkey = 0x1234;
  REQUIRE(pair.a.qp.post_send(r));
  CHECK(pair.a.next().status == Status::success);
}

bool is_readable(const CompletionQueue& cq) {
  pollfd waiting{cq.fd(), POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

TEST_CASE("an armed queue wakes for completions of the device and for flushed requests") {
  begin();
  of_fake<decltype(fake_efa_have_events)>("fake_efa_have_events")();
  Pair pair;
  const End& end = pair.a;
  const auto sleep = [&] {
    end.cq.acknowledge();
    end.cq.arm();
    CHECK(end.quiet());
    CHECK_FALSE(is_readable(end.cq));
  };
  sleep();
  REQUIRE(end.qp.post_send(pair.request(Opcode::write, 1)));
  CHECK(is_readable(end.cq));
  CHECK(end.next().id == 1);
  REQUIRE(end.qp.modify({.state = QpState::err}));
  sleep();
  end.expect(2);
  CHECK(is_readable(end.cq));
  CHECK(end.next().id == 2);
  sleep();
  REQUIRE(end.qp.post_send(pair.request(Opcode::write, 3)));
  CHECK(is_readable(end.cq));
  CHECK(end.next().id == 3);
  end.cq.acknowledge();
  end.expect(4);  // not armed
  CHECK_FALSE(is_readable(end.cq));
  CHECK(end.next().id == 4);
}

TEST_CASE("handles that senders cause are bounded, all senders are named, and can be sent to") {
  constexpr uint32_t kMost = 4096;  // Domain::kMostMet
  begin();
  Pair pair;
  const auto receive_from_peer = [&](uint64_t id) {
    pair.b.expect(id);
    REQUIRE(pair.a.qp.post_send(pair.request(Opcode::send)));
    (void)pair.a.next();
    return pair.b.next();
  };
  const auto handles = [] {
    const std::string all = calls();
    size_t count = 0;
    for (size_t at = all.find("create_ah"); at != std::string::npos; ++count)
      at = all.find("create_ah", at + 1);
    return count;
  };
  (void)receive_from_peer(0);  // both have a handle of the other
  begin();
  of_fake<decltype(fake_efa_hide_peers)>("fake_efa_hide_peers")();
  for (uint32_t id = 1; id < kMost; ++id) (void)receive_from_peer(id);
  CHECK(handles() == kMost - 1);
  const std::optional<Gid> from = pair.b.device.peer_address(receive_from_peer(kMost).source_peer);
  CHECK(handles() == kMost - 1);
  REQUIRE(from);
  const AddressHandle late{{.destination = *from}};
  SendRequest answer = pair.request(Opcode::send);
  const Sge sge = pair.b.region.sge(0, 16);
  answer.sges = {&sge, 1};
  answer.to = &late;
  REQUIRE(pair.b.qp.post_send(answer));
  CHECK(handles() == kMost);
}

TEST_CASE("posting in ERR and modify() of two threads do not race") {
  begin();
  Pair pair;
  SendRequest r = pair.request(Opcode::send);
  r.to = nullptr;
  const AddressVector path{.destination = pair.b.device.attributes().gid};
  std::atomic<bool> done{false};
  std::thread poster([&] {
    while (!done) {
      (void)pair.a.qp.post_send(r);
      (void)pair.a.qp.post_recv({.id = 1, .sges = {}});
    }
  });
  for (int i = 0; i < 200; ++i) {
    CHECK(pair.a.qp.modify({.state = QpState::reset}));
    CHECK(pair.a.qp.modify({.state = QpState::init}));
    CHECK(pair.a.qp.modify({.state = QpState::rtr}));
    CHECK(pair.a.qp.modify({.state = QpState::rts, .path = path, .dest_qpn = pair.b.qp.number()}));
    CHECK(pair.a.qp.modify({.state = QpState::err}));
  }
  done = true;
  poster.join();
}

TEST_CASE("where the device has no events, waiting is polling") {
  begin();
  Pair pair;
  REQUIRE(pair.a.qp.post_send(pair.request(Opcode::write, 5)));
  Completion c;
  REQUIRE(pair.a.cq.wait({&c, 1}, Duration::from_s(10)) == 1);
  CHECK(c.id == 5);
}

}  // namespace
}  // namespace weft::test
