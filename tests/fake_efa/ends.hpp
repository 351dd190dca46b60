// SPDX-License-Identifier: BSD-3-Clause
// Devices, queue pairs and requests on the stand-in for libibverbs and libefa.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "tests/fake_efa/fake_efa.hpp"
#include "tests/support/catch.hpp"
#include "weft/weft.hpp"

namespace weft::test {

inline constexpr uint32_t kRead = 1, kRnr = 2, kSgid = 4, kWrite = 8;
inline constexpr uint32_t kAll = kRead | kRnr | kSgid | kWrite;
inline const std::string kDevice =
    std::string("ibverbs:efa_fake,srd,library=") + WEFT_FAKE_EFA + ",efa_library=" + WEFT_FAKE_EFA;

template <class Function>
Function* of_fake(const char* name) {
  static void* const handle = dlopen(WEFT_FAKE_EFA, RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(handle, name));
}
inline void begin(uint32_t caps = kAll, uint32_t max_rdma = 1u << 20) {
  of_fake<decltype(fake_efa_begin)>("fake_efa_begin")(caps, max_rdma);
}
inline std::string calls() { return of_fake<decltype(fake_efa_calls)>("fake_efa_calls")(); }
inline void fail_next(ibv_wc_status status, uint32_t vendor) {
  of_fake<decltype(fake_efa_fail_next)>("fake_efa_fail_next")(status, vendor);
}

struct End {
  Device device = *Device::open(kDevice);
  CompletionQueue cq = *device.completion_queue({.capacity = 64});
  ProtectionDomain pd = *device.protection_domain();
  QueuePair qp;
  char memory[4096] = {};
  MemoryRegion region = *pd.register_memory(memory, sizeof memory, Access::all);

  explicit End(QueuePairOptions options = {}) {
    options.type = QpType::srd;
    options.send_cq = options.recv_cq = cq;
    const Result<QueuePair> made = pd.queue_pair(options);
    if (!made) FAIL(made.error().message);
    qp = *made;
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts})
      REQUIRE(qp.modify({.state = state}));
  }
  void expect(uint64_t id) const {
    const Sge sge = region.sge(2048, 1024);
    REQUIRE(qp.post_recv({.id = id, .sges = {&sge, 1}}));
  }
  Completion next() const {
    Completion c;
    REQUIRE(cq.poll({&c, 1}) == 1);
    return c;
  }
  bool quiet() const {
    Completion c;
    return cq.poll({&c, 1}) == 0;
  }
};

struct Pair {
  End a, b;
  AddressHandle to{{.destination = b.device.attributes().gid}};
  Sge source = a.region.sge(0, 16);

  SendRequest request(Opcode opcode, uint64_t id = 1) const {
    SendRequest r;
    r.id = id;
    r.opcode = opcode;
    r.sges = {&source, 1};
    r.remote_address = reinterpret_cast<uint64_t>(b.memory) + 1024;
    r.rkey = b.region.rkey();
    r.to = &to;
    r.remote_qpn = b.qp.number();
    return r;
  }
  std::string refusal(const SendRequest& r) const {
    const PostStatus status = a.qp.post_send(r);
    CHECK(status.code == Code::invalid_argument);
    CHECK(status.accepted == 0);
    return status.reason != nullptr ? status.reason : "";
  }
};

}  // namespace weft::test
