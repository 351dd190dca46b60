// SPDX-License-Identifier: BSD-3-Clause
// Objects of the `roce` provider. Each call takes the driver's lock, moves the engine, and lets the
// driver send what came of it.
#include "providers/roce/roce_context.hpp"

#include <unistd.h>

namespace weft::roce {

namespace {

constexpr const char* kForked = "this device was opened before fork(): the child must open its own";

class RoceCq : public verbs::Cq {
 public:
  RoceCq(Device device, driver::Driver& driver, uint32_t capacity, bool locked)
      : device_(std::move(device)), driver_(driver), handle_(capacity, locked) {
    driver_.add_cq(&handle_);
  }
  ~RoceCq() override { driver_.remove_cq(&handle_); }
  size_t poll(std::span<Completion> out) noexcept override { return driver_.poll(handle_, out); }
  void arm(Notify notify) noexcept override { driver_.arm(handle_, notify); }
  int fd() const noexcept override { return handle_.event_fd; }
  uint32_t capacity() const noexcept override { return handle_.ring.capacity(); }
  driver::CqHandle& handle() noexcept { return handle_; }
  driver::Driver& driver() noexcept { return driver_; }

 private:
  Device device_;
  driver::Driver& driver_;
  driver::CqHandle handle_;
};

class RoceRegion : public verbs::Region {
 public:
  RoceRegion(Device device, driver::Driver& driver, uint32_t key, void* at, size_t length)
      : device_(std::move(device)), driver_(driver) {
    base = at;
    size = length;
    lkey = LKey{key};
    rkey = RKey{key};
  }
  ~RoceRegion() override { driver_.deregister_memory(lkey.value, base, size); }

 private:
  Device device_;
  driver::Driver& driver_;
};

class RoceQp : public verbs::Qp {
 public:
  RoceQp(Device device, driver::Driver& driver, const QueuePairOptions& options,
         engine::QueuePair* qp)
      : device_(std::move(device)),
        driver_(driver),
        send_cq_(options.send_cq),
        recv_cq_(options.recv_cq),
        qp_(qp),
        number_(qp->number) {}
  ~RoceQp() override {
    if (driver_.forked()) return;
    driver_.destroy_qp(qp_);
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
    if (change.state == QpState::err || change.state == QpState::reset) driver_.settle(*qp_);
    Result<void> result = driver_.engine().modify_qp(*qp_, change);
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
    const PostStatus status = driver_.engine().post_send(*qp_, requests, Instant{});
    driver_.after_post(status.accepted);
    return status;
  }
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override {
    if (driver_.forked()) return {Code::permission_denied, 0, kForked};
    driver::Holder hold(driver_.lock());
    const PostStatus status = driver_.engine().post_recv(*qp_, requests);
    if (qp_->state == QpState::err) driver_.after_control();  // flushed: wake who sleeps on it
    return status;
  }

 private:
  Device device_;
  driver::Driver& driver_;
  CompletionQueue send_cq_, recv_cq_;  // kept alive
  engine::QueuePair* const qp_;
  const QpNum number_;
};

class RoceDomain : public verbs::Domain {
 public:
  RoceDomain(Device device, driver::Driver& driver, uint32_t id)
      : device_(std::move(device)), driver_(driver), id_(id) {}

  const Device& device() const noexcept override { return device_; }

  Result<std::shared_ptr<verbs::Region>> register_memory(void* base, size_t size,
                                                         Access access) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    const Result<uint32_t> key = driver_.register_memory(base, size, access, id_);
    if (!key) return key.error();
    return std::shared_ptr<verbs::Region>(new RoceRegion(device_, driver_, *key, base, size));
  }

  Result<std::shared_ptr<verbs::Qp>> create_qp(const QueuePairOptions& options) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    auto* const send_cq = dynamic_cast<RoceCq*>(options.send_cq.impl().get());
    auto* const recv_cq = dynamic_cast<RoceCq*>(options.recv_cq.impl().get());
    if (send_cq == nullptr || recv_cq == nullptr || &send_cq->driver() != &driver_ ||
        &recv_cq->driver() != &driver_)
      return Error{Code::invalid_argument,
                   "send_cq and recv_cq must be completion queues of the same open device"};
    const engine::QpConfig config{.type = options.type,
                                  .domain = id_,
                                  .send_cq = &send_cq->handle().ring,
                                  .recv_cq = &recv_cq->handle().ring,
                                  .max_send_wr = options.max_send_wr,
                                  .max_recv_wr = options.max_recv_wr,
                                  .max_send_sge = options.max_send_sge,
                                  .max_recv_sge = options.max_recv_sge,
                                  .max_inline = options.max_inline,
                                  .signal_all = options.signal_all};
    driver::Holder hold(driver_.lock());
    const Result<engine::QueuePair*> qp = driver_.engine().create_qp(config);
    if (!qp) return qp.error();
    return std::shared_ptr<verbs::Qp>(new RoceQp(device_, driver_, options, *qp));
  }

 private:
  Device device_;
  driver::Driver& driver_;
  const uint32_t id_;
};

}  // namespace

RoceContext::RoceContext(std::unique_ptr<engine::Port> port, const engine::EngineConfig& config,
                         const driver::DriverOptions& options, DeviceAttributes attributes)
    : single_thread_(options.single_thread),
      attributes_(std::move(attributes)),
      driver_(std::move(port), config, options) {}

Result<std::shared_ptr<verbs::Domain>> RoceContext::create_domain(const Device& device) {
  return std::shared_ptr<verbs::Domain>(new RoceDomain(device, driver_, next_domain_++));
}

Result<std::shared_ptr<verbs::Cq>> RoceContext::create_cq(const Device& device,
                                                          const CompletionQueueOptions& options) {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  if (options.capacity == 0 || options.capacity > attributes_.max_cqe)
    return Error{Code::invalid_argument, "CompletionQueueOptions::capacity must be 1.." +
                                             std::to_string(attributes_.max_cqe)};
  std::shared_ptr<RoceCq> cq(new RoceCq(device, driver_, options.capacity, !single_thread_));
  if (cq->fd() < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  return std::shared_ptr<verbs::Cq>(std::move(cq));
}

std::optional<AsyncEvent> RoceContext::next_event() {
  AsyncEvent event;
  if (driver_.forked() || !driver_.next_event(event)) return std::nullopt;
  return event;
}

std::vector<Counter> RoceContext::counters() const {
  std::vector<Counter> counters;
  if (driver_.forked()) return counters;
  driver::Holder hold(driver_.lock());
  const engine::Counters& values = driver_.engine().counters();
  for (size_t i = 0; i < engine::kCountEnd; ++i)
    counters.push_back({engine::kCountNames[i], values[static_cast<engine::Count>(i)]});
  driver_.port().append_counters(counters);
  return counters;
}

}  // namespace weft::roce
