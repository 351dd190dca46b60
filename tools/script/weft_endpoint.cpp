// SPDX-License-Identifier: BSD-3-Clause
// The endpoint on a device of weft: its own RoCE over any port, or a NIC by way of `ibverbs:NAME`.
#include <cstdlib>
#include <stdexcept>

#include "tools/script/responder.hpp"
#include "weft/weft.hpp"

namespace weft::responder {

namespace {

constexpr uint8_t kRnrTimer = 12;  // 0.64 ms
constexpr int kBind_ms = 1000;

template <class T>
T need(weft::Result<T> result) {
  if (result) return std::move(*result);
  throw std::runtime_error(result.error().message);
}

void need(const weft::Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

void need(const weft::PostStatus& status) {
  if (!status) throw std::runtime_error(status.reason);
}

weft::Opcode opcode(Operation operation) {
  switch (operation) {
    case Operation::send:
      return weft::Opcode::send;
    case Operation::send_with_imm:
      return weft::Opcode::send_with_imm;
    case Operation::write:
      return weft::Opcode::write;
    case Operation::write_with_imm:
      return weft::Opcode::write_with_imm;
    case Operation::read:
      return weft::Opcode::read;
    case Operation::compare_swap:
      return weft::Opcode::compare_swap;
    case Operation::fetch_add:
      return weft::Opcode::fetch_add;
    case Operation::send_with_invalidate:
      return weft::Opcode::send_with_invalidate;
  }
  std::abort();
}

struct Opened {
  weft::Device device;
  weft::ProtectionDomain domain;
  weft::MemoryRegion region;
  weft::MemoryRegion headers;
  weft::CompletionQueue cq;
};

class WeftEndpoint final : public Endpoint {
 public:
  Target open(const std::string& device, std::span<std::byte> memory) override {
    qp_ = {};
    window_ = {};
    opened_.reset();
    weft::Device opened = need(weft::Device::open(device));
    weft::ProtectionDomain domain = need(opened.protection_domain());
    weft::Access rights = weft::Access::all | weft::Access::window_bind;
    if (opened.attributes().has_flush) rights = rights | weft::Access::flush_global;
    weft::MemoryRegion region = need(domain.register_memory(memory.data(), memory.size(), rights));
    weft::CompletionQueue cq = need(opened.completion_queue({.capacity = 16384}));
    weft::MemoryRegion headers =
        need(domain.register_memory(header_, sizeof header_, weft::Access::local_write));
    opened_.emplace(Opened{opened, domain, std::move(region), std::move(headers), cq});
    return {weft::to_string(opened.attributes().gid), opened_->region.rkey().value};
  }

  uint32_t make_qp(Service service, uint32_t depth, uint32_t access) override {
    constexpr weft::QpType kTypes[] = {weft::QpType::rc, weft::QpType::uc, weft::QpType::ud};
    qp_ = {};
    while (opened_ && next(0)) {
    }
    qp_ = need(domain().queue_pair({.type = kTypes[static_cast<size_t>(service)],
                                    .send_cq = opened_->cq,
                                    .recv_cq = opened_->cq,
                                    .max_send_wr = depth,
                                    .max_recv_wr = depth}));
    weft::QueuePairAttributes to_init{
        .state = weft::QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}};
    if (service == Service::ud)
      to_init.qkey = kQkey;
    else
      to_init.access = static_cast<weft::Access>(access);
    need(qp_.modify(to_init));
    return qp_.number().value;
  }

  void connect(const Route& route) override {
    weft::QueuePairAttributes to_rtr, to_rts;
    to_rtr.state = weft::QpState::rtr;
    const weft::AddressVector path{.destination = need(weft::parse_gid(route.gid))};
    if (datagrams()) {
      peer_ = domain().address_handle(path);
      peer_number_ = weft::QpNum{route.qpn};
    } else {
      to_rtr.path = path;
      to_rtr.path_mtu = route.mtu;
      to_rtr.dest_qpn = weft::QpNum{route.qpn};
      to_rtr.rq_psn = weft::Psn{route.peer_psn};
    }
    to_rts.state = weft::QpState::rts;
    to_rts.sq_psn = weft::Psn{route.psn};
    if (qp_.type() == weft::QpType::rc) {
      to_rtr.max_dest_rd_atomic = to_rts.max_rd_atomic = route.max_rd;
      to_rtr.min_rnr_timer = kRnrTimer;
      to_rts.timeout = route.timeout;
      to_rts.retry_count = route.retry;
      to_rts.rnr_retry = route.rnr_retry;
    }
    need(qp_.modify(to_rtr));
    need(qp_.modify(to_rts));
  }

  void attach(const std::string& group) override {
    need(qp_.attach_multicast(need(weft::parse_gid(group))));
  }

  uint32_t bind_window(std::byte* data, uint32_t length) override {
    window_ = need(domain().memory_window(weft::WindowType::two));
    const weft::WindowBind bind{&window_, &opened_->region, data, length,
                                weft::Access::remote_read | weft::Access::remote_write};
    need(qp_.post_send(
        {.opcode = weft::Opcode::bind_window, .rkey = window_.next_key(), .bind = &bind}));
    const std::optional<Done> done = next(kBind_ms);
    if (!done || done->status != "success") throw std::runtime_error("the window is not bound");
    return window_.rkey().value;
  }

  void post(const Request& request) override {
    const weft::Sge piece = sge(request.data, request.length);
    weft::SendRequest work{.id = request.id,
                           .opcode = opcode(request.operation),
                           .imm = request.imm,
                           .invalidate = {request.invalidate},
                           .sges = {&piece, 1},
                           .remote_address = request.remote_address,
                           .rkey = {request.rkey},
                           .compare_add = request.compare_add,
                           .swap = request.swap};
    if (request.fence) work.flags = work.flags | weft::SendFlags::fence;
    if (datagrams()) {
      work.to = &peer_;
      work.remote_qpn = peer_number_;
      work.remote_qkey = kQkey;
    }
    need(qp_.post_send(work));
  }

  void receive(uint64_t id, std::byte* data, uint32_t length) override {
    const weft::Sge pieces[] = {opened_->headers.sge(0, kNetworkHeader), sge(data, length)};
    need(qp_.post_recv({.id = id, .sges = std::span(pieces).subspan(datagrams() ? 0 : 1)}));
  }

  std::optional<Done> next(int limit_ms) override {
    weft::Completion done;
    if (opened_->cq.wait({&done, 1}, weft::Duration::from_us(1000 * limit_ms)) == 0) return {};
    const bool receive =
        done.type == weft::WorkType::recv || done.type == weft::WorkType::recv_with_imm;
    const uint32_t before = receive && datagrams() ? kNetworkHeader : 0;
    const bool revoked = weft::has(done.flags, weft::CompletionFlags::with_invalidate);
    return Done{receive,
                std::string(weft::name(done.status)),
                done.id,
                done.byte_count - before,
                revoked ? 0 : done.imm_or_key,
                revoked ? done.imm_or_key : 0};
  }

 private:
  bool datagrams() const { return qp_ && qp_.type() == weft::QpType::ud; }

  weft::ProtectionDomain& domain() {
    if (!opened_) throw std::runtime_error("open a device first");
    return opened_->domain;
  }

  weft::Sge sge(std::byte* data, uint32_t length) const {
    return {data, length, opened_->region.lkey()};
  }

  std::optional<Opened> opened_;
  weft::QueuePair qp_;
  weft::MemoryWindow window_;
  std::byte header_[kNetworkHeader] = {};  // of the last datagram
  weft::AddressHandle peer_;               // UD
  weft::QpNum peer_number_;
};

}  // namespace

std::unique_ptr<Endpoint> weft_endpoint() { return std::make_unique<WeftEndpoint>(); }

}  // namespace weft::responder
