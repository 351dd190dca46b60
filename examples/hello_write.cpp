// SPDX-License-Identifier: BSD-3-Clause
// Writes into a peer's memory, whose address and key come with the connection. The peer's program
// does nothing for it but look at its memory.
#include <algorithm>
#include <cstring>

#include "side.hpp"

struct Window {
  uint64_t address = 0;
  weft::RKey rkey;
};

static int serve(weft::Listener& listener) {
  const Side side;
  char text[64] = {};
  const auto region = need(side.pd.register_memory(text, sizeof text, weft::Access::all));
  const Window window{reinterpret_cast<uintptr_t>(text), region.rkey()};
  weft::ConnectOptions options;
  options.private_data.resize(sizeof window);
  std::memcpy(options.private_data.data(), &window, sizeof window);
  need(listener.accept(side.qp, options));
  const volatile char* last = text + 16;  // data arrive in order, so this byte is the last
  const auto written = [&] { return *last == '!'; };
  if (!side.device.wait_until(written, weft::Duration::from_s(10))) return 1;
  std::printf("server: in my memory: %s\n", text);
  return std::strcmp(text, "written from far!") == 0 ? 0 : 1;
}

static int write_to(const std::string& address) {
  const Side side;
  char text[] = "written from far!";
  const auto region = need(side.pd.register_memory(text, sizeof text, weft::Access::none));
  const weft::Connection peer = need(weft::connect(address, side.qp));
  Window window;
  std::memcpy(&window, peer.peer_data.data(), std::min(sizeof window, peer.peer_data.size()));
  const weft::Sge source = region.sge(0, sizeof text - 1);
  if (!side.qp.post_send({.opcode = weft::Opcode::write,
                          .sges = {&source, 1},
                          .remote_address = window.address,
                          .rkey = window.rkey}))
    return 1;
  const weft::Completion done = side.next();
  std::printf("client: %s\n", std::string(weft::name(done.status)).c_str());
  return done.status == weft::Status::success ? 0 : 1;
}

int main(int argc, char** argv) { return run(argc, argv, serve, write_to); }
