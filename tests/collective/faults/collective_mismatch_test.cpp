// SPDX-License-Identifier: BSD-3-Clause
// Ranks that call different things, send unexpected sizes, or wait for each other in a cycle: all
// ranks get an error, before the time limit.
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

// One rank of three makes a different call.
void check_mismatch(const std::function<Operation(Communicator&, bool odd, std::byte*)>& call,
                    const std::vector<std::string>& parts) {
  check_ranks(3, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    std::vector<std::byte> buffer(1 << 20);
    Result<void> result = group.barrier().wait();
    // A fast rank's failure may end this rank's barrier too.
    if (result) result = call(group, group.rank() == 1, buffer.data()).wait();
    // A rank that only sends may finish before the abort arrives; its next call fails.
    if (result) result = group.barrier().wait();
    if (result) return "the mismatch was not detected";
    if (result.error().code != Code::mismatch) return result.error().message;
    for (const std::string& part : parts)
      if (!contains(result.error().message, part)) return result.error().message;
    return "";
  });
}

TEST_CASE("different calls are a mismatch on all ranks") {
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        return group.all_reduce(b, b, odd ? 1000 : 2000, DataType::fp32);
      },
      {"MISMATCH", "rank 1 called all_reduce #2 (1000 fp32", "all_reduce #2 (2000 fp32"});
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        return group.all_reduce(b, b, 100, odd ? DataType::int32 : DataType::fp32);
      },
      {"100 int32", "100 fp32"});
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        return group.all_reduce(b, b, 100'000, DataType::fp32, odd ? ReduceOp::min : ReduceOp::avg);
      },
      {"min", "avg"});
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        return odd ? group.all_to_all(b, b, 100, DataType::fp32)
                   : group.broadcast(b, b, 100, DataType::fp32, 0);
      },
      {"all_to_all #2", "broadcast #2"});
}

TEST_CASE("a different call after many equal ones is a mismatch on all ranks") {
  const size_t odd_count = GENERATE(as<size_t>{}, 3, 100'000);
  const CommunicatorOptions options{.device = shm_device(), .slots = 3};
  check_ranks(3, options, [&](Communicator& group) -> std::string {
    std::vector<float> ours(odd_count), sums(odd_count);
    const auto sum = [&](size_t count) {
      return group.all_reduce(ours.data(), sums.data(), count, DataType::fp32).wait();
    };
    for (int i = 0; i < 50; ++i)
      if (const Result<void> done = sum(2); !done) return done.error().message;
    Result<void> result = sum(group.rank() == 1 ? odd_count : 2);
    if (result) result = sum(2);
    if (result) return "the mismatch was not detected";
    const std::string& text = result.error().message;
    const bool right =
        contains(text, "rank 1 called all_reduce #51 (" + std::to_string(odd_count) + " fp32") &&
        contains(text, "all_reduce #51 (2 fp32");
    return right && result.error().code == Code::mismatch ? "" : text;
  });
}

TEST_CASE("different block sizes on two ranks are a mismatch, not a timeout") {
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        const std::vector<size_t> counts =
            odd ? std::vector<size_t>{10, 30, 20} : std::vector<size_t>{10, 20, 30};
        return group.all_gather_v(b, b + 4096, counts, DataType::fp32);
      },
      {"all_gather_v #2 (60 fp32", "different counts"});
  // The odd rank sends nothing, the others wait to receive.
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        const size_t given = odd ? 0 : 5;
        std::vector<size_t> send(3, given), receive(3, 5);
        send[group.rank()] = receive[group.rank()] = 1;
        return group.all_to_all_v(b, send, b + 4096, receive, DataType::fp32);
      },
      {"all_to_all_v #2", "different counts"});
  // All ranks wait, none sends.
  check_mismatch(
      [](Communicator& group, bool, std::byte* b) {
        std::vector<size_t> send(3, 0), receive(3, 5);
        send[group.rank()] = receive[group.rank()] = 1;
        return group.all_to_all_v(b, send, b + 4096, receive, DataType::fp32);
      },
      {"all_to_all_v #2", "different counts"});
}

// Rank 1 sends more than the others expect, and no rank calls anything afterwards.
void check_too_much(size_t expected, size_t given) {
  const CommunicatorOptions options{.device = shm_device(), .slots = 2, .slot_bytes = 1024};
  check_ranks(3, options, [&](Communicator& group) {
    std::vector<std::byte> in(1 << 16), out(1 << 16);
    std::vector<size_t> send(3, group.rank() == 1 ? given : expected), receive(3, expected);
    send[group.rank()] = receive[group.rank()] = 1;
    const Result<void> done =
        group.all_to_all_v(in.data(), send, out.data(), receive, DataType::uint8).wait();
    if (done && expected > 0 && group.rank() != 1) return std::string("half of it was taken");
    for (int i = 0; i < 2000 && !group.failure(); ++i, usleep(1000)) group.progress();
    const std::optional<Failure> failure = group.failure();
    if (!failure) return std::string("the mismatch was not detected");
    const bool right = failure->code == Code::mismatch && failure->sequence == 1 &&
                       contains(failure->text, "different counts");
    return right ? std::string() : failure->text;
  });
}

TEST_CASE(
    "a rank that sends more than expected is a mismatch, also for ranks whose call has ended") {
  check_too_much(0, 5);        // they consume nothing of it
  check_too_much(1024, 2048);  // the first piece is what they expect
  check_too_much(2048, 3072);  // the rest arrives when a slot is free
  check_too_much(1024, 10240);
}

TEST_CASE("different roots are a mismatch, though all ranks wait to receive") {
  const auto body = [](Communicator& group) -> std::string {
    int32_t value = 0;
    const Result<void> done =
        group.broadcast(&value, &value, 1, DataType::int32, 1 - group.rank()).wait();
    if (done) return "it succeeded";
    return done.error().code == Code::mismatch && contains(done.error().message, "root 1")
               ? ""
               : done.error().message;
  };
  check_ranks(2, {.device = shm_device()}, body);
}

TEST_CASE("different sizes of a send and its receive are a mismatch") {
  // Pieces are 1024 bytes: the first ones may be alike.
  struct Sizes {
    size_t sent, received;
  };
  const Sizes all[] = {{32, 16},     {16, 32},     {2048, 1024},
                       {1024, 2048}, {4096, 4097}, {9 * 1024, 1024}};
  for (const Sizes& sizes : all) {
    INFO(sizes.sent << " bytes sent, " << sizes.received << " received");
    const CommunicatorOptions options{.device = shm_device(), .slots = 4, .slot_bytes = 1024};
    check_ranks(2, options, [&](Communicator& group) -> std::string {
      std::vector<uint8_t> data(16 * 1024);
      const Result<void> done = group.rank() == 0
                                    ? group.send(data.data(), sizes.sent, 1).wait()
                                    : group.receive(data.data(), sizes.received, 0).wait();
      if (group.rank() == 0) return "";  // it may be sent before
      if (done) return "it succeeded";
      const bool right = done.error().code == Code::mismatch &&
                         contains(done.error().message, "called exchange with different sizes");
      return right ? "" : done.error().message;
    });
  }
}

TEST_CASE("sends and receives may be distributed over calls differently on both sides") {
  check_ranks(2, {.device = shm_device(), .slots = 4, .slot_bytes = 1024}, [](Communicator& group) {
    std::vector<uint8_t> data(8192, 7), got(8192);
    Result<void> done;
    if (group.rank() == 0) {
      const Transfer both[] = {{.peer = 1, .send = data.data(), .send_bytes = 5000},
                               {.peer = 1, .send = &data[5000], .send_bytes = 3192}};
      done = group.exchange(both).wait();
    } else {
      done = group.receive(got.data(), 5000, 0).wait();
      if (done) done = group.receive(&got[5000], 3192, 0).wait();
      if (done && got != data) return std::string("wrong data");
    }
    if (done) done = group.barrier().wait();
    return done ? std::string() : done.error().message;
  });
}

// Both wait for data that the other would send later.
void check_circle(const std::function<Operation(Communicator&, std::byte*)>& call,
                  const std::vector<std::string>& parts) {
  const CommunicatorOptions options{.device = shm_device(), .limit = Duration::from_s(20)};
  check_ranks(2, options, [&](Communicator& group) -> std::string {
    std::vector<std::byte> data(1 << 20);
    const Result<void> done = call(group, data.data()).wait();
    if (done) return "it succeeded";
    if (done.error().code != Code::mismatch) return done.error().message;
    for (const std::string& part : parts)
      if (!contains(done.error().message, part)) return done.error().message;
    return "";
  });
}

TEST_CASE("two ranks that wait for each other's sends get a mismatch") {
  check_circle([](Communicator& group,
                  std::byte* data) { return group.receive(data, 100, 1 - group.rank()); },
               {"wait in exchange to receive from each other"});
  // One send has been received.
  check_circle(
      [](Communicator& group, std::byte* data) {
        if (group.rank() == 0) (void)group.send(data, 100'000, 1);
        if (group.rank() == 1) (void)group.receive(data, 100'000, 0);
        return group.receive(data, 100'000, 1 - group.rank());
      },
      {"wait in exchange to receive from each other"});
  // No transfer of rank 0 is pending; it waits for rank 1, which waits for it.
  check_circle(
      [](Communicator& group, std::byte* data) {
        if (group.rank() == 0) return group.receive(data, 100, 1);
        return group.broadcast(data, data, 100, DataType::uint8, 0);
      },
      {"rank 1 called broadcast #1", "rank 0 called exchange"});
}

TEST_CASE("ranks that wait for each other's sends in a cycle get a mismatch, threat:A24") {
  for (const uint32_t ranks : {3U, 5U}) {
    const CommunicatorOptions options{.device = shm_device(), .limit = Duration::from_s(20)};
    check_ranks(ranks, options, [&](Communicator& group) -> std::string {
      std::vector<std::byte> data(1 << 17), more(data);
      const uint32_t next = (group.rank() + 1) % ranks, before = (group.rank() + ranks - 1) % ranks;
      // The first round succeeds: all send before they receive.
      const Transfer round[] = {
          {.peer = next, .send = data.data(), .send_bytes = data.size()},
          {.peer = before, .receive = more.data(), .receive_bytes = more.size()}};
      Result<void> done = group.exchange(round).wait();
      if (!done) return done.error().message;
      Operation got = group.receive(more.data(), more.size(), before);
      Operation sent = group.send(data.data(), data.size(), next);
      done = got.wait();
      if (done) return "it succeeded";
      return done.error().code == Code::mismatch &&
                     contains(done.error().message,
                              "wait in exchange to receive from each other") &&
                     contains(done.error().message, "rank 2")
                 ? ""
                 : done.error().message;
    });
  }
}

// A rank that waits for a cycle is not part of it; ranks that wait for one that will send form
// none.
TEST_CASE("a chain of waiting ranks is no cycle") {
  const CommunicatorOptions options{.device = shm_device(), .limit = Duration::from_s(20)};
  check_ranks(4, options, [](Communicator& group) -> std::string {
    std::vector<uint8_t> data(1 << 17, static_cast<uint8_t>(group.rank()));
    // Rank 3 calls late; 0 waits for 1, 1 for 2, 2 for 3, and each sends when it has received.
    if (group.rank() == 3) {
      for (int i = 0; i < 700; ++i, usleep(1000)) group.progress();
    } else if (const Result<void> got =
                   group.receive(data.data(), data.size(), group.rank() + 1).wait();
               !got) {
      return got.error().message;
    }
    if (group.rank() > 0)
      if (const Result<void> sent = group.send(data.data(), data.size(), group.rank() - 1).wait();
          !sent)
        return sent.error().message;
    const Result<void> done = group.barrier().wait();
    if (!done) return done.error().message;
    return data[5] == 3 ? "" : "wrong data";
  });
}

// Over SRD the reduction waits for an advertisement that a receive never sends.
TEST_CASE("a receive that is matched with a reduction is a mismatch") {
  const CommunicatorOptions options{.device = shm_device(), .limit = Duration::from_s(10)};
  check_ranks(2, options, [](Communicator& group) -> std::string {
    std::vector<float> data(32'768);
    const Result<void> done =
        group.rank() == 0
            ? group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32).wait()
            : group.receive(data.data(), 65'536, 0).wait();
    if (done) return "it succeeded";
    return done.error().code == Code::mismatch ? "" : done.error().message;
  });
}

}  // namespace
}  // namespace weft::test
