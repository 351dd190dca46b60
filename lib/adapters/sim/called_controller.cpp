// SPDX-License-Identifier: BSD-3-Clause
// See called_controller.hpp. The functions of a Kind are plain ones, so the controller of the run
// is that of the thread: a run is single-threaded.
#include "lib/adapters/sim/called_controller.hpp"

#include <algorithm>
#include <array>

#include "lib/base/check.hpp"

namespace weft::c {

using congestion::Ack;
using congestion::Loss;
using congestion::Preset;
using congestion::Signal;
using congestion::State;

namespace {

thread_local CalledController* running = nullptr;

constexpr congestion::Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1, congestion::kNoSource, {}, "least of weft.sim"}};

struct Own {
  uint32_t flow;
};

}  // namespace

struct CalledController::Calls {
  static void start(State& state, const Preset& preset) {
    CalledController& self = *running;
    congestion::own<Own>(state).flow = self.started_++;
    self.call({.type = WEFT_SIM_START}, state, preset);
  }
  static void on_ack(State& state, const Preset& preset, const Ack& ack) {
    std::array<weft_sim_hop, congestion::kMaxHops> hops{};
    WEFT_DCHECK(ack.hops.size() <= hops.size());
    std::transform(ack.hops.begin(), ack.hops.end(), hops.begin(), [](const auto& hop) {
      return weft_sim_hop{hop.rate_mbps, hop.time_ns, hop.sent_bytes, hop.queue_bytes};
    });
    running->call({.type = WEFT_SIM_ACK,
                   .now_ns = ack.now.ps / 1000,
                   .rtt_ns = ack.rtt.ns(),
                   .acked = ack.acked,
                   .sent = ack.sent,
                   .newly_acked = ack.newly_acked,
                   .packet_bytes = ack.packet_bytes,
                   .marked = ack.marked,
                   .hop_count = static_cast<uint32_t>(ack.hops.size()),
                   .hops = hops.data()},
                  state, preset);
  }
  static void on_cnp(State& state, const Preset& preset, Instant now) {
    running->call({.type = WEFT_SIM_CNP, .now_ns = now.ps / 1000}, state, preset);
  }
  static void on_loss(State& state, const Preset& preset, const Loss& loss) {
    running->call({.type = WEFT_SIM_LOSS,
                   .now_ns = loss.now.ps / 1000,
                   .acked = loss.acked,
                   .sent = loss.sent,
                   .packet_bytes = loss.bytes},
                  state, preset);
  }
  static void on_deadline(State& state, const Preset& preset, Instant now) {
    state.decision.deadline = Instant::never();
    running->call({.type = WEFT_SIM_TIMER, .now_ns = now.ps / 1000}, state, preset);
  }
};

Result<Signal> CalledController::signal_of(const char* name) {
  static constexpr struct {
    std::string_view name;
    Signal signal;
  } kSignals[] = {{"none", Signal::none},
                  {"ecn", Signal::ecn},
                  {"delay", Signal::delay},
                  {"telemetry", Signal::telemetry}};
  if (name == nullptr) return Signal::delay;
  for (const auto& known : kSignals)
    if (known.name == name) return known.signal;
  return Error{Code::invalid_argument,
               "there is no signal '" + std::string(name) + "': use none, ecn, delay or telemetry"};
}

CalledController::CalledController(const weft_sim_run_options& options, Signal signal)
    : callback_(options.callback),
      context_(options.context),
      outer_(running),
      name_(options.controller != nullptr ? options.controller : "callback") {
  kind_.name = name_;
  kind_.signal = signal;
  kind_.windowed = options.windowed;
  kind_.echoes_marks = signal == Signal::ecn;
  kind_.parameters = kParameters;
  kind_.start = Calls::start;
  kind_.on_ack = Calls::on_ack;
  kind_.on_cnp = Calls::on_cnp;
  kind_.on_loss = Calls::on_loss;
  kind_.on_deadline = Calls::on_deadline;
  running = this;
}

CalledController::~CalledController() { running = outer_; }

void CalledController::call(weft_sim_event event, State& state, const Preset& preset) {
  if (failed()) return;
  event.flow = congestion::own<Own>(state).flow;
  event.line_rate_bps = preset.line_rate;
  event.base_rtt_ns = static_cast<int64_t>(preset.base_rtt_ns);
  congestion::Decision& now = state.decision;
  const bool never = now.deadline == Instant::never();
  weft_sim_decision decision{now.rate, now.window, never ? INT64_MAX : now.deadline.ps / 1000};
  if (!callback_(context_, &event, &decision)) {
    progress_.stop = true;
    return;
  }
  now.rate = decision.rate_bps;
  now.window = std::max<uint64_t>(decision.window_bytes, 1);
  // A deadline that has passed would come again at the same instant.
  const int64_t deadline = std::max(decision.deadline_ns, event.now_ns + 1);
  now.deadline = deadline >= INT64_MAX / 1000 ? Instant::never() : Instant{deadline * 1000};
}

}  // namespace weft::c
