// SPDX-License-Identifier: BSD-3-Clause
// Operations that are kept and called again, and waiting for them in an event loop.
#include <poll.h>

#include "tests/unit/collective_ranks.hpp"

namespace weft::test {
namespace {

TEST_CASE("a call is repeated without being told anew, large and small, and meets plain calls") {
  std::atomic<bool> tried{false};
  check_ranks(3, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    for (const size_t count : {size_t{2}, size_t{100'000}}) {
      std::vector<float> in(count), out(count);
      const auto sum = [&] {
        return group.all_reduce(in.data(), out.data(), count, DataType::fp32);
      };
      Operation first = sum();
      if (Result<void> done = first.wait(); !done) return done.error().message;
      for (int round = 1; round <= 5; ++round) {
        in.assign(count, static_cast<float>(round));
        Operation again = group.rank() == 2 && round == 3 ? sum() : group.repeat(first);
        if (again.algorithm() != first.algorithm()) return "another algorithm";
        if (Result<void> done = again.wait(); !done) return done.error().message;
        if (out != std::vector<float>(count, 3.0F * static_cast<float>(round))) return "wrong sum";
      }
    }
    float value = 0;
    Operation open = group.exchange({});
    if (Result<void> done = open.wait(); !done) return done.error().message;
    const Result<void> refused = group.repeat(open).wait();
    if (refused || refused.error().code != Code::not_supported) return "an exchange was repeated";
    if (group.rank() == 2) return "";
    if (group.rank() == 1) {
      while (!tried) group.progress();
      const Result<void> sent = group.send(&value, sizeof value, 0).wait();
      return sent ? "" : sent.error().message;
    }
    Operation pending = group.receive(&value, sizeof value, 1);
    const Result<void> early = group.repeat(pending).wait();
    tried = true;
    if (Result<void> done = pending.wait(); !done) return done.error().message;
    return !early && early.error().code == Code::bad_state ? "" : "it was repeated too early";
  });
}

TEST_CASE("operations finish in an event loop that sleeps on the descriptor") {
  for (const std::string& device : {shm_device(), std::string("roce+udp:lo")})
    check_ranks(2, {.device = device}, [](Communicator& group) -> std::string {
      int naps = 0;
      for (int i = 0; i < 20; ++i) {
        int32_t value = 1;
        if (group.rank() == 1) usleep(1'000);  // so that the other one has to wait
        Operation sum = group.all_reduce(&value, &value, 1, DataType::int32);
        Result<bool> done = sum.test();
        for (; done && !*done; done = sum.test()) {
          if (!group.arm()) continue;
          pollfd wanted{group.fd(), POLLIN, 0};
          if (::poll(&wanted, 1, 5'000) == 0) return "nothing woke it";
          ++naps;
        }
        if (!done) return done.error().message;
        if (value != 2) return "wrong sum";
      }
      return group.rank() == 1 || naps > 0 ? "" : "it never slept";
    });
}

}  // namespace
}  // namespace weft::test
