// SPDX-License-Identifier: BSD-3-Clause
// Posting to queue pairs of provider ibverbs on a device that does nothing (bench/verbs), by
// ibv_wr_* and by lists: what is accepted, what is refused and with which words is the same.
#include <dlfcn.h>

#include <numeric>
#include <vector>

#include "bench/verbs/idle_device.hpp"
#include "tests/support/catch.hpp"
#include "weft/weft.hpp"

namespace weft {
namespace {

template <class Function>
Function* of_idle(const char* name) {
  static void* const library = dlopen(WEFT_IDLE_VERBS, RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

bool engine_only(Opcode opcode) {
  return opcode == Opcode::atomic_write || opcode == Opcode::flush || opcode == Opcode::bind_window;
}

struct End {
  Device device = *Device::open(std::string("ibverbs:idle0,library=") + WEFT_IDLE_VERBS);
  CompletionQueue cq = *device.completion_queue({.capacity = 1024});
  ProtectionDomain pd = *device.protection_domain();
  QueuePair qp;
  char memory[4096] = {};
  MemoryRegion region = *pd.register_memory(memory, sizeof memory, Access::all);
  Sge entry = region.sge(0, 8);

  End(bool extended, QueuePairOptions options = {}, uint8_t max_rd_atomic = 1) {
    of_idle<decltype(idle_have_extended)>("idle_have_extended")(extended);
    options.send_cq = options.recv_cq = cq;
    options.max_send_wr = options.max_recv_wr = 1024;
    const Result<QueuePair> made = pd.queue_pair(options);
    if (!made) FAIL(made.error().message);
    qp = *made;
    const bool datagrams = options.type == QpType::ud;
    QueuePairAttributes init{.state = QpState::init};
    init.pkey_index = 0;
    init.port = 1;
    if (datagrams) init.qkey = 5;
    if (!datagrams) init.access = Access::all;
    REQUIRE(qp.modify(init));
    QueuePairAttributes rtr{.state = QpState::rtr};
    if (!datagrams) {
      rtr.path = AddressVector{.destination = device.attributes().gid};
      rtr.path_mtu = 1024;
      rtr.dest_qpn = QpNum{17};
      rtr.rq_psn = Psn{1};
    }
    if (options.type == QpType::rc) {
      rtr.max_dest_rd_atomic = 1;
      rtr.min_rnr_timer = 1;
    }
    REQUIRE(qp.modify(rtr));
    QueuePairAttributes rts{.state = QpState::rts};
    rts.sq_psn = Psn{1};
    if (options.type == QpType::rc) {
      rts.max_rd_atomic = max_rd_atomic;
      rts.timeout = 14;
      rts.retry_count = rts.rnr_retry = 7;
    }
    REQUIRE(qp.modify(rts));
  }

  SendRequest request(Opcode opcode, uint64_t id = 0) const {
    SendRequest r{.id = id, .opcode = opcode, .sges = {&entry, 1}};
    r.remote_address = 64;
    r.rkey = RKey{7};
    return r;
  }
  std::vector<SendRequest> requests(size_t count, Opcode opcode = Opcode::write) const {
    std::vector<SendRequest> all;
    for (size_t i = 0; i < count; ++i) all.push_back(request(opcode, i));
    return all;
  }
  std::vector<Completion> finished() const {
    std::vector<Completion> all(2048);
    all.resize(cq.poll(all));
    return all;
  }
};

std::string refusal(const End& end, const SendRequest& r) {
  const PostStatus status = end.qp.post_send(r);
  CHECK(status.accepted == (status ? 1u : 0u));
  return status ? "" : status.reason;
}

TEST_CASE("each opcode completes as what it is") {
  for (const bool extended : {false, true}) {
    INFO("extended " << extended);
    const End end(extended);
    const std::pair<Opcode, WorkType> kinds[] = {{Opcode::send, WorkType::send},
                                                 {Opcode::send_with_imm, WorkType::send},
                                                 {Opcode::send_with_invalidate, WorkType::send},
                                                 {Opcode::write, WorkType::write},
                                                 {Opcode::write_with_imm, WorkType::write},
                                                 {Opcode::read, WorkType::read},
                                                 {Opcode::compare_swap, WorkType::compare_swap},
                                                 {Opcode::fetch_add, WorkType::fetch_add}};
    for (const auto& [opcode, type] : kinds) {
      REQUIRE(end.qp.post_send(end.request(opcode, 40)));
      const std::vector<Completion> done = end.finished();
      REQUIRE(done.size() == 1);
      CHECK(done[0].id == 40);
      CHECK(done[0].type == type);
      CHECK(done[0].byte_count == 8);
      CHECK(done[0].status == Status::success);
    }
  }
}

Posted posted_by(const End& end, const SendRequest& r) {
  Posted recorded;
  of_idle<decltype(idle_record)>("idle_record")(&recorded);
  const PostStatus posted = end.qp.post_send(r);
  of_idle<decltype(idle_record)>("idle_record")(nullptr);
  INFO((posted ? "" : posted.reason));
  CHECK(posted);
  CHECK(end.finished().size() == (posted ? 1u : 0u));
  return recorded;
}

// Posts by ibv_wr_* where such requests use it, and by a list; compares what the device gets.
Posted posted_alike(const End& extended, const End& lists, const SendRequest& r) {
  Posted by_list = posted_by(lists, r);
  const Posted posted = posted_by(extended, r);
  CHECK(by_list.by_list);
  CHECK(posted.by_list == (is_local(r.opcode) || r.sges.size() != 1));
  by_list.by_list = posted.by_list;
  CHECK(posted == by_list);
  return posted;
}

TEST_CASE("lists and ibv_wr_* post the same to the device") {
  const End lists(false), extended(true);
  for (uint8_t opcode = 0; opcode <= static_cast<uint8_t>(Opcode::local_invalidate); ++opcode) {
    SendRequest r = extended.request(static_cast<Opcode>(opcode), opcode);
    if (r.opcode == Opcode::write_add || engine_only(r.opcode)) continue;
    r.imm = 0x01020304;
    r.invalidate = RKey{0x99};
    r.compare_add = 0x1122;
    r.swap = r.opcode == Opcode::compare_swap ? 0x3344 : 0;
    if (r.opcode == Opcode::local_invalidate) r.sges = {};
    for (const SendFlags flags : {SendFlags::none, SendFlags::signaled,
                                  SendFlags::signaled | SendFlags::fence | SendFlags::solicited}) {
      r.flags = flags;
      const Posted posted = posted_alike(extended, lists, r);
      CHECK(posted.id == opcode);
      CHECK(posted.bytes == (r.sges.empty() ? 0 : 8));
    }
  }
}

TEST_CASE("entries and inline data are posted, several and none too") {
  const End lists(false), extended(true);
  const std::vector<Sge> pieces = {extended.region.sge(0, 8), extended.region.sge(8, 0),
                                   extended.region.sge(100, 30)};
  for (size_t count = 0; count <= pieces.size(); ++count)
    for (const SendFlags flags :
         {SendFlags::signaled, SendFlags::signaled | SendFlags::inline_data}) {
      SendRequest r = extended.request(Opcode::write);
      r.sges = std::span(pieces).first(count);
      r.flags = flags;
      const Posted posted = posted_alike(extended, lists, r);
      CHECK(posted.entries == count);
      CHECK(posted.bytes == (count == 3 ? 38 : count == 0 ? 0 : 8));
      CHECK(posted.is_inline == has(flags, SendFlags::inline_data));
    }
}

TEST_CASE("a datagram's destination is posted") {
  const End lists(false, {.type = QpType::ud}), extended(true, {.type = QpType::ud});
  const AddressHandle to(AddressVector{.destination = extended.device.attributes().gid});
  SendRequest r = extended.request(Opcode::send_with_imm);
  r.to = &to;
  r.remote_qpn = QpNum{99};
  r.remote_qkey = 5;
  const Posted posted = posted_alike(extended, lists, r);
  CHECK(posted.has_handle);
  CHECK(posted.qpn == 99);
  CHECK(posted.qkey == 5);
}

TEST_CASE("a full queue takes what has room, in order, and says so") {
  for (const bool extended : {false, true}) {
    INFO("extended " << extended);
    const End end(extended);
    REQUIRE(end.qp.post_send(end.requests(7)).accepted == 7);
    const std::vector<SendRequest> many = end.requests(1100);
    const PostStatus status = end.qp.post_send(many);
    CHECK(status.code == Code::queue_full);
    CHECK(status.accepted == 1024 - 7);
    REQUIRE(status.reason != nullptr);
    CHECK(std::string(status.reason).find("poll completions") != std::string::npos);
    const std::vector<Completion> done = end.finished();
    REQUIRE(done.size() == 1024);
    for (size_t i = 7; i < done.size(); ++i) REQUIRE(done[i].id == i - 7);
  }
}

TEST_CASE("requests before a bad one are posted, those after it are not") {
  for (const bool extended : {false, true}) {
    INFO("extended " << extended);
    const End end(extended);
    for (const size_t bad : {0u, 3u, 16u, 20u}) {
      std::vector<SendRequest> some = end.requests(24);
      some[bad].imm_high = 1;
      const PostStatus status = end.qp.post_send(some);
      CHECK(status.code == Code::invalid_argument);
      CHECK(status.accepted == bad);
      REQUIRE(status.reason != nullptr);
      CHECK(std::string(status.reason).find("imm_high") != std::string::npos);
      CHECK(end.finished().size() == bad);
    }
  }
}

TEST_CASE("local requests keep their place among others") {
  for (const bool extended : {false, true}) {
    INFO("extended " << extended);
    const End end(extended);
    std::vector<SendRequest> some = end.requests(9);
    some[0].opcode = some[4].opcode = some[5].opcode = Opcode::local_invalidate;
    some[0].sges = some[4].sges = some[5].sges = {};
    CHECK(end.qp.post_send(some).accepted == 9);
    const std::vector<Completion> done = end.finished();
    REQUIRE(done.size() == 9);
    for (size_t i = 0; i < done.size(); ++i) {
      CHECK(done[i].id == i);
      CHECK((done[i].type == WorkType::local_invalidate) == (i == 0 || i == 4 || i == 5));
    }
  }
}

TEST_CASE("what is wrong with a request is said in the same words") {
  for (const bool extended : {false, true}) {
    const End end(extended, {.max_send_sge = 2, .max_inline = 16}, 0);
    const std::vector<Sge> three(3, end.entry);
    SendRequest r = end.request(Opcode::read);
    CHECK(refusal(end, r) == "READ and atomics need max_rd_atomic > 0");
    r = end.request(Opcode::write_add);
    CHECK(refusal(end, r) == "this provider has no such opcode");
    r = end.request(static_cast<Opcode>(200));
    CHECK(refusal(end, r) == "this provider has no such opcode");
    r = end.request(Opcode::flush);
    CHECK(refusal(end, r) == "this provider has no ATOMIC WRITE and no FLUSH yet");
    r = end.request(Opcode::write);
    r.sges = three;
    CHECK(refusal(end, r).starts_with("more scatter/gather entries"));
    const Sge longer = end.region.sge(0, 17);
    r.sges = {&longer, 1};
    CHECK(refusal(end, r) == "");
    r.flags = SendFlags::inline_data;
    CHECK(refusal(end, r).starts_with("inline data longer"));
    const End datagrams(extended, {.type = QpType::ud});
    CHECK(refusal(datagrams, end.request(Opcode::send)).starts_with("a datagram needs"));
    CHECK(refusal(datagrams, end.request(Opcode::write)).starts_with("UD queue pairs only SEND"));
    const End uc(extended, {.type = QpType::uc});
    CHECK(refusal(uc, end.request(Opcode::read)).starts_with("UC queue pairs only"));
    CHECK(refusal(uc, end.request(Opcode::send_with_invalidate)).starts_with("UC queue pairs"));
    CHECK(refusal(uc, end.request(Opcode::write)) == "");
  }
}

TEST_CASE("inline data of a READ is refused") {
  for (const bool extended : {false, true}) {
    const End end(extended);
    SendRequest r = end.request(Opcode::read);
    r.flags = SendFlags::signaled | SendFlags::inline_data;
    CHECK(refusal(end, r) == "READ and atomics have no inline data");
  }
}

}  // namespace
}  // namespace weft
