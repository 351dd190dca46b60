// SPDX-License-Identifier: BSD-3-Clause
// One queue pair, any number of peers: each of three clients sends a greeting to the server's queue
// pair, and the server answers each through an address handle. There are no connections.
#include <cstring>

#include "side.hpp"

constexpr int kClients = 3;

struct Name {  // of a queue pair in the network
  weft::Gid gid;
  weft::QpNum qpn;
};

struct Endpoint {
  weft::Device device;
  weft::CompletionQueue cq = need(device.completion_queue({.capacity = 64}));
  weft::ProtectionDomain pd = need(device.protection_domain());
  weft::QueuePair qp =
      need(pd.queue_pair({.type = weft::QpType::srd, .send_cq = cq, .recv_cq = cq}));
  char text[2][64] = {};  // going out, coming in
  weft::MemoryRegion region =
      need(pd.register_memory(text, sizeof text, weft::Access::local_write));

  explicit Endpoint(weft::Device d) : device(std::move(d)) {
    for (const weft::QpState state : {weft::QpState::init, weft::QpState::rtr, weft::QpState::rts})
      need(qp.modify({.state = state}));
  }
  Name name() const { return {device.attributes().gid, qp.number()}; }

  void expect() {
    const weft::Sge in = region.sge(64, 64);
    if (!qp.post_recv({.sges = {&in, 1}})) std::exit(1);
  }
  void send(const Name& to, const std::string& words) {
    std::strncpy(text[0], words.c_str(), sizeof text[0] - 1);
    const weft::AddressHandle handle = pd.address_handle({.destination = to.gid});
    const weft::Sge out = region.sge(0, 64);
    if (!qp.post_send({.sges = {&out, 1}, .to = &handle, .remote_qpn = to.qpn})) std::exit(1);
  }
  // The next completion of that kind.
  weft::Completion wait(weft::WorkType type) {
    weft::Completion done;
    do {
      if (cq.wait({&done, 1}, weft::Duration::from_s(10)) == 0) std::exit(1);
      if (done.status != weft::Status::success) std::exit(1);
    } while (done.type != type);
    return done;
  }
};

static weft::Device open_srd() {
  const char* const spec = std::getenv("WEFT_DEVICE");
  return need(weft::Device::open(spec != nullptr ? spec : "srd+udp:lo"));
}

static int run_client(int pipe, int number) {
  Name server;
  if (read(pipe, &server, sizeof server) != sizeof server) return 1;
  Endpoint me(open_srd());
  me.expect();
  me.send(server, "hello from " + std::to_string(number));
  me.wait(weft::WorkType::recv);
  std::printf("client %d: %s\n", number, me.text[1]);
  return std::strncmp(me.text[1], "welcome, ", 9) == 0 ? 0 : 1;
}

int main() {
  int pipes[2];
  if (pipe(pipes) != 0) return 1;
  for (int i = 1; i <= kClients; ++i)
    if (fork() == 0) return run_client(pipes[0], i);
  Endpoint server(open_srd());
  const Name name = server.name();
  for (int i = 0; i < kClients; ++i)
    if (write(pipes[1], &name, sizeof name) != sizeof name) return 1;
  for (int i = 0; i < kClients; ++i) {
    server.expect();
    const weft::Completion got = server.wait(weft::WorkType::recv);
    std::printf("server: %s\n", server.text[1]);
    const Name from{server.device.peer_address(got.source_peer).value(), got.source_qp};
    server.send(from, "welcome, queue pair " + std::to_string(from.qpn.value));
    server.wait(weft::WorkType::send);
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
