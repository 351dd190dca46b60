// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of libfabric's provider weft against peers that break the protocol or come in numbers:
// what they can make an endpoint hold is bounded. The peers are queue pairs of the test.
// link: fi_rdm_objects fi_common_objects message
#include <malloc.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/atomic_execute.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"
#include "lib/adapters/fi/rdm/own_wire.hpp"
#include "lib/message/wire.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::fi;

namespace {

template <class Function>
void until(Function holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    REQUIRE(std::chrono::steady_clock::now() < limit);
    std::this_thread::yield();
  }
}

// An endpoint of the provider, without the library that programs call it through.
struct Side {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  Name name;

  Side() {
    ::setenv("WEFT_DEVICE", "srd+udp:lo", 1);
    REQUIRE(getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, nullptr, &info) == 0);
    REQUIRE(open_fabric(info->fabric_attr, &fabric, nullptr) == 0);
    REQUIRE(fi_domain(fabric, info, &domain, nullptr) == 0);
    fi_cq_attr cq_attr{};
    fi_av_attr av_attr{};
    REQUIRE(fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0);
    REQUIRE(fi_av_open(domain, &av_attr, &av, nullptr) == 0);
    REQUIRE(fi_endpoint(domain, info, &ep, nullptr) == 0);
    REQUIRE(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    REQUIRE(fi_ep_bind(ep, &av->fid, 0) == 0);
    REQUIRE(fi_enable(ep) == 0);
    name = rdm_of(ep).own_name();
  }
  ~Side() {
    for (fid* object : {&ep->fid, &av->fid, &cq->fid, &domain->fid, &fabric->fid})
      CHECK(fi_close(object) == 0);
    fi_freeinfo(info);
    forget_device();
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
};

// A device for queue pairs that send what they like, and have no receives.
struct OtherDevice {
  Device device = *Device::open("srd+udp:lo");
  ProtectionDomain domain = *device.protection_domain();
  CompletionQueue cq =
      *device.completion_queue({.capacity = 4096, .timestamps = false, .engine = 0});
  uint32_t in_flight = 0;

  void drain() {
    std::array<Completion, 64> done;
    const size_t count = cq.poll(done);
    for (size_t i = 0; i < count; ++i) CHECK(done[i].status == Status::success);
    in_flight -= static_cast<uint32_t>(count);
  }
  void finish() {
    until([&] { return drain(), in_flight == 0; });
  }
};

struct OtherQueue {
  OtherDevice& all;
  QueuePair qp;
  AddressHandle handle;
  QpNum to;

  OtherQueue(OtherDevice& among, const Name& target)
      : all(among),
        qp(*all.domain.queue_pair({.type = QpType::srd,
                                   .send_cq = all.cq,
                                   .recv_cq = all.cq,
                                   .max_send_wr = 512,
                                   .max_recv_wr = 1,
                                   .max_send_sge = 1,
                                   .max_recv_sge = 1,
                                   .max_inline = 256})),
        handle({.destination = target.gid}),
        to(target.queue) {
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes attributes;
      attributes.state = state;
      if (state == QpState::init) attributes.access = Access::all;
      REQUIRE(qp.modify(attributes));
    }
  }
  void send(std::span<const std::byte> bytes) {
    until([&] { return all.drain(), all.in_flight < 256; });
    const Sge piece{const_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(bytes.size()), {}};
    SendRequest request;
    request.flags = SendFlags::signaled | SendFlags::ordered | SendFlags::inline_data;
    request.sges = {&piece, 1};
    request.to = &handle;
    request.remote_qpn = to;
    REQUIRE(qp.post_send(request));
    ++all.in_flight;
  }
};

size_t allocated() { return mallinfo2().uordblks; }

}  // namespace

TEST_CASE("answers that a peer does not take are bounded") {
  Side side;
  std::vector<std::byte> values(kAtomicBytes);
  fid_mr* mr = nullptr;
  REQUIRE(fi_mr_reg(side.domain, values.data(), values.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                    0, 0, &mr, nullptr) == 0);
  OtherDevice other_device;
  {
    OtherQueue other(other_device, side.name);
    AtomicRequest request{};
    request.kind = static_cast<uint8_t>(OwnKind::atomic);
    request.form = static_cast<uint8_t>(AtomicForm::fetch);
    request.op = FI_ATOMIC_READ;
    request.type = FI_UINT8;
    request.address = reinterpret_cast<uintptr_t>(values.data());
    request.key = static_cast<uint32_t>(fi_mr_key(mr));
    request.count = static_cast<uint32_t>(kAtomicBytes);
    std::vector<std::byte> bytes(sizeof request);
    std::memcpy(bytes.data(), &request, sizeof request);
    const auto ask = [&](size_t times) {
      for (size_t i = 0; i < times; ++i) other.send(bytes);
      other_device.finish();
    };
    ask(kQueueSize + kQuestions);  // the queue pair is full of answers
    const size_t before = allocated();
    ask(10'000);
    CHECK(allocated() < before + 10'000 * kAtomicBytes / 10);
  }
  CHECK(fi_close(&mr->fid) == 0);
}

TEST_CASE("peers not in the address vector that are gone are forgotten") {
  Side side;
  OtherDevice other_device;
  std::array<std::byte, message::kMaxHeader> bytes;
  const size_t size = message::write_header({.kind = message::Kind::eager}, bytes.data());
  char room[64];
  size_t received = 0, total = 0;
  constexpr size_t kTogether = 128;
  const auto come_and_go = [&](size_t peers) {
    for (size_t i = 0; i < peers; i += kTogether) {
      std::deque<OtherQueue> some;
      for (size_t j = 0; j < kTogether; ++j) {
        REQUIRE(fi_recv(side.ep, room, sizeof room, nullptr, FI_ADDR_UNSPEC, nullptr) == 0);
        some.emplace_back(other_device, side.name).send({bytes.data(), size});
      }
      other_device.finish();
      until([&] {
        std::array<fi_cq_entry, kTogether> entries;
        const ssize_t got = fi_cq_read(side.cq, entries.data(), entries.size());
        received += got > 0 ? static_cast<size_t>(got) : 0;
        return received == i + total + kTogether;
      });
    }
    total += peers;
  };
  come_and_go(4 * kCrowd);
  const size_t before = allocated();
  come_and_go(4 * kCrowd);
  until([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return allocated() < before + kCrowd * 1000;
  });
}
