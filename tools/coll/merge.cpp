// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll merge`: prints the diagnosis as text or JSON.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/coll/diagnose.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::json;

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const uint32_t rank : ranks) text += " " + std::to_string(rank);
  return text;
}

double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

void print_failures(const Diagnosis& d) {
  for (const auto& [rank, failure] : d.failures)
    std::printf("failure:        rank %u: %s\n", rank, failure.text.c_str());
}

void print_mismatch(const Mismatch& mismatch) {
  for (const RanksOfCall& group : mismatch.calls)
    std::printf("%s %s called %s\n",
                &group == mismatch.calls.data() ? "first mismatch:" : "               ",
                ranks_text(group.ranks).c_str(), group.call.c_str());
  const bool alike =
      std::all_of(mismatch.calls.begin(), mismatch.calls.end(),
                  [&](const RanksOfCall& p) { return p.call == mismatch.calls[0].call; });
  if (alike) std::printf("                with different counts\n");
}

void print_text(const Diagnosis& d) {
  std::printf("communicator '%s' of %u ranks%s%s\n", d.communicator.c_str(), d.ranks,
              d.missing.empty() ? "" : "; no dump of ",
              d.missing.empty() ? "" : ranks_text(d.missing).c_str());
  print_failures(d);
  if (d.mismatch)
    print_mismatch(*d.mismatch);
  else
    std::printf("first mismatch: none\n");
  if (d.missing_call)
    std::printf("missing call:   %s: %s in it, %s not called it\n", d.missing_call->call.c_str(),
                (ranks_text(d.missing_call->entered) +
                 (d.missing_call->entered.size() == 1 ? " is" : " are"))
                    .c_str(),
                (ranks_text(d.missing_call->not_called) +
                 (d.missing_call->not_called.size() == 1 ? " has" : " have"))
                    .c_str());
  for (const std::string& host : d.unknown_clocks)
    std::printf(
        "times:          no pieces in both directions between the first host and %s: its clock "
        "offset is unknown, times are not compared\n",
        host.c_str());
  if (d.straggler)
    std::printf(
        "late rank:      %s: rank %u called last in %lu of %lu operations, %.1f us behind the "
        "median rank (median of these), %.0f %% of the time of all operations\n",
        d.straggler->late ? ("rank " + std::to_string(d.straggler->rank)).c_str() : "none",
        d.straggler->rank, static_cast<unsigned long>(d.straggler->times),
        static_cast<unsigned long>(d.straggler->operations), us(d.straggler->median_ns),
        100 * d.straggler->share);
  if (d.link)
    std::printf(
        "slow link:      %s: from rank %u to rank %u the median of %lu pieces (%u bytes) took "
        "%.1f us, the median of the other links is %.1f us\n",
        d.link->slow ? (std::to_string(d.link->from) + " -> " + std::to_string(d.link->to)).c_str()
                     : "none",
        d.link->from, d.link->to, static_cast<unsigned long>(d.link->pieces), d.link->bytes,
        us(d.link->median_ns), us(d.link->others_ns));
}

void print_json(const Diagnosis& d) {
  Json json = {{"communicator", d.communicator},
               {"ranks", d.ranks},
               {"missing", d.missing},
               {"unknown_clocks", d.unknown_clocks},
               {"failures", Json::array()},
               {"mismatch", nullptr},
               {"absence", nullptr},
               {"late", nullptr},
               {"link", nullptr}};
  for (const auto& [rank, failure] : d.failures)
    json["failures"].push_back(
        {{"of", rank}, {"code", failure.code}, {"rank", failure.rank}, {"text", failure.text}});
  if (d.mismatch) {
    json["mismatch"] = {{"sequence", d.mismatch->sequence}, {"calls", Json::array()}};
    for (const RanksOfCall& group : d.mismatch->calls)
      json["mismatch"]["calls"].push_back({{"call", group.call}, {"ranks", group.ranks}});
  }
  if (d.missing_call)
    json["absence"] = {{"sequence", d.missing_call->sequence},
                       {"call", d.missing_call->call},
                       {"inside", d.missing_call->entered},
                       {"absent", d.missing_call->not_called}};
  if (d.straggler)
    json["late"] = {{"rank", d.straggler->rank},         {"verdict", d.straggler->late},
                    {"times", d.straggler->times},       {"operations", d.straggler->operations},
                    {"total_ns", d.straggler->total_ns}, {"median_ns", d.straggler->median_ns},
                    {"share", d.straggler->share}};
  if (d.link)
    json["link"] = {{"from", d.link->from},          {"to", d.link->to},
                    {"verdict", d.link->slow},       {"pieces", d.link->pieces},
                    {"bytes", d.link->bytes},        {"median_ns", d.link->median_ns},
                    {"others_ns", d.link->others_ns}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int merge_dumps(const std::vector<std::string>& files, bool json) {
  std::vector<Dump> dumps;
  for (const std::string& file : files) {
    Result<Dump> dump = read_dump(file);
    if (!dump) {
      std::fprintf(stderr, "%s\n", dump.error().message.c_str());
      return 2;
    }
    dumps.push_back(std::move(*dump));
  }
  const Result<Diagnosis> diagnosis = diagnose(std::move(dumps));
  if (!diagnosis) {
    std::fprintf(stderr, "%s\n", diagnosis.error().message.c_str());
    return 2;
  }
  json ? print_json(*diagnosis) : print_text(*diagnosis);
  return 0;
}

}  // namespace weft::bench
