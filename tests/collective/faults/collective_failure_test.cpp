// SPDX-License-Identifier: BSD-3-Clause
// Failures of groups: a rank is killed, leaves, is late, or revokes. No call hangs, and every
// surviving rank has an error that names the rank and the operation. Killed ranks are separate
// processes.
#include <signal.h>

#include "tests/collective/run/collective_ranks.hpp"

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
    // The last packets of the call before may be lost with the rank.
    if (failure->rank != victim || failure->sequence < 4 || failure->sequence > 5 ||
        failure->collective != Collective::all_reduce)
      return "another failure: " + text;
    if (!contains(text, "PEER_FAILED: rank 2 failed during all_reduce #" +
                            std::to_string(failure->sequence)) ||
        !contains(text, "its process has ended"))
      return text;
    // Later calls fail at once with the same text.
    const Result<void> later = group.barrier().wait();
    return !later && later.error().message == text ? "" : "a later call has another error";
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

// Rank 0 only receives, into memory that it advertised; it revokes after `turns` turns. Ranks that
// still write must receive the abort, not find the memory region closed.
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
  if (done) done = group.barrier().wait();  // a rank that only sends may finish first
  if (done) return "it succeeded";
  const std::optional<Failure> failure = group.failure();
  const bool right = failure && failure->code == Code::bad_state && failure->rank == 0 &&
                     contains(failure->text, "enough");
  return right ? "" : done.error().message;
}

TEST_CASE("peers that write to the memory of a rank that revokes do not report it as failed") {
  for (const std::string& device :
       {shm_device("srd"), std::string("srd+udp:lo"), std::string("srd+udp:lo,fault.loss=0.05")})
    for (int round = 0; round < 20; ++round) {
      INFO(device << ", round " << round);
      check_ranks(3, {.device = device}, [&](Communicator& group) {
        return reduce_until_revoked(group, 20 + 30 * round);
      });
    }
}

TEST_CASE("a rank whose packets are lost counts as failed after the dead peer timeout") {
  check_ranks(2, {.device = "roce+udp:lo,fault.loss=1", .patience = Duration::from_ms(100)},
              [](Communicator& group) -> std::string {
                int32_t value = 1;
                const Result<void> failed =
                    group.all_reduce(&value, &value, 1, DataType::int32).wait();
                const std::string peer = std::to_string(1 - group.rank());
                if (failed) return "it succeeded";
                const std::string& text = failed.error().message;
                // On a busy machine the other rank may have failed and exited before.
                const bool why =
                    contains(text, "retry_exceeded") || contains(text, "its process has ended");
                return failed.error().code == Code::peer_failed && why &&
                               contains(text, "rank " + peer + " failed")
                           ? ""
                           : text;
              });
}

// Its last sends are never acknowledged.
TEST_CASE("leaving after another rank has died is no failure") {
  char dump[] = "/tmp/weft-dump-XXXXXX";
  REQUIRE(mkdtemp(dump) != nullptr);
  for (const std::string& device : {shm_device(), std::string("roce+udp:lo")}) {
    const std::vector<std::string> complaints = run_processes(
        2, {.device = device, .dump = std::string(dump) + "/d"},
        [](Communicator& group, Store&) -> std::string {
          int32_t value = 1;
          for (int i = 0; i < 2; ++i)
            if (Result<void> done = group.all_reduce(&value, &value, 1, DataType::int32).wait();
                !done)
              return done.error().message;
          if (group.rank() == 1) kill(getpid(), SIGKILL);
          usleep(100'000);
          (void)Communicator(std::move(group));  // leaves
          return "";
        });
    CHECK(complaints == std::vector<std::string>{"", "killed by 9"});
  }
  CHECK(std::filesystem::is_empty(dump));
  std::filesystem::remove_all(dump);
}

TEST_CASE("a rank that leaves fails the operations that depend on it") {
  check_ranks(3, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 1;
    if (Result<void> done = group.all_reduce(&value, &value, 1, DataType::int32).wait(); !done)
      return done.error().message;
    if (group.rank() == 1) return value == 3 ? "" : "wrong sum";  // and leaves
    const Result<void> failed = group.all_reduce(&value, &value, 1, DataType::int32).wait();
    if (failed) return "it succeeded without rank 1";
    const bool right = failed.error().code == Code::peer_failed &&
                       contains(failed.error().message, "rank 1 failed during all_reduce #2") &&
                       contains(failed.error().message, "left");
    return right ? "" : failed.error().message;
  });
}

TEST_CASE("the first call after a failure is in the trace, if none was in progress then") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    if (Result<void> done = group.barrier().wait(); !done) return done.error().message;
    // Stays, and calls nothing: a receive could be matched with the barrier before that is
    // canceled.
    if (group.rank() == 1) {
      while (!group.failure()) group.progress();
      return "";
    }
    Operation canceled = group.barrier();  // the last call before, which has failed too
    if (Result<void> asked = canceled.cancel(); !asked) return asked.error().message;
    if (canceled.wait()) return "it succeeded after a cancel";
    group.revoke("the end");
    for (int i = 0; i < 2; ++i)
      if (group.barrier().wait()) return "it succeeded after a revoke";
    const std::string trace = group.trace();
    const bool right = contains(trace, "\"barrier #3\",\"sequence\":3,\"failed\":true") &&
                       !contains(trace, "barrier #4");
    return right ? "" : trace;
  });
}

TEST_CASE(
    "a buffer too small for discovered counts is refused on all ranks, and the group continues") {
  check_ranks(3, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<int32_t> in(30, 7), out(30);
    const std::vector<size_t> send(3, 10);
    std::vector<size_t> received(3);
    const size_t capacity = group.rank() == 2 ? 29 : 30;
    Result<void> done = group
                            .all_to_all_v_discovered(in.data(), send, out.data(), capacity,
                                                     received, DataType::int32)
                            .wait();
    if (done) return "it succeeded";
    if (done.error().code != Code::invalid_argument ||
        !contains(done.error().message, "rank 2 would receive 30 elements, its buffer holds 29"))
      return done.error().message;
    if (received != send) return "the discovered counts are wrong";
    done = group.all_to_all_v_discovered(in.data(), send, out.data(), 30, received, DataType::int32)
               .wait();
    if (!done) return done.error().message;
    return out == in ? "" : "wrong data";
  });
}

TEST_CASE("a rank that does not call makes the others time out with an error that names it") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 0;
    if (group.rank() == 1) {
      usleep(600'000);
      // Rank 0's data has arrived, so this may succeed; the next call cannot.
      Result<void> late = group.all_reduce(&value, &value, 1, DataType::int32).wait();
      if (late) late = group.barrier().wait();
      return !late && late.error().code == Code::timed_out &&
                     contains(late.error().message, "reported by rank 0")
                 ? ""
                 : "it has no error";
    }
    const Result<void> done = group
                                  .all_reduce(&value, &value, 1, DataType::int32, ReduceOp::sum,
                                              {.limit = Duration::from_ms(300)})
                                  .wait();
    if (done) return "it succeeded";
    return done.error().code == Code::timed_out && contains(done.error().message, "rank 1")
               ? ""
               : done.error().message;
  });
}

TEST_CASE("the limit of a call counts from its issue, also while it is queued") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 0;
    if (group.rank() == 1) {
      for (int i = 0; i < 20'000 && !group.failure(); ++i, usleep(1000)) group.progress();
      return group.failure() && contains(group.failure()->text, "reported by rank 0")
                 ? ""
                 : "it has no error";
    }
    // No rank sends that.
    Operation before = group.receive(&value, sizeof value, 1, {.limit = Duration::from_s(6)});
    const Result<void> done = group
                                  .all_reduce(&value, &value, 1, DataType::int32, ReduceOp::sum,
                                              {.limit = Duration::from_ms(300)})
                                  .wait();
    if (done) return "it succeeded";
    const std::string& text = done.error().message;
    return done.error().code == Code::timed_out && contains(text, "all_reduce #1") &&
                   contains(text, "not finished after 300 ms") &&
                   contains(text, "behind exchange, waiting for rank 1") &&
                   group.failure()->sequence == 1
               ? ""
               : text;
  });
}

TEST_CASE("an operation that outlives its communicator has an error") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 0;
    if (group.rank() == 1) {
      for (int i = 0; i < 20'000 && !group.failure(); ++i, usleep(1000)) group.progress();
      return group.failure() && contains(group.failure()->text, "rank 0") ? "" : "it succeeded";
    }
    Operation pending = [&] {
      Communicator dying = std::move(group);
      return dying.receive(&value, sizeof value, 1);
    }();
    const Result<void> done = pending.wait();
    return !done && contains(done.error().message, "destroyed") ? "" : "it is still pending";
  });
}

TEST_CASE("invalid arguments are errors without side effects") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<float> data(16);
    const auto refused = [](Operation operation, const std::string& part) {
      const Result<void> done = operation.wait();
      return !done && contains(done.error().message, part);
    };
    const auto with_itself = [&](const void* from, size_t sent, void* to, size_t received) {
      const Transfer transfer{group.rank(), from, sent, to, received};
      return group.exchange({&transfer, 1});
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
        !refused(group.send(data.data(), 4, 2), "no such peer") ||
        !refused(group.send(data.data(), 4, group.rank()), "receives from itself in the same") ||
        !refused(group.receive(data.data(), 4, group.rank()), "receives from itself in the same") ||
        !refused(with_itself(data.data(), 4, &data[4], 8), "receives 8") ||
        !refused(with_itself(data.data(), 8, &data[1], 8), "overlap"))
      return "something was not refused";
    const std::vector<size_t> counts(2, 4);
    std::vector<size_t> received(2);
    const auto discovered = [&](const void* input, void* output, size_t capacity) {
      return group.all_to_all_v_discovered(input, counts, output, capacity, received,
                                           DataType::fp32);
    };
    // Refused on one rank or both, it counts as no call.
    if (group.rank() == 0 &&
        (!refused(discovered(data.data(), data.data(), 8), "overlap, which it does not support") ||
         !refused(discovered(data.data(), nullptr, 8), "output is null") ||
         !refused(discovered(nullptr, data.data(), 8), "input is null") ||
         !refused(discovered(data.data(), &data[7], 8), "overlap")))
      return "wrong buffers were not refused";
    if (const Result<void> right = discovered(data.data(), &data[8], 8).wait(); !right)
      return right.error().message;
    const Result<void> fine = group.barrier().wait();
    return fine ? "" : fine.error().message;
  });
}

TEST_CASE("invalid options of communicators are refused") {
  const auto store =
      std::move(*Store::open("file:/tmp/weft-invalid-" + std::to_string(getpid()), false));
  CHECK(!Communicator::create(*store, 2, 2, {.device = shm_device()}));
  CHECK(!Communicator::create(*store, 0, 2, {.device = "rocee+udp:lo"}));

  for (const uint32_t slots : {0U, 1U, 1025U}) {
    const Result<Communicator> made = Communicator::create(
        *store, 0, 2,
        {.device = shm_device(), .connect_limit = Duration::from_ms(50), .slots = slots});
    REQUIRE(!made);
    CHECK(contains(made.error().message, "slots: 2 to 1024"));
  }
  const Result<Communicator> alone = Communicator::create(
      *store, 0, 2, {.device = shm_device(), .connect_limit = Duration::from_ms(50)});
  REQUIRE(!alone);
  CHECK(alone.error().code == Code::timed_out);
  CHECK(contains(alone.error().message, "are all processes started?"));
  std::filesystem::remove_all("/tmp/weft-invalid-" + std::to_string(getpid()));
}

}  // namespace
}  // namespace weft::test
