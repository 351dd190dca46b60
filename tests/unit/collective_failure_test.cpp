// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong in groups: a rank is killed, leaves, is late, or calls something else. No call
// hangs, and every rank that is left has an error that says who, in which operation. Ranks that are
// killed are processes of their own.
#include <signal.h>

#include "tests/unit/collective_ranks.hpp"

namespace weft::test {
namespace {

// All-reduces until something fails; rank `victim` is killed in the middle of one.
std::string reduce_until_death(Communicator& group, uint32_t victim, std::string_view algorithm) {
  std::vector<float> data(1 << 20);
  for (int i = 1;; ++i) {
    Operation operation = group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32,
                                           ReduceOp::max, {.algorithm = algorithm});
    if (group.rank() == victim && i == 5) {
      (void)operation.test();
      kill(getpid(), SIGKILL);
    }
    const Result<void> done = operation.wait();
    if (done) continue;
    const std::string text = done.error().message;
    const std::optional<Failure> failure = group.failure();
    if (!failure || failure->code != Code::peer_failed || done.error().code != Code::peer_failed)
      return "another error: " + text;
    if (failure->rank != victim || failure->sequence != 5 ||
        failure->collective != Collective::all_reduce)
      return "another failure: " + text;
    if (!contains(text, "PEER_FAILED: rank 2 failed during all_reduce #5") ||
        !contains(text, "its process has ended"))
      return text;
    // Later calls fail at once and say the same.
    const Result<void> later = group.barrier().wait();
    return !later && later.error().message == text ? "" : "a later call says something else";
  }
}

TEST_CASE("a killed rank fails the operation of every survivor, by name") {
  for (const std::string_view algorithm : {"ring", "direct", "double_tree"})
    for (const std::string& device :
         {shm_device(), shm_device("srd"), std::string("roce+udp:lo"), std::string("srd+udp:lo")}) {
      const std::vector<std::string> complaints = run_processes(
          4, {.device = device},
          [&](Communicator& group, Store&) { return reduce_until_death(group, 2, algorithm); });
      INFO(device << " " << algorithm);
      CHECK(complaints == std::vector<std::string>{"", "", "killed by 9", ""});
    }
}

// Rank 0 only takes, where the others write to by invitation; it gives up in the middle, after
// `turns` of them. Whoever writes on has to hear why, not to find the memory closed.
std::string reduce_until_revoked(Communicator& group, int turns) {
  std::vector<float> data(1 << 20, 1.0F), sum(1 << 20);
  // A fast rank's end may end this rank's barrier too.
  Result<void> done = group.barrier().wait();
  Operation operation = group.reduce(data.data(), sum.data(), data.size(), DataType::fp32,
                                     ReduceOp::sum, 0, {.algorithm = "direct"});
  if (group.rank() == 0) {
    for (int i = 0; i < turns; ++i) (void)operation.test();
    group.revoke("enough");
  }
  done = operation.wait();
  if (done) done = group.barrier().wait();  // who only gives may be done before
  if (done) return "it worked";
  const std::optional<Failure> failure = group.failure();
  const bool right = failure && failure->code == Code::bad_state && failure->rank == 0 &&
                     contains(failure->text, "enough");
  return right ? "" : done.error().message;
}

TEST_CASE("a rank that ends a call is not taken for dead by those who write to its memory") {
  for (const std::string& device :
       {shm_device("srd"), std::string("srd+udp:lo"), std::string("srd+udp:lo,fault.loss=0.05")})
    for (int round = 0; round < 20; ++round) {
      INFO(device << ", round " << round);
      check_ranks(3, {.device = device}, [&](Communicator& group) {
        return reduce_until_revoked(group, 20 + 30 * round);
      });
    }
}

TEST_CASE("a rank whose packets are lost is taken for dead after the patience") {
  check_ranks(2, {.device = "roce+udp:lo,fault.loss=1", .patience = Duration::from_ms(100)},
              [](Communicator& group) -> std::string {
                int32_t value = 1;
                const Result<void> failed =
                    group.all_reduce(&value, &value, 1, DataType::int32).wait();
                const std::string peer = std::to_string(1 - group.rank());
                if (failed) return "it worked";
                const std::string& text = failed.error().message;
                // On a busy machine the other rank may have given up, and ended, before.
                const bool why =
                    contains(text, "retry_exceeded") || contains(text, "its process has ended");
                return failed.error().code == Code::peer_failed && why &&
                               contains(text, "rank " + peer + " failed")
                           ? ""
                           : text;
              });
}

TEST_CASE("a rank that leaves fails the operations that need it") {
  check_ranks(3, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 1;
    if (Result<void> done = group.all_reduce(&value, &value, 1, DataType::int32).wait(); !done)
      return done.error().message;
    if (group.rank() == 1) return value == 3 ? "" : "wrong sum";  // and leaves
    const Result<void> failed = group.all_reduce(&value, &value, 1, DataType::int32).wait();
    if (failed) return "it worked without rank 1";
    const bool right = failed.error().code == Code::peer_failed &&
                       contains(failed.error().message, "rank 1 failed during all_reduce #2") &&
                       contains(failed.error().message, "left");
    return right ? "" : failed.error().message;
  });
}

// One rank of three calls something else than the others.
void check_mismatch(const std::function<Operation(Communicator&, bool odd, std::byte*)>& call,
                    const std::vector<std::string>& parts) {
  check_ranks(3, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    std::vector<std::byte> buffer(1 << 20);
    Result<void> result = group.barrier().wait();
    // A fast rank's failure may end this rank's barrier too.
    if (result) result = call(group, group.rank() == 1, buffer.data()).wait();
    // Who only gives may be done before it can know; the next call tells it.
    if (result) result = group.barrier().wait();
    if (result) return "nobody noticed";
    if (result.error().code != Code::mismatch) return result.error().message;
    for (const std::string& part : parts)
      if (!contains(result.error().message, part)) return result.error().message;
    return "";
  });
}

TEST_CASE("ranks that call different things all hear of it") {
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

TEST_CASE("blocks of different sizes that ranks disagree about are a mismatch, not a wait") {
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        const std::vector<size_t> counts =
            odd ? std::vector<size_t>{10, 30, 20} : std::vector<size_t>{10, 20, 30};
        return group.all_gather_v(b, b + 4096, counts, DataType::fp32);
      },
      {"all_gather_v #2 (60 fp32", "different counts"});
  // The odd one gives nothing, the others wait for something.
  check_mismatch(
      [](Communicator& group, bool odd, std::byte* b) {
        const size_t given = odd ? 0 : 5;
        std::vector<size_t> send(3, given), receive(3, 5);
        send[group.rank()] = receive[group.rank()] = 1;
        return group.all_to_all_v(b, send, b + 4096, receive, DataType::fp32);
      },
      {"all_to_all_v #2", "different counts"});
  // Everybody waits, nobody gives.
  check_mismatch(
      [](Communicator& group, bool, std::byte* b) {
        std::vector<size_t> send(3, 0), receive(3, 5);
        send[group.rank()] = receive[group.rank()] = 1;
        return group.all_to_all_v(b, send, b + 4096, receive, DataType::fp32);
      },
      {"all_to_all_v #2", "different counts"});
}

// Rank 1 gives more than the others expect, and nobody calls anything after it.
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
    if (!failure) return std::string("nobody noticed");
    const bool right = failure->code == Code::mismatch && failure->sequence == 1 &&
                       contains(failure->text, "different counts");
    return right ? std::string() : failure->text;
  });
}

TEST_CASE("a rank that gives more than the others expect is told of, though they are done") {
  check_too_much(0, 5);        // they take nothing of it
  check_too_much(1024, 2048);  // the first piece is what they expect
  check_too_much(2048, 3072);  // the rest comes when there is a slot for it
  check_too_much(1024, 10240);
}

TEST_CASE("a buffer too small for discovered counts is refused on all ranks, which go on") {
  check_ranks(3, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<int32_t> in(30, 7), out(30);
    const std::vector<size_t> send(3, 10);
    std::vector<size_t> received(3);
    const size_t capacity = group.rank() == 2 ? 29 : 30;
    Result<void> done = group
                            .all_to_all_v_discovered(in.data(), send, out.data(), capacity,
                                                     received, DataType::int32)
                            .wait();
    if (done) return "it worked";
    if (done.error().code != Code::invalid_argument ||
        !contains(done.error().message, "rank 2 would receive 30 elements, its buffer holds 29"))
      return done.error().message;
    if (received != send) return "the counts are not told";
    done = group.all_to_all_v_discovered(in.data(), send, out.data(), 30, received, DataType::int32)
               .wait();
    if (!done) return done.error().message;
    return out == in ? "" : "wrong data";
  });
}

TEST_CASE("ranks that wait for each other's data because of different roots hear of it") {
  const auto body = [](Communicator& group) -> std::string {
    int32_t value = 0;
    const Result<void> done =
        group.broadcast(&value, &value, 1, DataType::int32, 1 - group.rank()).wait();
    if (done) return "it worked";
    return done.error().code == Code::mismatch && contains(done.error().message, "root 1")
               ? ""
               : done.error().message;
  };
  check_ranks(2, {.device = shm_device()}, body);
}

TEST_CASE("sizes of sends and receives that differ are a mismatch") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    uint8_t data[32] = {};
    const Result<void> done =
        group.rank() == 0 ? group.send(data, 32, 1).wait() : group.receive(data, 16, 0).wait();
    if (group.rank() == 0) return "";  // it was sent
    return !done && done.error().code == Code::mismatch ? "" : "it worked";
  });
}

// Over SRD the reduction waits for an invitation that a receive never sends.
TEST_CASE("a receive that meets a reduction is a mismatch") {
  const CommunicatorOptions options{.device = shm_device(), .limit = Duration::from_s(10)};
  check_ranks(2, options, [](Communicator& group) -> std::string {
    std::vector<float> data(32'768);
    const Result<void> done =
        group.rank() == 0
            ? group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32).wait()
            : group.receive(data.data(), 65'536, 0).wait();
    if (done) return "it worked";
    return done.error().code == Code::mismatch ? "" : done.error().message;
  });
}

TEST_CASE("a rank that does not come makes the others time out, and say for whom they waited") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 0;
    if (group.rank() == 1) {
      usleep(600'000);
      // Rank 0's contribution is here, so this may succeed; what follows cannot.
      Result<void> late = group.all_reduce(&value, &value, 1, DataType::int32).wait();
      if (late) late = group.barrier().wait();
      return !late && late.error().code == Code::timed_out &&
                     contains(late.error().message, "reported by rank 0")
                 ? ""
                 : "it did not hear of the failure";
    }
    const Result<void> done = group
                                  .all_reduce(&value, &value, 1, DataType::int32, ReduceOp::sum,
                                              {.limit = Duration::from_ms(300)})
                                  .wait();
    if (done) return "it worked";
    return done.error().code == Code::timed_out && contains(done.error().message, "rank 1")
               ? ""
               : done.error().message;
  });
}

TEST_CASE("an operation outlives its communicator, and says so") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 0;
    if (group.rank() == 1) {
      const Result<void> failed =
          group.receive(&value, sizeof value, 0, {.limit = Duration::from_s(20)}).wait();
      return !failed && contains(failed.error().message, "rank 0") ? "" : "it worked";
    }
    Operation pending = [&] {
      Communicator dying = std::move(group);
      return dying.receive(&value, sizeof value, 1);
    }();
    const Result<void> done = pending.wait();
    return !done && contains(done.error().message, "destroyed") ? "" : "it is still pending";
  });
}

TEST_CASE("wrong arguments are told, and harm nothing") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<float> data(16);
    const auto refused = [](Operation operation, const std::string& part) {
      const Result<void> done = operation.wait();
      return !done && contains(done.error().message, part);
    };
    if (!refused(group.all_reduce(nullptr, data.data(), 4, DataType::fp32), "input is null") ||
        !refused(group.all_reduce(data.data(), nullptr, 4, DataType::fp32), "output is null") ||
        !refused(group.all_reduce(data.data(), &data[1], 4, DataType::fp32), "overlap") ||
        !refused(group.broadcast(data.data(), data.data(), 4, DataType::fp32, 2), "root 2") ||
        !refused(group.all_reduce(data.data(), data.data(), 4, DataType::fp32, ReduceOp::sum,
                                  {.algorithm = "rign"}),
                 "ring") ||
        !refused(
            group.all_gather_v(data.data(), data.data(), std::vector<size_t>{1}, DataType::fp32),
            "one entry for each rank") ||
        !refused(group.all_to_all_v(data.data(), std::vector<size_t>{4, 4}, data.data(),
                                    std::vector<size_t>{4, 4}, DataType::fp32),
                 "overlap, which it does not support") ||
        !refused(group.all_to_all_v(data.data(), std::vector<size_t>{SIZE_MAX / 8, SIZE_MAX / 2},
                                    &data[8], std::vector<size_t>{SIZE_MAX / 8, SIZE_MAX / 8},
                                    DataType::fp32),
                 group.rank() == 0 ? "too large" : "different counts with itself") ||
        !refused(group.send(data.data(), 4, group.rank()), "no such peer"))
      return "something was not refused";
    const Result<void> fine = group.barrier().wait();
    return fine ? "" : fine.error().message;
  });
}

TEST_CASE("communicators are not made from nonsense") {
  const auto store =
      std::move(*Store::open("file:/tmp/weft-nonsense-" + std::to_string(getpid()), false));
  CHECK(!Communicator::create(*store, 2, 2, {.device = shm_device()}));
  CHECK(!Communicator::create(*store, 0, 2, {.device = "rocee+udp:lo"}));

  CHECK(!Communicator::create(*store, 0, 2, {.device = shm_device(), .slots = 1}));
  const Result<Communicator> alone = Communicator::create(
      *store, 0, 2, {.device = shm_device(), .connect_limit = Duration::from_ms(50)});
  REQUIRE(!alone);
  CHECK(alone.error().code == Code::timed_out);
  CHECK(contains(alone.error().message, "are all processes started?"));
  std::filesystem::remove_all("/tmp/weft-nonsense-" + std::to_string(getpid()));
}

}  // namespace
}  // namespace weft::test
