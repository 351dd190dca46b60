// SPDX-License-Identifier: BSD-3-Clause
// Congestion control of your own in a real device: additive increase, multiplicative decrease on
// marks. It is told of acknowledgements and CNPs, and says a rate; the device string names it, each
// queue pair has a state of its own. The simulator takes the same Kind.
#include "side.hpp"

namespace cc = weft::congestion;
static constexpr cc::Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 10, "chosen here"},
    {"step_mbps", "Mb/s per RTT", 100, "chosen here"},
};

static int steps = 0;  // of all flows: to be printed
struct Tortoise {
  uint64_t window_end;
};  // of one flow; zero at its start

static void on_ack(cc::State& state, const cc::Preset& preset, const cc::Ack& ack) {
  if (ack.acked < cc::own<Tortoise>(state).window_end) return;
  cc::own<Tortoise>(state).window_end = ack.sent;  // once per round trip
  state.decision.rate += preset[1] * 1e6;
  ++steps;
}

static void on_cnp(cc::State& state, const cc::Preset&, weft::Instant) { state.decision.rate /= 2; }

static constexpr cc::Kind kTortoise = {.name = "tortoise",
                                       .what = "AIMD",
                                       .parameters = kParameters,
                                       .on_ack = on_ack,
                                       .on_cnp = on_cnp};

static char memory[1 << 20];
static int serve(weft::Listener& listener) {
  const Side side;
  const auto region = need(side.pd.register_memory(memory, sizeof memory, weft::Access::all));
  const weft::Sge sge = region.sge(0, sizeof memory);
  if (!side.qp.post_recv({.id = 1, .sges = {&sge, 1}})) return 1;
  need(listener.accept(side.qp));
  return side.next().status == weft::Status::success ? 0 : 1;
}

static int send_to(const std::string& address) {
  const Side side;
  const auto region = need(side.pd.register_memory(memory, sizeof memory, weft::Access::none));
  const weft::Sge sge = region.sge(0, sizeof memory);
  need(weft::connect(address, side.qp));
  if (!side.qp.post_send({.opcode = weft::Opcode::send, .sges = {&sge, 1}})) return 1;
  if (side.next().status != weft::Status::success) return 1;
  return std::printf("client: the tortoise took %d steps\n", steps) < 0 || steps == 0;
}

int main(int argc, char** argv) {
  need(weft::add_controller(kTortoise));
  const char* const given = std::getenv("WEFT_DEVICE");
  const std::string device = given != nullptr ? given : "roce+udp:lo";
  setenv("WEFT_DEVICE", (device + ",cc=tortoise").c_str(), 1);
  return run(argc, argv, serve, send_to);
}
