// SPDX-License-Identifier: BSD-3-Clause
// Cancellation of single calls while others continue, and callbacks of calls that end.
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

std::vector<std::string> devices() {
  return {shm_device("roce"), shm_device("srd"), "roce+udp:lo", "srd+udp:lo,fault.loss=0.02"};
}

// "" if the call has succeeded, or was canceled by that rank.
std::string ended(const Result<void>& result, const std::string& call, uint32_t by) {
  if (result) return "";
  const std::string wanted =
      "CANCELED: " + call + " was canceled by rank " + std::to_string(by) + ": enough";
  std::string text = result.error().message;
  const size_t parenthesis = text.find(" (");
  if (parenthesis != std::string::npos) text.erase(parenthesis, text.find(')') + 1 - parenthesis);
  return result.error().code == Code::canceled && text == wanted ? "" : result.error().message;
}

std::string sum_is_right(Communicator& group, size_t count) {
  std::vector<float> ones(count, 1.0F), sum(count);
  const Result<void> done = group.all_reduce(ones.data(), sum.data(), count, DataType::fp32).wait();
  if (!done) return done.error().message;
  return sum == std::vector<float>(count, static_cast<float>(group.size())) ? "" : "wrong sum";
}

// In each round a call is canceled after a different number of turns; no peer writes to its memory
// after it has ended, and later calls have the right results.
TEST_CASE("a canceled call ends on all ranks, and the communicator continues") {
  constexpr size_t kCount = 300'000;
  constexpr float kMine = -5;
  for (const std::string& device : devices())
    for (const std::string_view algorithm : {"direct", "ring"}) {
      INFO(device << ", " << algorithm);
      std::atomic<int> canceled{0};
      check_ranks(3, {.device = device}, [&](Communicator& group) -> std::string {
        for (uint32_t round = 0; round < 12; ++round) {
          std::vector<float> in(kCount, 1.0F), out(kCount);
          Operation sum = group.all_reduce(in.data(), out.data(), kCount, DataType::fp32,
                                           ReduceOp::sum, {.algorithm = algorithm});
          const uint32_t by = round % 3;
          if (group.rank() == by) {
            for (uint32_t turn = 0; turn < 7 * round; ++turn) (void)sum.test();
            if (!sum.cancel("enough")) return "it cannot be canceled";
          }
          const Result<void> result = sum.wait();
          canceled += !result;
          const std::string call = "all_reduce #" + std::to_string(2 * round + 1);
          if (const std::string wrong = ended(result, call, by); !wrong.empty()) return wrong;
          if (result && out.back() != 3.0F) return "wrong sum of what was not canceled";
          std::fill(in.begin(), in.end(), kMine);
          std::fill(out.begin(), out.end(), kMine);
          if (const std::string wrong = sum_is_right(group, 50'000); !wrong.empty()) return wrong;
          for (const float value : out)
            if (value != kMine) return "the memory of a canceled call was written to";
        }
        return "";
      });
      CHECK(canceled > 0);
    }
}

TEST_CASE("queued calls are canceled, also before other ranks have called them") {
  for (const std::string& device : devices()) {
    INFO(device);
    check_ranks(3, {.device = device}, [](Communicator& group) -> std::string {
      std::vector<float> data(40'000, 1.0F), more(40'000, 1.0F);
      if (group.rank() == 2) usleep(100'000);
      const auto sum = [&](std::vector<float>& of) {
        return group.all_reduce(of.data(), of.data(), of.size(), DataType::fp32);
      };
      Operation first = sum(data), second = sum(more), third = group.barrier();
      if (group.rank() == 0) {
        if (!second.cancel("enough") || !third.cancel("enough")) return "it cannot be canceled";
        if (!second.done() || !third.done() || first.done()) return "it is not done at once";
      }
      if (Result<void> done = first.wait(); !done) return done.error().message;
      if (data.back() != 3.0F) return "wrong sum";
      for (const auto& [operation, call] :
           {std::pair(&second, "all_reduce #2"), std::pair(&third, "barrier #3")}) {
        const Result<void> result = operation->wait();
        if (result) return "a call that rank 0 never started has succeeded";
        if (const std::string wrong = ended(result, call, 0); !wrong.empty()) return wrong;
      }
      return sum_is_right(group, 40'000);
    });
  }
}

// Rank 0 advertised its memory to rank 1, and which calls after the limit of the call: the limit
// counts from the cancellation then.
TEST_CASE("a call that is canceled late has its whole limit to drain") {
  const CommunicatorOptions options{.device = shm_device("srd"), .patience = Duration::from_s(10)};
  check_ranks(2, options, [](Communicator& group) -> std::string {
    std::vector<float> data(300'000, 1.0F);
    if (group.rank() == 1) usleep(1'400'000);
    Operation sum =
        group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32, ReduceOp::sum,
                         {.algorithm = "direct", .limit = Duration::from_s(1)});
    if (group.rank() == 0) {
      usleep(800'000);
      if (!sum.cancel("enough")) return "it cannot be canceled";
    }
    if (const std::string wrong = ended(sum.wait(), "all_reduce #1", 0); !wrong.empty())
      return wrong;
    return sum_is_right(group, 50'000);
  });
}

TEST_CASE("a canceled call that other ranks called with other arguments is a mismatch") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<float> data(16);
    if (group.rank() == 1) usleep(50'000);
    Operation own = group.rank() == 0
                        ? group.all_reduce(data.data(), data.data(), 16, DataType::fp32)
                        : group.all_gather(data.data(), data.data(), 8, DataType::fp32);
    if (group.rank() == 0 && !own.cancel("enough")) return "it cannot be canceled";
    (void)own.wait();
    const Result<void> next = group.barrier().wait();
    return !next && next.error().code == Code::mismatch ? "" : "the mismatch was not detected";
  });
}

TEST_CASE("a call that cannot be canceled is an error, and a finished call stays finished") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 1, other = 0;
    Operation sum = group.all_reduce(&value, &value, 1, DataType::int32);
    if (Result<void> done = sum.wait(); !done) return done.error().message;
    if (!sum.cancel() || !sum.wait() || value != 2) return "a call that was done was canceled";
    const uint32_t peer = 1 - group.rank();
    const Transfer both{.peer = peer,
                        .send = &value,
                        .send_bytes = sizeof value,
                        .receive = &other,
                        .receive_bytes = sizeof other};
    Operation exchange = group.exchange({&both, 1});
    if (!exchange.done()) {
      const Result<void> refused = exchange.cancel();
      if (!exchange.done() && (refused || refused.error().code != Code::bad_state))
        return "an exchange was canceled of which a part is sent";
    }
    if (Result<void> done = exchange.wait(); !done) return done.error().message;
    return other == 2 ? sum_is_right(group, 10) : "wrong data";
  });
}

TEST_CASE("an all_to_all_v is canceled in any of its parts") {
  for (const std::string& device : devices()) {
    INFO(device);
    std::atomic<int> canceled{0};
    check_ranks(3, {.device = device}, [&](Communicator& group) -> std::string {
      for (uint32_t round = 0; round < 12; ++round) {
        const std::vector<size_t> sent(3, 60'000);
        std::vector<size_t> come(sent);
        std::vector<float> in(180'000, 1.0F), out(180'000);
        Operation call = round % 2 == 0
                             ? group.all_to_all_v(in.data(), sent, out.data(), come, DataType::fp32)
                             : group.all_to_all_v_discovered(in.data(), sent, out.data(),
                                                             out.size(), come, DataType::fp32);
        if (group.rank() == round % 3) {
          for (uint32_t turn = 0; turn < 5 * round; ++turn) (void)call.test();
          if (!call.cancel("enough")) return "it cannot be canceled";
        }
        const Result<void> result = call.wait();
        canceled += !result;
        if (!result && result.error().code != Code::canceled) return result.error().message;
        if (result && out != in) return "wrong data of what was not canceled";
        if (const std::string wrong = sum_is_right(group, 1000); !wrong.empty()) return wrong;
      }
      return "";
    });
    CHECK(canceled > 0);
  }
}

TEST_CASE("a receive without data is withdrawn as if it had not been called") {
  for (const std::string& device : devices()) {
    INFO(device);
    check_ranks(2, {.device = device}, [](Communicator& group) -> std::string {
      constexpr size_t kBytes = 200'000;
      std::vector<uint8_t> mine(kBytes, 7), first(kBytes), second(kBytes);
      if (const std::string wrong = sum_is_right(group, 10); !wrong.empty()) return wrong;
      const auto canceled = [](Operation& operation) {
        const Result<void> result = operation.wait();
        return !result && result.error().code == Code::canceled &&
               contains(result.error().message, "exchange was canceled by rank 0: enough");
      };
      if (group.rank() == 0) {
        int called = 0;
        Operation receive = group.receive(first.data(), kBytes, 1);
        Operation waits = group.send(first.data(), kBytes, 1);
        Operation next = group.send(mine.data(), kBytes, 1);
        receive.then([&](const Result<void>& result) { called += result ? 100 : 1; });
        // Long enough for a probe to reach rank 1, which is busy.
        if (const Result<bool> done = receive.wait_for(Duration::from_ms(120)); !done || *done)
          return "it does not wait";
        if (!waits.cancel("enough") || !waits.done()) return "a send that waits is not canceled";
        if (!receive.cancel("enough") || !receive.done()) return "the receive is not canceled";
        if (!canceled(receive) || !canceled(waits) || called != 1) return "it ended otherwise";
        if (Result<void> done = next.wait(); !done) return done.error().message;
        if (Result<void> done = group.receive(second.data(), kBytes, 1).wait(); !done)
          return done.error().message;
        if (Result<void> done = group.barrier().wait(); !done) return done.error().message;
        const std::string dump = group.dump();
        size_t failed = 0;
        for (size_t at = 0; (at = dump.find("\"failed\"", at)) != std::string::npos; ++at) ++failed;
        if (failed != 2) return std::to_string(failed) + " of two have failed";
        return first == std::vector<uint8_t>(kBytes) && second == mine ? "" : "wrong data";
      }
      usleep(200'000);
      if (Result<void> done = group.receive(second.data(), kBytes, 0).wait(); !done)
        return done.error().message;
      if (Result<void> done = group.send(mine.data(), kBytes, 0).wait(); !done)
        return done.error().message;
      if (Result<void> done = group.barrier().wait(); !done) return done.error().message;
      return second == mine ? "" : "wrong data";
    });
  }
}

// Rank 1 counts on the rest of what it gets a part of.
TEST_CASE("an exchange of which a part is sent is not canceled, and ends well") {
  for (const std::string& device : {shm_device("roce"), std::string("srd+udp:lo")}) {
    INFO(device);
    std::atomic<bool> received{false}, tried{false};
    check_ranks(2, {.device = device}, [&](Communicator& group) -> std::string {
      if (const std::string wrong = sum_is_right(group, 10); !wrong.empty()) return wrong;
      int32_t mine = 10 + static_cast<int32_t>(group.rank()), theirs = 0;
      if (group.rank() == 1) {
        const Result<void> came = group.receive(&theirs, sizeof theirs, 0).wait();
        received = true;
        while (!tried) usleep(1000);
        if (!came) return came.error().message;
        if (Result<void> done = group.send(&mine, sizeof mine, 0).wait(); !done)
          return done.error().message;
        return theirs == 10 ? sum_is_right(group, 10) : "wrong data";
      }
      const Transfer both{.peer = 1,
                          .send = &mine,
                          .send_bytes = sizeof mine,
                          .receive = &theirs,
                          .receive_bytes = sizeof theirs};
      Operation exchange = group.exchange({&both, 1});
      while (!received) (void)exchange.test();
      const Result<void> refused = exchange.cancel("enough");
      const bool done = exchange.done();
      tried = true;
      if (refused || refused.error().code != Code::bad_state || done) return "it was canceled";
      if (Result<void> ended = exchange.wait(); !ended) return ended.error().message;
      return theirs == 11 ? sum_is_right(group, 10) : "wrong data";
    });
  }
}

TEST_CASE("callbacks run in the order in which calls end, and may issue calls") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::string order;
    int32_t value = 1;
    std::optional<Operation> next;
    Operation first = group.all_reduce(&value, &value, 1, DataType::int32);
    Operation second = group.barrier();
    second.then([&](const Result<void>& result) { order += result ? "c" : "?"; });
    first.then([&](const Result<void>& result) {
      order += result && value == 2 ? "a" : "?";
      next = group.all_reduce(&value, &value, 1, DataType::int32);
      next->then([&](const Result<void>& later) { order += later && value == 4 ? "d" : "?"; });
    });
    first.then([&](const Result<void>&) { order += "b"; });
    while (order.size() < 4) group.progress();
    second.then([&](const Result<void>& result) { order += result ? "e" : "?"; });
    group.revoke("the end");
    group.barrier().then([&](const Result<void>& result) { order += result ? "?" : "f"; });
    return order == "abcdef" ? "" : "the order was " + order;
  });
}

TEST_CASE("a callback may assign the next call to the handle that is waited for") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int left = 3;
    Operation call = group.barrier();
    const std::function<void(const Result<void>&)> again = [&](const Result<void>& result) {
      if (!result || --left == 0) return;
      call = group.barrier();
      call.then(again);
    };
    call.then(again);
    while (left > 0)
      if (Result<void> done = call.wait(); !done) return done.error().message;
    return "";
  });
}

TEST_CASE("arm() refuses while callbacks are due") {
  std::atomic<int> looked{0};
  check_ranks(2, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    bool called = false;
    Operation first = group.barrier(), second = group.barrier();
    second.then([&](const Result<void>&) { called = true; });
    if (group.rank() == 0 && !second.cancel("enough")) return "it cannot be canceled";
    if (group.rank() == 0 && second.done() && !called) {
      ++looked;
      if (group.arm()) return "it may sleep";
    }
    (void)first.wait();
    (void)second.wait();
    return called ? "" : "nothing was called back";
  });
  CHECK(looked == 1);
}

}  // namespace
}  // namespace weft::test
