// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of the `srd` provider. Each call takes the driver's lock, moves the engine, and lets
// the driver send what came of it.
#include "providers/srd/srd_context.hpp"

namespace weft::srd {

namespace {

using engine::srd::Engine;
using software::kForked;

class SrdQp final : public verbs::Qp {
 public:
  SrdQp(Device device, driver::Driver& driver, Engine& engine, const QueuePairOptions& options,
        engine::srd::QueuePair* qp)
      : device_(std::move(device)),
        driver_(driver),
        engine_(engine),
        send_cq_(options.send_cq),
        recv_cq_(options.recv_cq),
        qp_(qp),
        number_(qp->number) {}
  ~SrdQp() override {
    if (driver_.forked()) return;
    driver::Holder hold(driver_.lock());
    settle();
    engine_.destroy_qp(qp_);
    driver_.after_control();
  }

  QpNum number() const noexcept override { return number_; }
  const Device& device() const noexcept override { return device_; }
  QpState state() const noexcept override {
    if (driver_.forked()) return QpState::err;
    driver::Holder hold(driver_.lock());
    return qp_->state;
  }
  Result<void> modify(const QueuePairAttributes& change) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    driver::Holder hold(driver_.lock());
    if (change.state == QpState::err || change.state == QpState::reset) settle();
    Result<void> result = engine_.modify_qp(*qp_, change);
    driver_.after_control();
    return result;
  }
  QueuePairAttributes query() const override {
    if (driver_.forked()) return {.state = QpState::err};
    driver::Holder hold(driver_.lock());
    QueuePairAttributes attributes = qp_->attributes;
    attributes.state = qp_->state;
    return attributes;
  }
  PostStatus post_send(std::span<const SendRequest> requests) noexcept override {
    if (driver_.forked()) return {Code::permission_denied, 0, kForked};
    driver::Holder hold(driver_.lock());
    const PostStatus status = engine_.post_send(*qp_, requests, Instant{});
    driver_.after_post(status.accepted);
    return status;
  }
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override {
    if (driver_.forked()) return {Code::permission_denied, 0, kForked};
    driver::Holder hold(driver_.lock());
    const PostStatus status = engine_.post_recv(*qp_, requests);
    if (qp_->state == QpState::err) driver_.after_control();  // flushed: wake who sleeps on it
    return status;
  }

 private:
  // What has come is acknowledged before the queue pair goes.
  void settle() noexcept {
    driver_.settle([this] { return engine_.owes_replies(); });
  }

  Device device_;
  driver::Driver& driver_;
  Engine& engine_;
  CompletionQueue send_cq_, recv_cq_;  // kept alive
  engine::srd::QueuePair* const qp_;
  const QpNum number_;
};

class SrdDomain final : public software::Domain {
 public:
  SrdDomain(Device device, driver::Driver& driver, Engine& engine, uint32_t id)
      : Domain(std::move(device), driver, id), engine_(engine) {}

  Result<std::shared_ptr<verbs::Qp>> create_qp(const QueuePairOptions& options) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    if (options.type != QpType::srd)
      return Error{Code::not_supported,
                   "provider srd has SRD queue pairs only: set QueuePairOptions::type to "
                   "QpType::srd, or open a roce device"};
    const Result<Queues> queues = queues_of(options);
    if (!queues) return queues.error();
    const engine::srd::QpConfig config{.domain = id_,
                                       .send_cq = queues->send,
                                       .recv_cq = queues->recv,
                                       .max_send_wr = options.max_send_wr,
                                       .max_recv_wr = options.max_recv_wr,
                                       .max_send_sge = options.max_send_sge,
                                       .max_recv_sge = options.max_recv_sge,
                                       .max_inline = options.max_inline,
                                       .signal_all = options.signal_all};
    driver::Holder hold(driver_.lock());
    const Result<engine::srd::QueuePair*> qp = engine_.create_qp(config);
    if (!qp) return qp.error();
    return std::shared_ptr<verbs::Qp>(new SrdQp(device_, driver_, engine_, options, *qp));
  }

 private:
  Engine& engine_;
};

}  // namespace

SrdContext::SrdContext(std::unique_ptr<engine::Port> port, const engine::srd::Config& config,
                       const driver::DriverOptions& options, DeviceAttributes attributes)
    : Context(
          std::move(port),
          [&config](engine::Port& p, base::SecureRandom& random) {
            return std::make_unique<Engine>(p, config, random);
          },
          options, std::move(attributes)),
      engine_(static_cast<Engine&>(driver_.machine())) {}

Result<std::shared_ptr<verbs::Domain>> SrdContext::create_domain(const Device& device) {
  return std::shared_ptr<verbs::Domain>(new SrdDomain(device, driver_, engine_, next_domain_++));
}

std::optional<Gid> SrdContext::peer_address(uint32_t index) const {
  if (driver_.forked()) return std::nullopt;
  driver::Holder hold(driver_.lock());
  const engine::srd::Peer* const peer = engine_.peer(index);
  if (peer == nullptr) return std::nullopt;
  return peer->address;
}

}  // namespace weft::srd
