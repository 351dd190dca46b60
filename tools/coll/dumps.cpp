// SPDX-License-Identifier: BSD-3-Clause
// Parses dumps, and estimates the offsets of clocks.
#include "tools/coll/dumps.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace weft::bench {
namespace {

using Json = nlohmann::json;

std::optional<int64_t> time_of(const Json& operation, const char* key) {
  if (!operation.contains(key)) return std::nullopt;
  return operation.at(key).get<int64_t>();
}

Dump parse(const std::string& file, const Json& json) {
  Dump dump{.file = file,
            .communicator = json.at("communicator"),
            .host = json.at("host"),
            .rank = json.at("rank"),
            .ranks = json.at("ranks")};
  if (const Json& failure = json.at("failure"); !failure.is_null())
    dump.failure = {failure.at("code"), failure.at("text"), failure.at("rank")};
  for (const Json& o : json.at("operations"))
    dump.operations.push_back({o.at("sequence"), o.at("call"), o.at("blocks"), o.at("state"),
                               o.at("issued_ns"), time_of(o, "started_ns"),
                               time_of(o, "ended_ns")});
  for (const Json& s : json.at("steps"))
    dump.steps.push_back({s.at(0), s.at(3), s.at(1).get<int>() != 0, s.at(2), s.at(4),
                          s.at(5).get<int64_t>(), s.size() > 6 ? s.at(6).get<uint32_t>() : 2});
  return dump;
}

// Per pair of hosts, the minimum of (received - sent) over all pieces, each on its own host's
// clock.
using MinimumTimes = std::map<std::pair<std::string, std::string>, int64_t>;

MinimumTimes minimum_times(const std::vector<Dump>& dumps) {
  MinimumTimes minimums;
  for (const PieceTransfer& p : piece_transfers(dumps)) {
    if (p.from->host == p.to->host) continue;
    const int64_t took = p.received->time_ns - p.sent_ns;
    const auto [known, added] = minimums.try_emplace({p.from->host, p.to->host}, took);
    if (!added) known->second = std::min(known->second, took);
  }
  return minimums;
}

void shift(Dump& dump, int64_t by_ns) {
  for (DumpedStep& step : dump.steps) step.time_ns += by_ns;
  for (DumpedOperation& operation : dump.operations) {
    operation.issued_ns += by_ns;
    if (operation.started_ns) *operation.started_ns += by_ns;
    if (operation.ended_ns) *operation.ended_ns += by_ns;
  }
}

}  // namespace

std::vector<PieceTransfer> piece_transfers(const std::vector<Dump>& dumps) {
  // Pieces are numbered per traffic class, which has its own queue pairs.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>, PieceTransfer> sent;
  for (const Dump& dump : dumps)
    for (const DumpedStep& step : dump.steps)
      if (step.sent)
        sent[{dump.rank, step.peer, step.traffic_class, step.piece}] = {&dump, nullptr,
                                                                        step.time_ns, nullptr};
  std::vector<PieceTransfer> all;
  for (const Dump& dump : dumps)
    for (const DumpedStep& step : dump.steps) {
      const auto found = sent.find({step.peer, dump.rank, step.traffic_class, step.piece});
      if (step.sent || found == sent.end()) continue;
      all.push_back(found->second);
      all.back().to = &dump;
      all.back().received = &step;
    }
  return all;
}

Result<Dump> read_dump(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return Error{Code::not_found, "cannot read " + file};
  const Json json = Json::parse(stream, nullptr, false);
  const std::string not_a_dump =
      file +
      " is no dump of a communicator: write one with Communicator::dump(), "
      "or with CommunicatorOptions::dump (weft_coll --dump) on a failure";
  try {
    if (!json.is_object() || json.at("weft_collective_dump") != 1)
      return Error{Code::invalid_argument, not_a_dump};
    return parse(file, json);
  } catch (const Json::exception&) {
    return Error{Code::invalid_argument,
                 not_a_dump + " (the file is truncated or from another version)"};
  }
}

std::vector<std::string> align_clocks(std::vector<Dump>& dumps) {
  const MinimumTimes minimums = minimum_times(dumps);
  std::map<std::string, int64_t> shift_of = {{dumps.front().host, 0}};
  std::set<std::string> others;
  for (const Dump& dump : dumps)
    if (dump.host != dumps.front().host) others.insert(dump.host);
  for (bool found = true; found;) {
    found = false;
    for (const std::string& host : others) {
      if (shift_of.count(host) != 0) continue;
      for (const auto& [known, known_shift] : shift_of) {
        const auto forward = minimums.find({known, host}), back = minimums.find({host, known});
        if (forward == minimums.end() || back == minimums.end()) continue;
        shift_of[host] = known_shift - (forward->second - back->second) / 2;
        found = true;
        break;
      }
      if (found) break;
    }
  }
  for (Dump& dump : dumps)
    if (const auto known = shift_of.find(dump.host); known != shift_of.end())
      shift(dump, known->second);
  std::vector<std::string> unknown;
  for (const std::string& host : others)
    if (shift_of.count(host) == 0) unknown.push_back(host);
  return unknown;
}

}  // namespace weft::bench
