// SPDX-License-Identifier: BSD-3-Clause
// Groups made from groups: survivors of a failure, parts of a split, grown groups. Ranks are
// processes.
#include <algorithm>

#include "tests/collective/run/collective_ranks.hpp"
#include "tests/support/namespace.hpp"
#include "tests/support/skip.hpp"

namespace weft::test {
namespace {

// Calls until the failure of another rank is detected; `victim` kills itself instead.
std::string reduce_to_failure(Communicator& group, uint32_t victim) {
  for (int i = 0; i < 1000; ++i) {
    if (group.rank() == victim && i == 3) kill(getpid(), SIGKILL);
    int64_t one = 1, sum = 0;
    if (!group.all_reduce(&one, &sum, 1, DataType::int64).wait()) return "";
    if (sum != group.size()) return "wrong sum";
  }
  return "no rank failed";
}

std::string check_members(Communicator& group, const std::vector<uint32_t>& members,
                          size_t ranks = 0) {
  const std::span<const uint32_t> got = group.members();
  if (std::vector<uint32_t>(got.begin(), got.end()) != members) return "other members";
  int64_t one = 1, sum = 0;
  if (Result<void> done = group.all_reduce(&one, &sum, 1, DataType::int64).wait(); !done)
    return done.error().message;
  const size_t expected = ranks != 0 ? ranks : members.size();
  return sum == static_cast<int64_t>(expected) ? "" : "wrong sum of survivors";
}

// Experts of failed ranks are masked, the others are numbered by their new ranks.
std::string dispatch_to_survivors(Communicator& group) {
  const std::vector<uint32_t> members(group.members().begin(), group.members().end());
  std::vector<int32_t> experts;  // one for each rank of the first group
  for (uint32_t old = 0; old < 4; ++old) {
    const auto found = std::find(members.begin(), members.end(), old);
    experts.push_back(found == members.end() ? -1 : static_cast<int32_t>(found - members.begin()));
  }
  const std::vector<float> weights(4, 1.0F), token = {1.0F};
  std::vector<float> inbox(group.size()), back(1);
  Routing routing;
  Operation there = group.dispatch({.tokens = token.data(),
                                    .count = 1,
                                    .width = 1,
                                    .type = DataType::fp32,
                                    .experts = experts,
                                    .choices = 4,
                                    .capacity = group.size(),
                                    .output = inbox.data()},
                                   routing);
  Operation home = group.combine({.input = inbox.data(),
                                  .width = 1,
                                  .type = DataType::fp32,
                                  .weights = weights,
                                  .output = back.data()},
                                 routing);
  if (Result<void> done = home.wait(); !done) return done.error().message;
  return back[0] == static_cast<float>(group.size()) ? "" : "a wrong sum of the experts left";
}

TEST_CASE("survivors shrink twice and continue, and dispatch without the failed ranks") {
  for (const std::string& device : {shm_device(), std::string("roce+udp:lo")})
    for (const uint32_t victim : {0U, 2U}) {
      const auto body = [&](Communicator& group, Store& store) -> std::string {
        if (std::string wrong = reduce_to_failure(group, victim); !wrong.empty()) return wrong;
        Result<Communicator> left = group.shrink(store);
        if (!left) return left.error().message;
        const std::vector<uint32_t> survivors =
            victim == 0 ? std::vector<uint32_t>{1, 2, 3} : std::vector<uint32_t>{0, 1, 3};
        if (std::string wrong = check_members(*left, survivors); !wrong.empty()) return wrong;
        if (std::string wrong = dispatch_to_survivors(*left); !wrong.empty()) return wrong;
        // Rank 1 of the survivors dies too.
        if (std::string wrong = reduce_to_failure(*left, 1); !wrong.empty()) return wrong;
        Result<Communicator> fewer = left->shrink(store);
        return fewer ? check_members(*fewer, {0, 2}) : fewer.error().message;
      };
      const std::vector<std::string> complaints = run_processes(4, {.device = device}, body);
      INFO(device << ", rank " << victim << " dies first");
      const std::string killed = "killed by 9";
      CHECK(complaints == (victim == 0 ? std::vector<std::string>{killed, "", killed, ""}
                                       : std::vector<std::string>{"", killed, killed, ""}));
    }
}

TEST_CASE("a rank that calls shrink too late is excluded, with an error") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    int64_t value = 1;
    const bool slow = group.rank() == 1;
    if (slow) usleep(1'500'000);
    (void)group
        .receive(&value, sizeof value, (group.rank() + 1) % 3, {.limit = Duration::from_ms(50)})
        .wait();  // no rank sends: the communicator fails, and all processes live
    Result<Communicator> left = group.shrink(store, Duration::from_ms(400));
    if (slow)
      return !left && contains(left.error().message, "without rank 1") ? "" : "it became a member";
    return left ? check_members(*left, {0, 2}) : left.error().message;
  };
  CHECK(run_processes(3, {.device = shm_device()}, body) == std::vector<std::string>{"", "", ""});
}

// Fails the communicator though all processes live: receives without sends.
void end_group(Communicator& group) {
  int64_t value = 1;
  (void)group
      .receive(&value, sizeof value, (group.rank() + 1) % group.size(),
               {.limit = Duration::from_ms(50)})
      .wait();
}

TEST_CASE("the lowest rank may be the one that does not call shrink") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    end_group(group);
    if (group.rank() == 0) {
      (void)store.get("all done", Duration::from_s(30));  // alive, and busy with other things
      return "";
    }
    Result<Communicator> left = group.shrink(store, Duration::from_ms(400));
    const std::string wrong = left ? check_members(*left, {1, 2}) : left.error().message;
    (void)store.set("done " + std::to_string(group.rank()), "");
    for (const char* other : {"done 1", "done 2"}) (void)store.get(other, Duration::from_s(10));
    (void)store.set("all done", "");
    return wrong;
  };
  CHECK(run_processes(3, {.device = shm_device()}, body) == std::vector<std::string>(3));
}

TEST_CASE("a rank that was silent and lives shrinks with the others") {
  // Rank 0 is stopped until its links fail; its process lives.
  const auto body = [](Communicator& group, Store& store) -> std::string {
    if (group.rank() == 0) {
      (void)store.set("pid", std::to_string(getpid()));
      kill(getpid(), SIGSTOP);
    }
    const pid_t stopped = std::stoi(*store.get("pid", Duration::from_s(10)));
    const Result<void> failed = group.barrier().wait();
    const bool broke = !failed && failed.error().code == Code::peer_failed;
    if (group.rank() == 1) kill(stopped, SIGCONT);
    if (!broke) return "no link broke";
    Result<Communicator> left = group.shrink(store);
    return left ? check_members(*left, {0, 1, 2}) : left.error().message;
  };
  const CommunicatorOptions options{.device = shm_device(), .patience = Duration::from_ms(200)};
  CHECK(run_processes(3, options, body) == std::vector<std::string>(3));
}

// A store in which the first write of a key that contains `part` fails.
class LameStore : public Store {
 public:
  LameStore(Store& store, std::string part) : store_(store), part_(std::move(part)) {}
  Result<void> set(std::string_view key, std::string_view value) override {
    if (!failed_ && contains(std::string(key), part_)) {
      failed_ = true;
      return Error{Code::io_error, "the store has failed"};
    }
    return store_.set(key, value);
  }
  Result<std::string> get(std::string_view key, Duration limit) override {
    return store_.get(key, limit);
  }

 private:
  Store& store_;
  std::string part_;
  bool failed_ = false;
};

TEST_CASE("a rank whose shrink failed joins the others when it calls again") {
  // Fails when it publishes its presence, and when it publishes its address.
  for (const char* part : {"/1/1", "/group/1"}) {
    const auto body = [part](Communicator& group, Store& store) -> std::string {
      end_group(group);
      LameStore lame(store, group.rank() == 1 ? part : "no such key");
      Result<Communicator> left = group.shrink(lame, Duration::from_ms(1500));
      if (!left && contains(left.error().message, "the store has failed"))
        left = group.shrink(lame, Duration::from_ms(1500));
      return left ? check_members(*left, {0, 1, 2}) : left.error().message;
    };
    INFO(part);
    CHECK(run_processes(3, {.device = shm_device()}, body) == std::vector<std::string>(3));
  }
}

TEST_CASE("a group shrinks many times in a row") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    Communicator now = std::move(group);
    for (int round = 1; round <= 16; ++round) {
      now.revoke();
      Result<Communicator> next = now.shrink(store);
      if (!next) return "round " + std::to_string(round) + ": " + next.error().message;
      if (std::string wrong = check_members(*next, {0, 1}); !wrong.empty()) return wrong;
      now = std::move(*next);
    }
    return "";
  };
  CHECK(run_processes(2, {.device = shm_device()}, body) == std::vector<std::string>(2));
}

TEST_CASE("a name that is used in the store is refused, with a remedy in the message") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    Result<Communicator> again =
        Communicator::create(store, group.rank(), 2, {.device = shm_device()});
    if (again) return "it was made twice";
    const std::string& text = again.error().message;
    if (again.error().code != Code::invalid_argument || !contains(text, "the name '0' is used") ||
        !contains(text, "CommunicatorOptions::name"))
      return text;
    again = Communicator::create(store, group.rank(), 2, {.device = shm_device(), .name = "1"});
    return again ? "" : again.error().message;
  };
  CHECK(run_processes(2, {.device = shm_device()}, body) == std::vector<std::string>(2));
}

TEST_CASE("a group grows by new ranks") {
  const std::string device = shm_device();
  const auto body = [&](Communicator& group, Store& store) -> std::string {
    // Ranks 0 and 1 make a group, which ranks 2 and 3 then join.
    const auto told = [](Result<Communicator> made) -> std::string {
      return made ? check_members(*made, {}, 4) : made.error().message;
    };
    if (group.rank() >= 2)
      return told(
          Communicator::create(store, group.rank(), 4, {.device = device, .name = "grown"}));
    Result<Communicator> small =
        Communicator::create(store, group.rank(), 2, {.device = device, .name = "small"});
    if (!small) return small.error().message;
    if (small->grow(store, 1, "less")) return "it grew to less";
    if (std::string wrong = told(small->grow(store, 4, "grown")); !wrong.empty()) return wrong;
    return check_members(*small, {}, 2);
  };
  CHECK(run_processes(4, {.device = device}, body) == std::vector<std::string>(4));
}

// Every rank has addresses in two networks; the first network is removed. The new rank has the
// other one only.
TEST_CASE("a group that has lost its first rail grows over the remaining one") {
  const Namespace own;
  if (!own) WEFT_SKIP("rails", "a network namespace needs root");
  const auto addresses = [](const std::string& command) {
    std::string all;
    for (const char* const address : {"10.41.0.1", "10.41.0.2"})
      all += "ip addr " + command + " " + address + "/32 dev lo && ";
    return std::system((all + "true").c_str()) == 0;
  };
  REQUIRE(addresses("add"));
  REQUIRE(std::system("ip addr add 10.42.0.1/24 dev lo && ip addr add 10.42.0.2/24 dev lo && "
                      "ip addr add 10.42.0.3/24 dev lo") == 0);
  const auto body = [&](Communicator& group, Store& store) -> std::string {
    const std::string host = std::to_string(group.rank() + 1);
    CommunicatorOptions options{.device = "srd+udp:10.42.0." + host, .name = "grown"};
    if (group.rank() == 2) {
      Result<Communicator> grown = Communicator::create(store, 2, 3, patient(options));
      return grown ? check_members(*grown, {}, 3) : grown.error().message;
    }
    options.device = "srd+udp:10.41.0." + host + ",rails=10.42.0." + host;
    options.name = "small";
    Result<Communicator> small = Communicator::create(store, group.rank(), 2, patient(options));
    if (!small) return small.error().message;
    if (Result<void> met = small->barrier().wait(); !met) return met.error().message;
    if (group.rank() == 0 && !addresses("del")) return "cannot take the addresses";
    Result<Communicator> grown = small->grow(store, 3, "grown");
    return grown ? check_members(*grown, {}, 3) : grown.error().message;
  };
  CHECK(run_processes(3, {.device = shm_device()}, body) == std::vector<std::string>(3));
}

// Rank 0 makes a group while a call of the old one still depends on it; rank 1 waits for that call
// first.
std::string regroup_meanwhile(Communicator& group, uint32_t traffic_class,
                              const std::function<Result<Communicator>()>& regroup) {
  std::vector<float> data(2'000'000, 1.0F);
  Operation sum = group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32,
                                   ReduceOp::max, {.traffic_class = traffic_class});
  if (group.rank() == 1)
    if (Result<void> done = sum.wait(); !done) return done.error().message;
  Result<Communicator> made = regroup();
  if (!made) {
    (void)sum.wait();
    return made.error().message;
  }
  if (Result<void> done = sum.wait(); !done) return done.error().message;
  int64_t one = 1, ranks = 0;
  if (Result<void> done = made->all_reduce(&one, &ranks, 1, DataType::int64).wait(); !done)
    return done.error().message;
  return ranks == made->size() ? "" : "wrong sum";
}

TEST_CASE("grow and split make progress in the old group while they wait for other ranks") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    for (const uint32_t traffic_class : {2U, 3U}) {
      const std::string number = std::to_string(traffic_class);
      std::string wrong = regroup_meanwhile(group, traffic_class,
                                            [&] { return group.grow(store, 2, "grown" + number); });
      if (wrong.empty())
        wrong = regroup_meanwhile(group, traffic_class, [&] { return group.split(store, 0); });
      if (!wrong.empty()) return "class " + number + ": " + wrong;
    }
    return "";
  };
  const CommunicatorOptions options{
      .device = shm_device(), .connect_limit = Duration::from_s(3), .more_classes = {3}};
  CHECK(run_processes(2, options, body) == std::vector<std::string>(2));
}

TEST_CASE(
    "revoke gets all ranks out of their calls, says who and why, and all go on in a new group") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    const char* const text = "rank 1 has revoked the communicator: new model";
    int64_t value = 1;
    if (group.rank() == 1) {
      usleep(20'000);
      group.revoke("new model");
      const Result<void> later = group.barrier().wait();
      if (later || !contains(later.error().message, text)) return "it can still be used";
    } else {
      // Rank 0 waits for a barrier, rank 2 for data that no rank sends.
      const Result<void> ended =
          group.rank() == 0 ? group.barrier().wait() : group.receive(&value, 8, 0).wait();
      if (ended || ended.error().code != Code::bad_state || !contains(ended.error().message, text))
        return ended ? "it succeeded" : ended.error().message;
      if (!group.failure() || group.failure()->rank != 1) return "another rank is named";
    }
    Result<Communicator> left = group.shrink(store);
    return left ? check_members(*left, {0, 1, 2}) : left.error().message;
  };
  CHECK(run_processes(3, {.device = shm_device()}, body) == std::vector<std::string>(3));
}

TEST_CASE("groups split by colour and key, and all groups work concurrently") {
  const auto body = [](Communicator& group, Store& store) -> std::string {
    // Even ranks in reverse order, odd ranks in order.
    const bool odd = group.rank() % 2 == 1;
    Result<Communicator> part = group.split(store, odd, odd ? 0 : -int64_t{group.rank()});
    if (!part) return part.error().message;
    const std::vector<uint32_t> members =
        odd ? std::vector<uint32_t>{1, 3} : std::vector<uint32_t>{4, 2, 0};
    if (std::string wrong = check_members(*part, members); !wrong.empty()) return wrong;
    if (members[part->rank()] != group.rank()) return "another rank";
    Result<Communicator> again = part->split(store, part->rank());  // one rank each
    if (!again || again->size() != 1) return "cannot be alone";
    int64_t one = 1, sum = 0;
    if (Result<void> done = group.all_reduce(&one, &sum, 1, DataType::int64).wait(); !done)
      return done.error().message;
    return sum == 5 ? "" : "the whole group is broken";
  };
  CHECK(run_processes(5, {.device = shm_device()}, body) == std::vector<std::string>(5));
}

}  // namespace
}  // namespace weft::test
