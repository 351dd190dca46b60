// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs, domains and the context of a software provider. Each call takes the driver's lock,
// calls the machine, and lets the driver send the resulting packets. `Machine` is roce::Engine or
// srd::Engine, `Pair` its queue pair, `Config` its configuration. A queue pair refers to the driver
// of its engine only.
//
// If there is no memory for an object, what the machine has created for it is destroyed.
#pragma once

#include "lib/base/check.hpp"
#include "lib/base/undo.hpp"
#include "lib/transport/shared_receives.hpp"
#include "lib/transport/verbs_common.hpp"
#include "lib/verbs/post_all.hpp"
#include "providers/software/context.hpp"
#include "providers/software/inspect.hpp"
#include "providers/software/window.hpp"

namespace weft::software {

// Only for machines with shared receive queues.
template <class Machine>
class MachineSrq final : public verbs::Srq {
 public:
  using Pool = std::unique_ptr<transport::SharedReceives>;
  MachineSrq(Device device, driver::Driver& driver, const SharedReceiveQueueOptions& options,
             Pool pool)
      : device_(std::move(device)),
        driver_(driver),
        machine_(static_cast<Machine&>(driver.machine())),
        cq_(options.cq),
        pool_(std::move(pool)) {}
  ~MachineSrq() override {
    if (pool_->xrc_domain == 0 || driver_.forked()) return;
    driver::Holder hold(driver_.lock());
    machine_.withdraw(*pool_);
  }

  uint32_t number() const noexcept override { return pool_->number; }
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override {
    if (driver_.forked()) return {Code::permission_denied, 0, kForked};
    driver::Holder hold(driver_.lock());
    driver_.update_machine_time();
    return machine_.post_recv(*pool_, requests);
  }
  Result<void> arm_limit(uint32_t limit) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    driver::Holder hold(driver_.lock());
    if (limit > pool_->ring.capacity())
      return Error{Code::invalid_argument, "arm_limit takes 0.." +
                                               std::to_string(pool_->ring.capacity()) +
                                               ", SharedReceiveQueueOptions::max_recv_wr"};
    pool_->limit = limit;
    return {};
  }
  Result<SharedReceiveQueueAttributes> query() const override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    driver::Holder hold(driver_.lock());
    return SharedReceiveQueueAttributes{pool_->ring.capacity(), pool_->ring.max_sge(),
                                        pool_->limit};
  }
  Result<void> resize(uint32_t max_recv_wr) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    driver::Holder hold(driver_.lock());
    return machine_.resize(*pool_, max_recv_wr);
  }

  transport::SharedReceives& pool() noexcept { return *pool_; }
  const driver::Driver& driver() const noexcept { return driver_; }

 private:
  Device device_;
  driver::Driver& driver_;
  Machine& machine_;
  const CompletionQueue cq_;  // kept alive
  const Pool pool_;
};

template <class Machine, class Pair>
class MachineQp final : public verbs::Qp, public verbs::PostsAll {
 public:
  MachineQp(Device device, driver::Driver& driver, const QueuePairOptions& options, Pair* qp)
      : device_(std::move(device)),
        driver_(driver),
        machine_(static_cast<Machine&>(driver.machine())),
        send_cq_(options.send_cq),
        recv_cq_(options.recv_cq),
        srq_(options.shared_receive_queue),
        xrc_(options.xrc_domain),
        qp_(qp),
        number_(qp->number),
        type_(options.type),
        capacities_(granted(options)) {}
  ~MachineQp() override {
    if (driver_.forked()) return;
    driver::Holder hold(driver_.lock());
    flush_pending_acks();
    if constexpr (requires { qp_->path; }) driver_.drop_unsent_frames(qp_->path);
    machine_.destroy_qp(qp_);
    driver_.recorder().destroyed(number_, driver_.now());
    driver_.after_control();
  }

  QpNum number() const noexcept override { return number_; }
  QpType type() const noexcept override { return type_; }
  const Device& device() const noexcept override { return device_; }
  QpState state() const noexcept override {
    if (driver_.forked()) return QpState::err;
    driver::Holder hold(driver_.lock());
    return qp_->state;
  }
  Result<void> modify(const QueuePairAttributes& change) override {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    driver::Holder hold(driver_.lock());
    machine_.set_time(driver_.now());
    if (change.state == QpState::err || change.state == QpState::reset) flush_pending_acks();
    Result<void> result = machine_.modify_qp(*qp_, change);
    if (change.state) driver_.recorder().changed_state(number_, qp_->state, driver_.now());
    driver_.after_control();
    return result;
  }
  QueuePairAttributes query() const override {
    if (driver_.forked()) return {.state = QpState::err};
    driver::Holder hold(driver_.lock());
    QueuePairAttributes attributes = qp_->attributes;
    attributes.state = qp_->state;
    if constexpr (requires { qp_->drained(); })
      if (qp_->state == QpState::sqd) attributes.sq_draining = !qp_->drained();
    return attributes;
  }
  QueuePairCapacities capacities() const noexcept override { return capacities_; }
  PostStatus post_send(std::span<const SendRequest> requests) noexcept override {
    if (driver_.forked()) return {Code::permission_denied, 0, kForked};
    driver::Holder hold(driver_.lock());
    return post(requests);
  }
  // Of machines that have a check_send().
  PostStatus post_send_all(std::span<const SendRequest> requests) noexcept override {
    if constexpr (requires(Machine & m, const Pair& p) { check_send(m, p, requests); }) {
      if (driver_.forked()) return {Code::permission_denied, 0, kForked};
      driver::Holder hold(driver_.lock());
      const PostStatus checked = check_send(machine_, *qp_, requests);
      if (!checked) return {checked.code, 0, checked.reason};
      const PostStatus status = post(requests);
      WEFT_DCHECK(status && status.accepted == requests.size());
      return status;
    } else {
      (void)requests;
      return {Code::not_supported, 0, "SRD cannot post all requests or none: post_send()"};
    }
  }
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override {
    if (driver_.forked()) return {Code::permission_denied, 0, kForked};
    driver::Holder hold(driver_.lock());
    driver_.update_machine_time();
    const PostStatus status = machine_.post_recv(*qp_, requests);
    if (qp_->state == QpState::err)
      driver_.after_control();  // flushed: wake threads that sleep on it
    if constexpr (requires { qp_->calling; })
      if (qp_->calling.listed) driver_.after_control();  // a peer waits for this receive
    return status;
  }
  Result<void> attach_multicast(const Gid& group) override {
    return on_group([&](auto& machine) { return machine.attach_multicast(*qp_, group); });
  }
  Result<void> detach_multicast(const Gid& group) override {
    return on_group([&](auto& machine) { return machine.detach_multicast(*qp_, group); });
  }

 private:
  // What the machine makes of the sizes that were asked for.
  static QueuePairCapacities granted(const QueuePairOptions& o) noexcept {
    QueuePairCapacities sizes;
    if (o.type != QpType::xrc_target)
      sizes = {.max_send_wr = o.max_send_wr,
               .max_send_sge = std::max(1u, o.max_send_sge),
               .max_inline = o.max_inline};
    if (is_xrc(o.type) || o.shared_receive_queue) return sizes;
    sizes.max_recv_wr = o.max_recv_wr;
    sizes.max_recv_sge = std::max(1u, o.max_recv_sge);
    return sizes;
  }
  // Under the driver's lock.
  PostStatus post(std::span<const SendRequest> requests) noexcept {
    driver_.update_machine_time();
    const PostStatus status = machine_.post_send(*qp_, requests, Instant{});
    driver_.after_post(status.accepted);
    return status;
  }
  template <class Change>
  Result<void> on_group(Change change) {
    if (driver_.forked()) return Error{Code::permission_denied, kForked};
    driver::Holder hold(driver_.lock());
    if constexpr (requires(Machine m, Pair p) { m.attach_multicast(p, Gid{}); })
      return change(machine_);
    else
      return Error{Code::not_supported, "this provider has no multicast"};
  }
  // Sends delayed acknowledgements before the queue pair is destroyed, reset or moved to ERR.
  void flush_pending_acks() noexcept {
    driver_.wait_until_sent([this] { return machine_.flush_pending_ack(*qp_); });
  }

  Device device_;
  driver::Driver& driver_;
  Machine& machine_;
  CompletionQueue send_cq_, recv_cq_;  // kept alive
  SharedReceiveQueue srq_;
  XrcDomain xrc_;
  Pair* const qp_;
  const QpNum number_;
  const QpType type_;
  const QueuePairCapacities capacities_;
};

template <class Machine, class Pair>
class MachineDomain final : public Domain {
 public:
  using Domain::Domain;

  Result<std::shared_ptr<verbs::Qp>> create_qp(const QueuePairOptions& options) override {
    if (forked()) return Error{Code::permission_denied, kForked};
    const Result<Queues> queues = queues_of(options);
    if (!queues) return queues.error();
    driver::Driver& home = queues->home != nullptr ? *queues->home : home_of(options.xrc_domain);
    const Result<transport::SharedReceives*> shared = shared_of(options, home);
    if (!shared) return shared.error();
    const Result<uint32_t> xrc = xrc_of(options.xrc_domain, home);
    if (!xrc) return xrc.error();
    const transport::QpConfig config{.type = options.type,
                                     .domain = id_,
                                     .send_cq = queues->send,
                                     .recv_cq = queues->recv,
                                     .max_send_wr = options.max_send_wr,
                                     .max_recv_wr = options.max_recv_wr,
                                     .max_send_sge = options.max_send_sge,
                                     .max_recv_sge = options.max_recv_sge,
                                     .max_inline = options.max_inline,
                                     .signal_all = options.signal_all,
                                     .congestion = options.congestion,
                                     .shared = *shared,
                                     .xrc_domain = *xrc};
    driver::Holder hold(home.lock());
    Machine& machine = machine_of(home);
    const Result<Pair*> qp = machine.create_qp(config);
    if (!qp) return qp.error();
    base::Undo undo([&] { machine.destroy_qp(*qp); });
    auto made = std::make_shared<MachineQp<Machine, Pair>>(device_, home, options, *qp);
    undo.forget();
    return std::shared_ptr<verbs::Qp>(std::move(made));
  }

  Result<std::shared_ptr<verbs::Window>> create_window(WindowType type, uint32_t engine) override {
    if (forked()) return Error{Code::permission_denied, kForked};
    if constexpr (kHasWindows) {
      driver::Driver& home = *drivers_[engine];
      driver::Holder hold(home.lock());
      memory::KeyTable& keys = home.machine().keys();
      if (keys.full()) return Error{Code::no_memory, "the device has all its keys in use"};
      const uint32_t key =
          keys.insert_window(type == WindowType::one ? memory::KeyKind::window_of_domain
                                                     : memory::KeyKind::window_of_queue,
                             id_);
      base::Undo undo([&] { keys.remove_window(key); });
      auto made = std::make_shared<Window>(device_, home, type, key);
      undo.forget();
      return std::shared_ptr<verbs::Window>(std::move(made));
    } else {
      return Domain::create_window(type, engine);
    }
  }

  Result<std::shared_ptr<verbs::Srq>> create_srq(
      const SharedReceiveQueueOptions& options) override {
    if (forked()) return Error{Code::permission_denied, kForked};
    if constexpr (kHasPools) {
      driver::Driver& home = *drivers_[options.engine];
      const Result<uint32_t> xrc = xrc_of(options.xrc_domain, home);
      if (!xrc) return xrc.error();
      Cq* const cq = cq_of(options.cq);
      if ((*xrc != 0) != (cq != nullptr) || (options.cq.impl() != nullptr && cq == nullptr))
        return Error{Code::invalid_argument,
                     "SharedReceiveQueueOptions::cq is for a queue with an xrc_domain, which needs "
                     "one of the same open device"};
      if (cq != nullptr && &cq->driver() != &home) return Error{Code::invalid_argument, kXrcHome};
      driver::Holder hold(home.lock());
      Machine& machine = machine_of(home);
      auto pool = machine.create_shared_receives(
          id_, options, {*xrc, cq != nullptr ? &cq->handle().ring : nullptr});
      if (!pool) return pool.error();
      transport::SharedReceives& raw = **pool;
      base::Undo undo([&] { machine.withdraw(raw); });
      auto made = std::make_shared<MachineSrq<Machine>>(device_, home, options, std::move(*pool));
      undo.forget();
      return std::shared_ptr<verbs::Srq>(std::move(made));
    } else {
      (void)options;
      return Error{Code::not_supported, "this provider has no shared receive queues"};
    }
  }

 private:
  static constexpr bool kHasWindows = requires(Pair p) { p.sq; };
  static constexpr bool kHasPools = requires(Machine m) { m.create_shared_receives(0, {}); };
  static constexpr const char* kXrcHome =
      "an XRC domain, its shared receive queues with their completion queues, and its targets must "
      "be on one engine: name the same engine for all";

  static Machine& machine_of(driver::Driver& driver) noexcept {
    return static_cast<Machine&>(driver.machine());
  }

  // The driver of a queue pair without completion queues (an XRC target).
  driver::Driver& home_of(const XrcDomain& handle) const {
    const auto* const xrc = dynamic_cast<const Xrc*>(handle.impl().get());
    return xrc != nullptr && is_ours(xrc->driver()) ? xrc->driver() : driver_;
  }

  // The number of an XRC domain of this device; 0 for an empty handle.
  Result<uint32_t> xrc_of(const XrcDomain& handle, const driver::Driver& home) const {
    if (!handle) return uint32_t{0};
    const auto* const xrc = dynamic_cast<const Xrc*>(handle.impl().get());
    if (xrc == nullptr || !is_ours(xrc->driver()))
      return Error{Code::invalid_argument, "xrc_domain must be of the same open device"};
    if (&xrc->driver() != &home) return Error{Code::invalid_argument, kXrcHome};
    return xrc->id();
  }

  // The pool of a queue pair's shared receive queue, which must be of this domain: nullptr if it
  // has none. //= threat:A05
  Result<transport::SharedReceives*> shared_of(const QueuePairOptions& options,
                                               const driver::Driver& home) const {
    transport::SharedReceives* const none = nullptr;
    if (!options.shared_receive_queue) return none;
    if constexpr (kHasPools) {
      auto* const srq =
          dynamic_cast<MachineSrq<Machine>*>(options.shared_receive_queue.impl().get());
      if (srq != nullptr && is_ours(srq->driver()) && srq->pool().domain == id_ &&
          srq->pool().xrc_domain == 0) {
        if (&srq->driver() == &home) return &srq->pool();
        return Error{Code::invalid_argument,
                     "shared_receive_queue is on another engine than the completion queues: set "
                     "the same SharedReceiveQueueOptions::engine"};
      }
    }
    return Error{Code::invalid_argument,
                 "shared_receive_queue must be of the same protection domain as the queue pair, "
                 "and of no XRC domain"};
  }
};

template <class Machine, class Pair, class Config>
class MachineContext : public Context {
 public:
  MachineContext(Ports ports, const Config& config, const driver::DriverOptions& options,
                 DeviceAttributes attributes)
      : Context(
            std::move(ports),
            [&config](transport::Port& p, base::SecureRandom& random) {
              return std::make_unique<Machine>(p, config, random);
            },
            options, std::move(attributes)),
        machine_(static_cast<Machine&>(driver_.machine())) {}

  ~MachineContext() override { this->stop_faults(); }

  Result<std::shared_ptr<verbs::Domain>> create_domain(const Device& device) override {
    if (const Result<void> ok = usable(); !ok) return ok.error();
    return std::shared_ptr<verbs::Domain>(
        new MachineDomain<Machine, Pair>(device, drivers_, next_domain_++));
  }

  verbs::Inspection inspect(const std::atomic<bool>& closing) const override {
    verbs::Inspection found;
    if (!inspect_common(found, closing)) return found;
    for (const auto& driver : drivers_)
      inspect_machine(*driver, static_cast<Machine&>(driver->machine()), found, closing);
    return found;
  }

 protected:
  void fail_queue_pairs(driver::Driver& driver, bool raises) override {
    auto& machine = static_cast<Machine&>(driver.machine());
    (void)machine.visit_qps(0, SIZE_MAX, [&](auto& qp) {
      if (qp.state == QpState::reset || qp.state == QpState::err) return;
      (void)machine.modify_qp(qp, {.state = QpState::err});
      if (raises) machine.raise(EventType::qp_fatal, qp.number);
    });
  }

  Machine& machine_;  // of engine 0
};

}  // namespace weft::software
