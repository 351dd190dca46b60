// SPDX-License-Identifier: BSD-3-Clause
// verify() detects every kind of defect: valid schedules are broken one step at a time.
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

// Rebuilds a program with one step changed, or left out (`change` returns false): then the steps
// that depended on it wait for what it waited for.
template <class Change>
Program changed(const Program& program, size_t at, Change change) {
  Program result;
  result.work = program.work;
  std::vector<uint32_t> inherited;
  bool dropped = false;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Step step = program.steps[i];
    std::vector<uint32_t> dependencies(program.dependencies_of(i).begin(),
                                       program.dependencies_of(i).end());
    if (i == at && !change(step, dependencies)) {
      inherited = dependencies;
      dropped = true;
      continue;
    }
    result.first_dependency.push_back(static_cast<uint32_t>(result.dependencies.size()));
    for (const uint32_t earlier : dependencies) {
      if (dropped && earlier == at)
        result.dependencies.insert(result.dependencies.end(), inherited.begin(), inherited.end());
      else
        result.dependencies.push_back(dropped && earlier > at ? earlier - 1 : earlier);
    }
    result.steps.push_back(step);
  }
  result.first_dependency.push_back(static_cast<uint32_t>(result.dependencies.size()));
  return result;
}

// The error for ring all-reduce of 4 ranks after the change of the first step that `pick` accepts.
template <class Pick, class Change>
std::string broken(Pick pick, Change change) {
  const Shape shape{.ranks = 4, .count = 8, .exact = false};
  std::vector<Program> programs =
      programs_of(**find_algorithm("ring", Collective::all_reduce, 4), shape);
  REQUIRE(verify(shape, programs));
  size_t at = 0;
  while (!pick(programs[1].steps[at])) ++at;
  programs[1] = changed(programs[1], at, change);
  const Result<void> verified = verify(shape, programs);
  return verified ? "" : verified.error().message;
}

TEST_CASE("verify() refuses schedules with one defect, and names it") {
  using Dependencies = std::vector<uint32_t>;
  const auto is = [](StepKind kind) { return [kind](const Step& s) { return s.kind == kind; }; };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto drop = [](Step&, Dependencies&) { return false; };
  has(broken(is(StepKind::put), drop), "differ in the type");  // the next put meets the receive
  has(broken(is(StepKind::receive), drop), "before it is written");
  has(broken(is(StepKind::receive_reduce),
             [](Step& s, Dependencies&) {
               s.kind = StepKind::receive;
               return true;
             }),
      "before all contributions are in");
  has(broken(is(StepKind::put),
             [](Step& s, Dependencies&) {
               s.peer = 3;
               return true;
             }),
      "differ in the type");
  has(broken(is(StepKind::put),
             [](Step& s, Dependencies&) {
               s.source.count -= 1;
               return true;
             }),
      "the peer puts 1");
  has(broken(is(StepKind::finish),
             [](Step&, Dependencies& d) {
               d.clear();
               return true;
             }),
      "without waiting for it");
  has(broken(is(StepKind::finish),
             [](Step& s, Dependencies&) {
               s.kind = StepKind::copy;
               return true;
             }),
      "stores accumulators as elements");
  has(broken(is(StepKind::receive),
             [](Step& s, Dependencies&) {
               s.target.offset += 100;
               return true;
             }),
      "writes out of bounds");
  has(broken(is(StepKind::receive),
             [](Step& s, Dependencies&) {
               s.target.space = Space::input;
               return true;
             }),
      "writes the input");
  has(broken(is(StepKind::receive_reduce),
             [](Step& s, Dependencies&) {
               s.source.offset ^= 2;
               return true;
             }),
      "reduces element");
  has(broken(is(StepKind::receive_reduce),
             [](Step& s, Dependencies&) {
               s.wide = !s.wide;
               return true;
             }),
      "differ in the type");
}

TEST_CASE("verify() finds a contribution that counts twice") {
  const Shape shape{.ranks = 2, .count = 1, .exact = false};
  std::vector<Program> programs;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Builder b(shape, rank);
    b.put(1 - rank, input(0, 1));
    b.receive_reduce(1 - rank, input(0, 1), work(0, 1), Space::input);
    b.reduce(input(0, 1), work(0, 1));
    b.finish(work(0, 1), output(0, 1));
    programs.push_back(b.take_program());
  }
  const Result<void> verified = verify(shape, programs);
  REQUIRE(!verified);
  CHECK(verified.error().message.find("twice") != std::string::npos);
}

// Every rank adds up all contributions for itself.
std::vector<Program> all_for_themselves(const Shape& shape) {
  std::vector<Program> programs;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    Builder b(shape, rank);
    for (uint32_t i = 1; i < shape.ranks; ++i) b.put((rank + i) % shape.ranks, input(0, 1));
    b.copy(input(0, 1), output(0, 1));
    for (uint32_t i = 1; i < shape.ranks; ++i)
      b.receive_reduce((rank + i) % shape.ranks, output(0, 1), output(0, 1), Space::input);
    programs.push_back(b.take_program());
  }
  return programs;
}

TEST_CASE("verify() finds sums that several ranks compute in any order") {
  Shape shape{.ranks = 3, .count = 1, .any_order = true};
  const Result<void> verified = verify(shape, all_for_themselves(shape));
  REQUIRE(!verified);
  CHECK(verified.error().message.find("here and elsewhere in any order") != std::string::npos);
  shape.any_order = false;
  CHECK(verify(shape, all_for_themselves(shape)));
  shape.ranks = 2;  // a + b is b + a
  shape.any_order = true;
  CHECK(verify(shape, all_for_themselves(shape)));
}

TEST_CASE(
    "verify() finds unordered additions that the shape does not allow, or that do not wait for the "
    "first") {
  Shape shape{.collective = Collective::reduce, .ranks = 3, .count = 1, .any_order = true};
  std::vector<Program> programs =
      programs_of(**find_algorithm("direct", Collective::reduce, 3), shape);
  REQUIRE(verify(shape, programs));
  const auto says = [&](const std::string& part) {
    const Result<void> verified = verify(shape, programs);
    return !verified && verified.error().message.find(part) != std::string::npos;
  };
  shape.any_order = false;
  CHECK(says("is out of order"));
  shape.any_order = true;
  const auto free = [](Step&, std::vector<uint32_t>& dependencies) {
    dependencies.clear();
    return true;
  };
  programs[0] = changed(programs[0], 1, free);  // step 0 copies our own
  CHECK(says("touches the memory of step 0 without waiting for it"));
}

TEST_CASE("in any order, additions do not wait for each other, and reads wait for all of them") {
  const Algorithm& direct = **find_algorithm("direct", Collective::reduce_scatter, 4);
  Shape shape{.collective = Collective::reduce_scatter, .ranks = 4, .count = 1, .exact = false};
  const auto waits_for_adds = [&](StepKind kind) {
    const Program program = program_of(direct, shape, 0);
    size_t adds = 0;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      if (program.steps[i].kind != kind) continue;
      for (const uint32_t earlier : program.dependencies_of(i))
        adds += program.steps[earlier].kind == StepKind::receive_reduce;
    }
    return adds;
  };
  CHECK(waits_for_adds(StepKind::receive_reduce) > 0);
  shape.any_order = true;
  CHECK(waits_for_adds(StepKind::receive_reduce) == 0);
  CHECK(waits_for_adds(StepKind::finish) == 3);
}

TEST_CASE("verify() finds a deadlock of two ranks") {
  const Shape shape{.collective = Collective::all_to_all, .ranks = 2, .count = 1, .piece = 0};
  std::vector<Program> programs;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Builder b(shape, rank);
    b.copy(input(rank, 1), output(rank, 1));
    b.receive(1 - rank, output(1 - rank, 1));
    b.next_round();
    b.put(1 - rank, input(1 - rank, 1));
    programs.push_back(b.take_program());
  }
  const Result<void> verified = verify(shape, programs);
  REQUIRE(!verified);
  CHECK(verified.error().message.find("never gets to run") != std::string::npos);
}

}  // namespace
}  // namespace weft::collective
