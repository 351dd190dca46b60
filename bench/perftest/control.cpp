// SPDX-License-Identifier: BSD-3-Clause
// Barriers over SEND (control.hpp). A waiting side sends an empty WRITE every second as a
// keepalive: if the peer's process has ended, it fails after the retries, and so does the wait.
#include "bench/perftest/control.hpp"

#include <unistd.h>

#include <csignal>

#include "bench/perftest/clock.hpp"
#include "weft/log.hpp"

namespace weft::bench {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

constexpr uint64_t kSendId = 1u << 16;
constexpr uint64_t kProbeId = 1u << 17;

Error peer_aborted() {
  return {Code::disconnected, "the peer was stopped or failed; see its output"};
}

}  // namespace

Error interruption() { return {Code::bad_state, "interrupted by a signal"}; }

bool interrupted() noexcept { return g_interrupted != 0; }

void handle_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (g_interrupted != 0) _exit(130);  // the second time: at once
    g_interrupted = 1;
  };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Result<std::unique_ptr<Control>> Control::create(const Device& device, const ProtectionDomain& pd,
                                                 bool events) {
  Result<CompletionQueue> cq = device.completion_queue({.capacity = 64});
  if (!cq) return cq.error();
  std::unique_ptr<Control> control(new Control(std::move(*cq), events));
  if (const Result<void> ready = control->prepare(pd); !ready) return ready.error();
  return control;
}

Result<void> Control::prepare(const ProtectionDomain& pd) {
  Result<MemoryRegion> region = pd.register_memory(memory_.data(), sizeof memory_, Access::all);
  if (!region) return region.error();
  region_ = std::move(*region);
  Result<QueuePair> qp = pd.queue_pair({.type = pd.device().attributes().qp_type,
                                        .send_cq = cq_,
                                        .recv_cq = cq_,
                                        .max_send_wr = 2 * kSlots,
                                        .max_recv_wr = kSlots});
  if (!qp) return qp.error();
  qp_ = std::move(*qp);
  const Result<void> init = qp_.modify({.state = QpState::init,
                                        .pkey_index = uint16_t{0},
                                        .port = uint8_t{1},
                                        .access = Access::all});
  if (!init) return init;
  for (size_t slot = 0; slot < kSlots; ++slot)
    if (!post_receive(slot)) return Error{Code::io_error, "cannot post receives"};
  return {};
}

bool Control::post_receive(uint64_t slot) noexcept {
  const Sge sge = region_.sge(slot * sizeof(ControlMessage), sizeof(ControlMessage));
  return static_cast<bool>(qp_.post_recv({.id = slot, .sges = {&sge, 1}}));
}

bool Control::send(const ControlMessage& message) noexcept {
  const size_t slot = kSlots + sent_++ % kSlots;
  memory_[slot] = message;
  const Sge sge = region_.sge(slot * sizeof(ControlMessage), sizeof(ControlMessage));
  return static_cast<bool>(qp_.post_send({.id = kSendId, .sges = {&sge, 1}}));
}

void Control::on_completion(const Completion& c) noexcept {
  if (c.status != Status::success) {
    if (!broken_ && c.status != Status::flushed) failure_ = c.status;
    broken_ = true;
    return;
  }
  if (c.id == kSendId) ++acknowledged_;
  if (c.type != WorkType::recv || c.id >= kSlots) return;
  const ControlMessage message = memory_[c.id];
  if (!post_receive(c.id)) broken_ = true;
  if (message.kind == ControlMessage::Kind::barrier) at_barrier_[message.phase % 2] = message;
  if (message.kind == ControlMessage::Kind::stop) stop_count_ = message.count;
  if (message.kind == ControlMessage::Kind::abort) aborted_ = true;
}

// Keepalive: a side that only waits has no request in flight whose failure would show a dead peer.
void Control::probe() noexcept {
  const uint64_t now = monotonic_ns();
  if (now < next_probe_) return;
  next_probe_ = now + 1'000'000'000;
  if (!qp_.post_send({.id = kProbeId, .opcode = Opcode::write})) broken_ = true;
}

Error Control::peer_lost() const {
  std::string text = "connection lost from " + to_string(qp_.device().attributes().gid);
  if (const QueuePairAttributes set = qp_.query(); set.path)
    text += " to " + to_string(set.path->destination) + ", retry_count " +
            std::to_string(set.retry_count.value_or(0)) + ", timeout " +
            std::to_string(set.timeout.value_or(0));
  if (failure_ == Status::success)
    return {Code::disconnected, text + ": the peer's process ended or does not answer"};
  text.append(": ").append(name(failure_)).append(": ").append(reason(failure_));
  return {Code::disconnected, text + "; see the peer's output"};
}

Result<void> Control::check() noexcept {
  probe();
  Completion completions[8];
  const size_t n = cq_.poll(completions);
  for (size_t i = 0; i < n; ++i) on_completion(completions[i]);
  if (interrupted()) return interruption();
  if (aborted_) return peer_aborted();
  if (broken_) return peer_lost();
  return {};
}

std::optional<uint64_t> Control::take_stop() noexcept {
  const std::optional<uint64_t> stop = stop_count_;
  stop_count_.reset();
  return stop;
}

void Control::stop(uint64_t count) noexcept {
  ControlMessage message;
  message.kind = ControlMessage::Kind::stop;
  message.count = count;
  (void)send(message);
}

void Control::abort() noexcept {
  ControlMessage message;
  message.kind = ControlMessage::Kind::abort;
  if (broken_ || aborted_ || !send(message)) return;
  // Waits until the message has been acknowledged, at most a second.
  Completion completion;
  (void)cq_.wait({&completion, 1}, Duration::from_s(1));
}

Result<ControlMessage> Control::barrier(ControlMessage message) {
  message.kind = ControlMessage::Kind::barrier;
  message.phase = ++phase_;
  if (!send(message)) return peer_lost();
  std::optional<ControlMessage>& theirs = at_barrier_[phase_ % 2];
  for (;;) {
    const Result<void> fine = check();
    // An error after the peer's message: the peer has continued, only its ACK was lost.
    if (theirs && (acknowledged_ == sent_ || !fine)) break;
    if (!fine) return fine.error();
    if (events_) {
      Completion completion;
      if (cq_.wait({&completion, 1}, Duration::from_ms(100)) != 0) on_completion(completion);
    }
  }
  const ControlMessage peer = *theirs;
  theirs.reset();
  if (peer.phase != phase_)
    return Error{Code::bad_state, "the peer is at barrier " + std::to_string(peer.phase) +
                                      ", this side at " + std::to_string(phase_) +
                                      ": start both sides with the same options"};
  return peer;
}

}  // namespace weft::bench
