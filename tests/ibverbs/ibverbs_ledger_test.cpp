// SPDX-License-Identifier: BSD-3-Clause
// The ledger of an iWARP queue pair: what completes is crossed out, the rest comes back flushed,
// and completions that the device repeats, or of no request, are reported once.
#include <vector>

#include "providers/ibverbs/queue/ledger.hpp"
#include "tests/support/catch.hpp"

namespace weft::ibverbs {
namespace {

constexpr Outstanding kSilent{1, WorkType::write, true};

std::vector<uint64_t> rest_of(Ledger& ledger) {
  Flushed flushed(-1);
  ledger.flush_sends(flushed);
  ledger.flush_receives(flushed);
  std::vector<uint64_t> ids;
  Completion c;
  while (flushed.take({&c, 1}) == 1) {
    CHECK(c.status == Status::flushed);
    CHECK(c.qp == QpNum{7});
    ids.push_back(c.id);
  }
  return ids;
}

TEST_CASE("outstanding requests are flushed in order, once") {
  Ledger ledger(QpNum{7}, 4, 4, false);
  for (uint64_t id = 1; id <= 3; ++id) ledger.note_send({id, WorkType::send, false});
  for (uint64_t id = 11; id <= 12; ++id) ledger.note_receive(id);
  CHECK(ledger.takes(1, false, true));
  CHECK_FALSE(ledger.takes(1, false, true));  // said twice
  CHECK_FALSE(ledger.takes(1, true, true));   // of no receive
  CHECK(ledger.takes(11, true, false));
  CHECK(rest_of(ledger) == std::vector<uint64_t>{2, 3, 12});
  CHECK(rest_of(ledger).empty());
  CHECK_FALSE(ledger.takes(2, false, false));  // the device comes late
}

TEST_CASE("a completion may come before those of earlier requests") {
  Ledger ledger(QpNum{7}, 4, 4, false);
  ledger.note_send({1, WorkType::read, false});
  ledger.note_send({2, WorkType::write, false});
  ledger.note_send({3, WorkType::write, false});
  CHECK(ledger.takes(2, false, true));
  CHECK(rest_of(ledger) == std::vector<uint64_t>{1, 3});
}

TEST_CASE("a request that is not signaled is done with what succeeds behind it, but for READs") {
  Ledger ledger(QpNum{7}, 8, 4, false);
  ledger.note_send(kSilent);
  ledger.note_send({2, WorkType::read, true});
  ledger.note_send({3, WorkType::write, false});
  ledger.note_send({4, WorkType::send, true});
  CHECK_FALSE(ledger.takes(4, false, true));  // no completion of success reports it
  CHECK(ledger.takes(3, false, true));
  CHECK(rest_of(ledger) == std::vector<uint64_t>{2, 4});
  ledger.note_send(kSilent);
  CHECK(ledger.takes(1, false, false));  // but a failure is
  CHECK(rest_of(ledger).empty());
}

TEST_CASE("requests older than the queue is long are complete") {
  Ledger ledger(QpNum{7}, 4, 4, false);
  for (uint64_t id = 0; id < 100; ++id) ledger.note_send({id, WorkType::write, true});
  CHECK(rest_of(ledger) == std::vector<uint64_t>{96, 97, 98, 99});
}

TEST_CASE("signaled requests that are not polled are all kept") {
  Ledger ledger(QpNum{7}, 4, 4, false);
  for (uint64_t id = 0; id < 100; ++id) {
    ledger.note_send({id, WorkType::write, false});
    if (id % 3 == 0) CHECK(ledger.takes(id, false, true));  // wraps before it grows
  }
  const std::vector<uint64_t> rest = rest_of(ledger);
  CHECK(rest.size() == 66);
  CHECK(rest.front() == 1);
  CHECK(rest.back() == 98);
}

TEST_CASE("receives of a shared receive queue are in no ledger, and all complete") {
  Ledger ledger(QpNum{7}, 4, 0, true);
  CHECK(ledger.takes(5, true, true));
  CHECK(ledger.takes(5, true, false));
}

}  // namespace
}  // namespace weft::ibverbs
