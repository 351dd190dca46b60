// SPDX-License-Identifier: BSD-3-Clause
// Remote calls over SEND: the client asks for the square of a number, 10,000 times. Requests are
// inline: their data are taken at the post, so the word can change at once.
#include <chrono>

#include "side.hpp"

constexpr uint64_t kCalls = 10'000;
struct Channel {
  Side side;
  uint64_t words[2] = {};  // going out, coming in
  weft::MemoryRegion region =
      need(side.pd.register_memory(words, sizeof words, weft::Access::local_write));

  void expect() {
    const weft::Sge in = region.sge(8, 8);
    if (!side.qp.post_recv({.sges = {&in, 1}})) std::exit(1);
  }
  void send(uint64_t word) {
    words[0] = word;
    const weft::Sge out = region.sge(0, 8);
    constexpr auto kFlags = weft::SendFlags::inline_data | weft::SendFlags::signaled;
    if (!side.qp.post_send({.flags = kFlags, .sges = {&out, 1}})) std::exit(1);
  }
  uint64_t receive() {  // completions of sends come in between
    weft::Completion done = side.next();
    while (done.status == weft::Status::success && done.type != weft::WorkType::recv)
      done = side.next();
    return done.status == weft::Status::success ? words[1] : ~uint64_t{0};
  }
};

static int serve(weft::Listener& listener) {
  Channel channel;
  channel.expect();
  need(listener.accept(channel.side.qp));
  for (uint64_t i = 0; i < kCalls; ++i) {
    const uint64_t x = channel.receive();
    channel.expect();
    channel.send(x * x);
  }
  return channel.side.next().status == weft::Status::success ? 0 : 1;  // the last one was received
}

static int call(const std::string& address) {
  Channel channel;
  need(weft::connect(address, channel.side.qp));
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kCalls; ++i) {
    channel.expect();
    channel.send(i);
    if (channel.receive() != i * i) return 1;
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  std::printf("%d calls, all answers right, %.1f us each\n", int{kCalls}, took.count() / kCalls);
  return 0;
}

int main(int argc, char** argv) { return run(argc, argv, serve, call); }
