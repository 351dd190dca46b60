// SPDX-License-Identifier: BSD-3-Clause
// See qp.hpp. Creation, states and the end; posting: post.cpp.
#include "providers/libfabric/qp.hpp"

#include <algorithm>
#include <thread>

#include "lib/base/check.hpp"
#include "lib/base/queue_sizes.hpp"
#include "lib/transport/qp_attributes.hpp"
#include "providers/libfabric/cq.hpp"

namespace weft::libfabric {

namespace {

Result<void> check(const QueuePairOptions& o, const DeviceAttributes& device) {
  if (o.type != QpType::rc)
    return Error{Code::not_supported, "device " + device.spec + " has RC queue pairs only, not " +
                                          std::string(name(o.type)) +
                                          ": open a roce device, or an srd device for SRD"};
  if (!o.congestion.empty())
    return Error{Code::not_supported,
                 "QueuePairOptions::congestion: libfabric's provider paces by itself; leave it "
                 "empty"};
  if (o.shared_receive_queue)
    return Error{Code::not_supported, "provider libfabric has no shared receive queues"};
  return base::check_queue_sizes(o, device);
}

Result<Owned<fid_ep>> open_endpoint(const Context& context, Cq& send, Cq& receive) {
  const Context::Control control(context);
  fid_ep* raw = nullptr;
  if (const int code = fi_endpoint(&context.domain(), &context.info(), &raw, nullptr); code != 0)
    return error_of(code, "no endpoint");
  Owned<fid_ep> endpoint(raw);
  int code = fi_ep_bind(raw, &context.addresses().fid, 0);
  if (code == 0 && &send == &receive)
    code = fi_ep_bind(raw, &send.raw().fid, FI_TRANSMIT | FI_RECV);
  if (code == 0 && &send != &receive) code = fi_ep_bind(raw, &send.raw().fid, FI_TRANSMIT);
  if (code == 0 && &send != &receive) code = fi_ep_bind(raw, &receive.raw().fid, FI_RECV);
  if (code == 0) code = fi_enable(raw);
  if (code != 0) return error_of(code, "the endpoint cannot be enabled");
  return endpoint;
}

}  // namespace

Result<std::shared_ptr<verbs::Qp>> Qp::create(std::shared_ptr<Domain> domain,
                                              const QueuePairOptions& options) {
  Context& context = domain->context();
  if (const Result<void> ok = check(options, context.attributes()); !ok) return ok.error();
  Cq* const send = Cq::of(options.send_cq, context);
  Cq* const receive = Cq::of(options.recv_cq, context);
  if (send == nullptr || receive == nullptr)
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq must be completion queues of the same open device"};
  Result<Owned<fid_ep>> endpoint = open_endpoint(context, *send, *receive);
  if (!endpoint) return endpoint.error();
  const Result<EndpointName> name = name_of(context.info().addr_format, **endpoint);
  if (!name) return name.error();
  if (name->gid != context.attributes().gid)
    return Error{Code::not_supported, "libfabric gave the endpoint the address " +
                                          to_string(name->gid) + ", and the device has " +
                                          to_string(context.attributes().gid) +
                                          ": name the address, node=ADDRESS"};
  const std::shared_ptr<Qp> qp(new Qp(std::move(domain), options, std::move(*endpoint), *name));
  send->enter(*qp);
  receive->enter(*qp);
  context.need_progress();
  return std::shared_ptr<verbs::Qp>(qp);
}

Qp::Qp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<fid_ep> endpoint,
       EndpointName name)
    : domain_(std::move(domain)),
      options_(options),
      name_(name),
      send_cq_(*Cq::of(options.send_cq, context())),
      recv_cq_(*Cq::of(options.recv_cq, context())),
      endpoint_(std::move(endpoint)),
      limits_{std::max(1u, options.max_send_sge), options.max_inline,
              context().attributes().max_message},
      sends_(options.max_send_wr),
      receives_(options.max_recv_wr) {
  for (Request& request : sends_) request.qp = this;
  for (uint32_t i = 0; i < receives_.size(); ++i) {
    receives_[i].qp = this;
    receives_[i].receive = true;
    free_receives_.push_back(i);
  }
}

// Entries of the closed endpoint are taken from both queues before its requests go.
Qp::~Qp() {
  if (context().forked()) {
    (void)endpoint_.release();
    return;
  }
  send_cq_.leave(*this);
  recv_cq_.leave(*this);
  while (kept_ != 0) std::this_thread::yield();  // a thread that drains ends it
  {
    const std::lock_guard lock(mutex_);
    state_ = QpState::err;
    done_ = issued_ = posted_;
    for (Request& request : receives_) request.outstanding = false;
  }
  if (endpoint_ != nullptr) Cq::close(std::move(endpoint_), send_cq_, recv_cq_);
}

// RTR: the peer's name becomes an address of libfabric.
Result<void> Qp::introduce(const QueuePairAttributes& said) {
  WEFT_CHECK(said.path && said.dest_qpn);
  const Result<std::vector<std::byte>> bytes =
      to_bytes(context().info().addr_format, {said.path->destination, *said.dest_qpn});
  if (!bytes) return bytes.error();
  const int added = fi_av_insert(&context().addresses(), bytes->data(), 1, &peer_, 0, nullptr);
  if (added != 1) return error_of(added < 0 ? added : -FI_EINVAL, "the peer has no address");
  return {};
}

Result<void> Qp::modify(const QueuePairAttributes& change) {
  if (context().forked()) return Error{Code::permission_denied, kForked};
  {
    const Context::Control control(context());  // before the lock: introduce() needs it
    const std::lock_guard lock(mutex_);
    const QpState from = state_;
    const transport::ModifyLimits limits{context().attributes().max_mtu,
                                         context().attributes().max_rd_atomic};
    if (const Result<void> ok = transport::check_modify(QpType::rc, from, change, limits); !ok)
      return ok;
    const QpState to = change.state.value_or(from);
    if (to == QpState::sqd || (to == QpState::reset && from != QpState::reset))
      return Error{Code::not_supported, "queue pairs of provider libfabric do not go to " +
                                            std::string(name(to)) + ": create a new one"};
    if (change.rate_limit)
      return Error{Code::not_supported,
                   "queue pairs of provider libfabric have no rate_limit: those of roce have one"};
    QueuePairAttributes merged = attributes_;
    transport::merge(merged, change);
    if (from == QpState::init && to == QpState::rtr)
      if (const Result<void> ok = introduce(merged); !ok) return ok;
    attributes_ = merged;
    if (to != QpState::err) {
      state_ = to;
      return {};
    }
  }
  end();
  return {};
}

void Qp::fail() noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ == QpState::err || failed_) return;
  failed_ = true;
  context().raise({.type = EventType::qp_fatal, .qp = name_.number});
}

void Qp::end() noexcept {
  Owned<fid_ep> closing;
  {
    const std::lock_guard lock(mutex_);
    failed_ = false;
    if (state_ == QpState::err && endpoint_ == nullptr) return;
    state_ = QpState::err;
    closing = std::move(endpoint_);
  }
  if (closing != nullptr) Cq::close(std::move(closing), send_cq_, recv_cq_);
  // From here on nothing is written to receives.
  const std::lock_guard lock(mutex_);
  for (; done_ != posted_; ++done_) {
    Request& request = send_at(done_);
    if (!request.finished) request.status = Status::flushed;
    send_cq_.add({.id = request.id,
                  .qp = name_.number,
                  .status = request.status == Status::success ? Status::flushed : request.status,
                  .type = transport::work_type(request.opcode)});
  }
  issued_ = posted_;
  waiting_receives_.clear();
  std::vector<Request*> rest;
  for (Request& request : receives_)
    if (request.outstanding) rest.push_back(&request);
  std::sort(rest.begin(), rest.end(),
            [](const Request* a, const Request* b) { return a->sequence < b->sequence; });
  for (Request* const request : rest) finish(*request, {Status::flushed, 0, 0, 0, 0});
}

QueuePairAttributes Qp::query() const {
  const std::lock_guard lock(mutex_);
  QueuePairAttributes attributes = attributes_;
  attributes.state = state_.load();
  return attributes;
}

QueuePairCapacities Qp::capacities() const noexcept {
  return {options_.max_send_wr, options_.max_recv_wr, std::max(1u, options_.max_send_sge),
          options_.max_recv_wr == 0 ? 0 : std::max(1u, options_.max_recv_sge), options_.max_inline};
}

}  // namespace weft::libfabric
