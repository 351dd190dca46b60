// SPDX-License-Identifier: BSD-3-Clause
// Sends one message to a peer that has posted a buffer for it.
#include <cstring>

#include "side.hpp"

static int serve(weft::Listener& listener) {
  const Side side;
  char text[64] = {};
  const auto region = need(side.pd.register_memory(text, sizeof text, weft::Access::local_write));
  const weft::Sge buffer = region.sge(0, sizeof text);
  if (!side.qp.post_recv({.id = 1, .sges = {&buffer, 1}})) return 1;
  need(listener.accept(side.qp));
  const weft::Completion done = side.next();
  std::printf("server: %u bytes: %s\n", done.byte_count, text);
  return std::strcmp(text, "hello, RDMA") == 0 ? 0 : 1;
}

static int send_message(const std::string& address) {
  const Side side;
  char text[] = "hello, RDMA";
  const auto region = need(side.pd.register_memory(text, sizeof text, weft::Access::none));
  need(weft::connect(address, side.qp));
  const weft::Sge message = region.sge(0, sizeof text);
  if (!side.qp.post_send({.id = 2, .sges = {&message, 1}})) return 1;
  const weft::Completion done = side.next();
  std::printf("client: %s\n", std::string(weft::name(done.status)).c_str());
  return done.status == weft::Status::success ? 0 : 1;
}

int main(int argc, char** argv) { return run(argc, argv, serve, send_message); }
