// SPDX-License-Identifier: BSD-3-Clause
// lib/congestion/registry: names, the suffix +win, parameters and what is said about bad ones.
#include <set>

#include "lib/congestion/registry.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

const Conditions kRegistryNetwork{.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)};

TEST_CASE("every controller has a preset with and without a window, and starts at line rate") {
  std::set<std::string_view> names;
  for (const Kind* kind : kinds()) {
    INFO(std::string(kind->name));
    CHECK(names.insert(kind->name).second);
    REQUIRE(kind->parameters.size() <= kMaxParameters);
    REQUIRE(!kind->parameters.empty());
    CHECK(kind->parameters[kMinRate].name == "min_rate_mbps");
    for (const std::string suffix : {"", "+win"}) {
      Result<Preset> preset = make_preset(std::string(kind->name) + suffix, kRegistryNetwork);
      REQUIRE(preset);
      CHECK(preset->windowed == (kind->windowed || !suffix.empty()));
      Controller controller;
      controller.start(*preset);
      CHECK(controller.rate() == 100e9);
      // 12,240 ns at 100 Gb/s.
      // swift and mswift have a window of their own, nscc and smartt one of 1.5 BDP.
      const bool bounded = preset->windowed || kind->name.ends_with("swift");
      const bool wider =
          !preset->windowed && (kind->name.starts_with("nscc") || kind->name == "smartt");
      CHECK(controller.window() == (wider ? 229500 : bounded ? 153000 : kNoWindow));
    }
  }
  CHECK(names.count("hpcc") == 1);
}

TEST_CASE("the window's base is the network's rate, not the flow's") {
  Conditions slow = kRegistryNetwork;
  slow.line = Rate::from_gbps(25);
  slow.network = Rate::from_gbps(100);
  Result<Preset> preset = make_preset("none+win", slow);
  REQUIRE(preset);
  CHECK(preset->window_bytes == 153000);
  CHECK(preset->line_rate == 25e9);
}

TEST_CASE("the default least rate leaves a slow line something to control") {
  const Conditions slow{.line = Rate{100'000'000}, .rtt = Duration::from_us(100), .network = {}};
  CHECK(make_preset("hpcc", slow)->min_rate == 10e6);
  CHECK(make_preset("hpcc", kRegistryNetwork)->min_rate == 1e9);
  const Setting least[] = {{"min_rate_mbps", 50}};
  CHECK(make_preset("hpcc", slow, least)->min_rate == 50e6);
}

TEST_CASE("settings replace defaults, bad ones say what is valid") {
  const Setting eta[] = {{"eta", 0.99}};
  Result<Preset> preset = make_preset("hpcc", kRegistryNetwork, eta);
  REQUIRE(preset);
  CHECK((*preset)[1] == 0.99);

  const Setting unknown[] = {{"etta", 0.99}};
  Result<Preset> bad = make_preset("hpcc", kRegistryNetwork, unknown);
  REQUIRE(!bad);
  CHECK(bad.error().message.find("'etta'") != std::string::npos);
  CHECK(bad.error().message.find("max_stage") != std::string::npos);

  const Setting negative[] = {{"eta", -1}};
  CHECK(!make_preset("hpcc", kRegistryNetwork, negative));

  Result<Preset> missing = make_preset("dcqcn", kRegistryNetwork);
  REQUIRE(!missing);
  CHECK(missing.error().message.find("dcqcn-paper") != std::string::npos);
  CHECK(!make_preset("hpcc", {}));
}

// A source can be looked up: it has a section of a paper or specification, or the symbol of a
// program, and the kind names its paper in full. What has none is marked and says why.
TEST_CASE("every default says where it is from") {
  for (const Kind* kind : kinds()) {
    if (kind->name == "own-halver") continue;  // of this file
    INFO(kind->name);
    CHECK((!kind->paper.empty() || kind->name == "none"));
    for (const Parameter& p : kind->parameters) {
      INFO(p.name << ": " << p.source);
      if (p.source == kNoSource) {
        CHECK(!p.differs.empty());
        continue;
      }
      const size_t section = p.source.find(" section ");
      const size_t symbol = p.source.find(", ");
      CHECK(std::min(section, symbol) != std::string_view::npos);
      CHECK(!p.unit.empty());
    }
  }
}

// Halves at each acknowledgement that says of a mark.
void halve(State& state, const Preset&, const Ack& ack) {
  if (ack.marked != 0) state.decision.rate /= 2;
}
constexpr Parameter kOwnParameters[] = {{"min_rate_mbps", "Mb/s", 1000, "test"},
                                        {"nothing", "", 1, "test"}};
constexpr Kind kOwn = {
    .name = "own-halver", .what = "test", .parameters = kOwnParameters, .on_ack = halve};

TEST_CASE("a user's controller goes by its name, within the bounds of its preset") {
  Kind wrong = kOwn;
  wrong.name = "Own";
  CHECK(add_controller(wrong).error().message.find("is no name") != std::string::npos);
  wrong.name = "hpcc";
  CHECK(add_controller(wrong).error().message.find("is taken") != std::string::npos);
  wrong.name = "other";
  wrong.parameters = {};
  CHECK(add_controller(wrong).error().message.find("min_rate_mbps") != std::string::npos);
  const size_t before = kinds().size();
  REQUIRE(add_controller(kOwn));
  CHECK(kinds().size() == before + 1);
  CHECK(!add_controller(kOwn));
  const Setting settings[] = {{"nothing", 7}};
  const Result<Preset> preset = make_preset("own-halver+win", kRegistryNetwork, settings);
  REQUIRE(preset);
  CHECK((*preset)[1] == 7);
  Controller controller;
  controller.start(*preset);
  CHECK(controller.rate() == 100e9);
  for (int i = 0; i < 20; ++i) controller.on_ack(*preset, {.marked = 1});
  CHECK(controller.rate() == 1e9);
  CHECK(controller.window() < 2000);
}

}  // namespace
}  // namespace weft::congestion
