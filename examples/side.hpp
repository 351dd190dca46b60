// SPDX-License-Identifier: BSD-3-Clause
// What every example needs: a device with its queues, and a main that runs one side or both.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "weft/weft.hpp"

// The value, or the end of the program with the error's message.
template <class T>
T need(weft::Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

inline void need(const weft::Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

struct Side {
  weft::Device device = need(weft::Device::open());  // WEFT_DEVICE, or roce+udp:lo
  weft::CompletionQueue cq = need(device.completion_queue({.capacity = 64}));
  weft::ProtectionDomain pd = need(device.protection_domain());
  weft::QueuePair qp = need(pd.queue_pair({.send_cq = cq, .recv_cq = cq}));

  // INIT: receives may be posted before the connection is there.
  Side() {
    need(qp.modify({.state = weft::QpState::init,
                    .pkey_index = uint16_t{0},
                    .port = uint8_t{1},
                    .access = weft::Access::all}));
  }

  // The next completion; fails after ten seconds.
  weft::Completion next() const {
    weft::Completion done;
    if (cq.wait({&done, 1}, weft::Duration::from_s(10)) != 0) return done;
    std::fprintf(stderr, "nothing happened for ten seconds\n");
    std::exit(1);
  }
};

// PROGRAM server: waits for a client. PROGRAM HOST: the client. PROGRAM: both, as two processes.
template <class Server, class Client>
int run(int argc, char** argv, Server server, Client client) {
  const std::string role = argc > 1 ? argv[1] : "both";
  if (role != "both" && role != "server") return client(role);
  weft::Listener listener = need(weft::Listener::listen(role == "both" ? "127.0.0.1:0" : ""));
  std::fflush(stdout);
  if (role == "both" && fork() == 0) return client("127.0.0.1:" + std::to_string(listener.port()));
  const int failed = server(listener);
  int client_status = 0;
  wait(&client_status);
  return failed != 0 || client_status != 0;
}
