// SPDX-License-Identifier: BSD-3-Clause
// The table of profiles and the page about it are one, cell by cell; weft's column is what an
// engine does without a profile; cells that are unknown take it.
#include <fstream>
#include <functional>
#include <sstream>

#include "lib/roce/profiles.hpp"
#include "lib/wire/source_port.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace weft::roce {
namespace {

// A cell of the page; `written`: its value.
template <class T>
std::string text(const Cell<T>& cell, const std::function<std::string(T)>& written) {
  if (cell.source.empty()) {
    CHECK(!cell.value.has_value());
    CHECK(cell.text.empty());
    return "unknown";
  }
  CHECK((cell.value.has_value() || !cell.text.empty()));
  return (cell.text.empty() ? written(*cell.value) : std::string(cell.text)) + " [" +
         std::string(cell.source) + "]";
}

struct Row {
  const char* habit;
  std::function<std::string(const Profile&)> cell;
};

Row choice(const char* habit, Cell<bool> Profile::*member, const char* yes, const char* no) {
  return {habit, [=](const Profile& p) {
            return text<bool>(p.*member, [=](bool value) { return value ? yes : no; });
          }};
}
template <class T>
Row row(const char* habit, Cell<T> Profile::*member, std::function<std::string(T)> written) {
  return {habit, [=](const Profile& p) { return text<T>(p.*member, written); }};
}

std::string port_text(SourcePortRule rule) {
  return rule == SourcePortRule::both_numbers ? "formula of both queue pair numbers"
                                              : "hash of its own number";
}
std::string ecn_text(EcnRule rule) {
  return rule == EcnRule::controlled       ? "ECT(0) with `cc=`, else that of the address vector"
         : rule == EcnRule::address_vector ? "that of the address vector"
                                           : "ECT(1)";
}
std::string timer_text(RetryTimer timer) {
  return timer == RetryTimer::exact     ? "`timeout`"
         : timer == RetryTimer::jiffies ? "`timeout` in whole jiffies, at least one"
                                        : "six short ones, then twice `timeout` of at least 16";
}

std::vector<Row> rows() {
  return {
      choice("MigReq in packets", &Profile::migrated, "1", "0"),
      row<SourcePortRule>("UDP source port without flow label", &Profile::source_port, port_text),
      row<EcnRule>("ECN of data", &Profile::ecn, ecn_text),
      choice("ECN marks", &Profile::answers_marks, "answered by CNPs", "read nowhere"),
      row<uint8_t>("DSCP of CNPs", &Profile::cnp_dscp, [](uint8_t v) { return std::to_string(v); }),
      row<Duration>("time between CNPs", &Profile::cnp_interval,
                    [](Duration v) { return std::to_string(v.us()) + " us"; }),
      row<uint16_t>("acknowledgement requested", &Profile::ack_request_every,
                    [](uint16_t v) { return "each " + std::to_string(v) + " packets"; }),
      choice("end-to-end credits", &Profile::credits, "counted", "31, no limit"),
      choice("next request behind an RNR NAK", &Profile::naks_behind_rnr, "0x60", "no answer"),
      choice("requests behind a gap", &Profile::keeps_early, "kept, the NAK waits",
             "thrown away, the NAK leaves at once"),
      choice("duplicate SEND or WRITE", &Profile::acks_each_duplicate, "each acknowledged",
             "acknowledged once in 4 us"),
      row<uint8_t>("SEND longer than its receive", &Profile::too_long,
                   [](uint8_t v) { return v == 0x61   ? "0x61"
                                          : v == 0x63 ? "0x63"
                                                      : "?"; }),
      row<RetryTimer>("time-out", &Profile::retry_timer, timer_text),
      choice("`retry_cnt` 7", &Profile::retries_for_ever, "no limit", "seven"),
      choice("wait after an RNR NAK", &Profile::rnr_in_jiffies, "whole jiffies, at least one",
             "as the NAK says"),
      choice("end of what was sent", &Profile::probes, "probed after a round trip or two",
             "sent again by the time-out"),
      choice("lost packets of a WRITE", &Profile::selective_repeat,
             "selective repeat with weft, else go-back-N", "go-back-N"),
  };
}

std::string page() {
  std::ifstream file(test::source_root() / "docs/wire-habits.md");
  REQUIRE(file);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

TEST_CASE("the page has the table of profiles") {
  std::string table = "| habit |", line = "| --- |";
  for (const Profile& p : profiles()) {
    table += " " + std::string(p.name) + " |";
    line += " --- |";
  }
  table += "\n" + line + "\n";
  for (const Row& row : rows()) {
    table += "| " + std::string(row.habit) + " |";
    for (const Profile& p : profiles()) table += " " + row.cell(p) + " |";
    table += "\n";
  }
  INFO("docs/wire-habits.md lacks, as lib/roce/profiles.cpp has it:\n" << table);
  CHECK(page().find("\n\n" + table + "\n") != std::string::npos);
}

TEST_CASE("weft's column is what an engine does without a profile") {
  const EngineConfig plain;
  EngineConfig weft;
  weft.habits.migrated = false;
  weft.habits.probes = false;
  weft.cnp_dscp = 1;
  apply(*find_profile("weft"), weft);
  CHECK(weft.habits == plain.habits);
  CHECK(weft.cnp_dscp == plain.cnp_dscp);
  CHECK(weft.cnp_interval == plain.cnp_interval);
  CHECK(weft.credits == plain.credits);
  CHECK(profiles().back().name == "weft");
  CHECK(repeats_selectively(profiles().back()));
}

TEST_CASE("unknown cells take weft's value, and no other device repeats selectively with weft") {
  const EngineConfig plain;
  EngineConfig bnxt;
  apply(*find_profile("bnxt"), bnxt);
  Habits expected = plain.habits;
  expected.ecn = EcnRule::always_ect1;
  CHECK(bnxt.habits == expected);
  CHECK(bnxt.cnp_interval == plain.cnp_interval);
  for (const Profile& p : profiles()) CHECK(repeats_selectively(p) == (p.name == "weft"));
  CHECK(find_profile("mlx5") == nullptr);
}

TEST_CASE("the source port of both numbers is the same in both directions") {
  // Computed by hand: 0x11 * 0x12 = 0x132 has no upper bits; (0x132 & 0x3FFF) ^ (0x132 >> 14).
  CHECK(wire::source_port_of_numbers(0x11, 0x12) == (0xC000 | 0x132));
  // 0xABCDEF * 0x123456 = 0xC379A59BA4A; folded by 20 and by 40 bits its low 20 are 0xAC3E3.
  CHECK(wire::source_port_of_numbers(0xABCDEF, 0x123456) == 0xC3C8);
  CHECK(wire::source_port_of_numbers(0x123456, 0xABCDEF) ==
        wire::source_port_of_numbers(0xABCDEF, 0x123456));
}

TEST_CASE("time-outs of the three kinds") {
  CHECK(retry_delay(RetryTimer::exact, 0, 0) == Duration{});
  CHECK(retry_delay(RetryTimer::jiffies, 0, 0) == Duration{});
  CHECK(retry_delay(RetryTimer::short_first, 0, 9) == Duration{});
  CHECK(retry_delay(RetryTimer::exact, 31, 3).ps == 4'096'000ll << 31);
  CHECK(retry_delay(RetryTimer::jiffies, 1, 0) == kJiffy);
  CHECK(retry_delay(RetryTimer::jiffies, 14, 0) == kJiffy * 16);
  CHECK(retry_delay(RetryTimer::short_first, 8, 5) == Duration::from_us(201'000));
  CHECK(retry_delay(RetryTimer::short_first, 8, 6).ps == 2 * (4'096'000ll << 16));
  CHECK(retry_delay(RetryTimer::short_first, 20, 255).ps == 2 * (4'096'000ll << 20));
}

}  // namespace
}  // namespace weft::roce
