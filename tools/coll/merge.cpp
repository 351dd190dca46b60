// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll merge`: a diagnosis in words, or as JSON.
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
  for (const Party& party : mismatch.parties)
    std::printf("%s %s called %s\n",
                &party == mismatch.parties.data() ? "first mismatch:" : "               ",
                ranks_text(party.ranks).c_str(), party.call.c_str());
  const bool alike =
      std::all_of(mismatch.parties.begin(), mismatch.parties.end(),
                  [&](const Party& p) { return p.call == mismatch.parties[0].call; });
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
  if (d.absence)
    std::printf(
        "not come:       %s: %s in it, %s not called it\n", d.absence->call.c_str(),
        (ranks_text(d.absence->inside) + (d.absence->inside.size() == 1 ? " is" : " are")).c_str(),
        (ranks_text(d.absence->absent) + (d.absence->absent.size() == 1 ? " has" : " have"))
            .c_str());
  for (const std::string& host : d.unknown_clocks)
    std::printf(
        "times:          nothing went both ways between the first host and %s, so its clock "
        "is not known\n",
        host.c_str());
  if (d.late)
    std::printf(
        "late rank:      %s: rank %u called last in %lu of %lu operations, %.1f us behind in "
        "the median of these, %.0f %% of the time of all\n",
        d.late->late ? ("rank " + std::to_string(d.late->rank)).c_str() : "none", d.late->rank,
        static_cast<unsigned long>(d.late->times), static_cast<unsigned long>(d.late->operations),
        us(d.late->median_ns), 100 * d.late->share);
  if (d.link)
    std::printf(
        "slow link:      %s: from rank %u to rank %u the median of %lu pieces (%u bytes) took "
        "%.1f us, on the median of the others %.1f us\n",
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
    for (const Party& party : d.mismatch->parties)
      json["mismatch"]["calls"].push_back({{"call", party.call}, {"ranks", party.ranks}});
  }
  if (d.absence)
    json["absence"] = {{"sequence", d.absence->sequence},
                       {"call", d.absence->call},
                       {"inside", d.absence->inside},
                       {"absent", d.absence->absent}};
  if (d.late)
    json["late"] = {{"rank", d.late->rank},         {"verdict", d.late->late},
                    {"times", d.late->times},       {"operations", d.late->operations},
                    {"total_ns", d.late->total_ns}, {"median_ns", d.late->median_ns},
                    {"share", d.late->share}};
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
