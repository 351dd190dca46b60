// SPDX-License-Identifier: BSD-3-Clause
// A user's program, built against the installed library only: it connects two queue pairs of its
// own over loopback and writes eight bytes. It also names every free function of the API, so that
// one that libweft.so does not export fails to link.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <weft/weft.hpp>

namespace {

// The value, or the end of the program with the error's message.
template <class T>
T must(weft::Result<T> result, const char* what) {
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", what, result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

weft::QueuePair make_queue_pair(const weft::ProtectionDomain& pd, const weft::CompletionQueue& cq) {
  weft::QueuePairOptions options;
  options.send_cq = cq;
  options.recv_cq = cq;
  return must(pd.queue_pair(options), "queue_pair");
}

void show_names(const weft::Device& device) {
  std::printf("%s at %s; %s %s %s %s %s; %zu devices\n", device.attributes().spec.c_str(),
              weft::to_string(device.attributes().gid).c_str(), weft::name(weft::Code::ok).data(),
              weft::name(weft::QpType::rc).data(), weft::name(weft::QpState::rts).data(),
              weft::name(weft::Status::success).data(),
              weft::name(weft::EventType::qp_fatal).data(), weft::list_devices().size());
  must(weft::parse_gid("127.0.0.1"), "parse_gid");
  const std::array<std::byte, weft::kNetworkHeaderLength> header{};
  std::printf("a datagram from %s\n", weft::to_string(weft::sender_of(header).destination).c_str());
}

}  // namespace

int main() {
  const weft::Device device = must(weft::Device::open("roce+udp:lo"), "open");
  show_names(device);
  const auto pd = must(device.protection_domain(), "protection_domain");
  const auto cq = must(device.completion_queue({}), "completion_queue");
  uint64_t source = 0x1122334455667788, target = 0;
  const auto from = must(pd.register_memory(&source, sizeof source, weft::Access::all), "register");
  const auto to = must(pd.register_memory(&target, sizeof target, weft::Access::all), "register");

  auto listener = must(weft::Listener::listen("127.0.0.1:0"), "listen");
  std::optional<weft::Connection> target_side;
  std::thread passive(
      [&] { target_side = must(listener.accept(make_queue_pair(pd, cq)), "accept"); });
  const std::string address = "127.0.0.1:" + std::to_string(listener.port());
  const weft::Connection peer = must(weft::connect(address, make_queue_pair(pd, cq)), "connect");
  passive.join();

  const weft::Sge sge = from.sge(0, sizeof source);
  weft::SendRequest request;
  request.opcode = weft::Opcode::write;
  request.sges = {&sge, 1};
  request.remote_address = reinterpret_cast<uint64_t>(to.address());
  request.rkey = to.rkey();
  weft::Completion done;
  if (!peer.qp.post_send(request) || cq.wait({&done, 1}, weft::Duration::from_s(10)) != 1) {
    std::fprintf(stderr, "the write did not complete\n");
    return 1;
  }
  std::printf("%s, wrote %llx\n", weft::name(done.status).data(),
              static_cast<unsigned long long>(target));
  return target == source ? 0 : 1;
}
