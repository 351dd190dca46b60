// SPDX-License-Identifier: BSD-3-Clause
// A controller of your own (tortoise.hpp) in a device: the device string names it, each queue pair
// has a state of its own. simulate.cpp runs the same controller in the simulator.
#include "side.hpp"
#include "tortoise.hpp"

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
