// SPDX-License-Identifier: BSD-3-Clause
// Compares dumps. Operations are matched by sequence number, pieces by their number between two
// ranks.
#include "tools/coll/diagnose.hpp"

#include <algorithm>
#include <set>

namespace weft::bench {
namespace {

constexpr double kLateShare = 0.2;   // of the total time; a smaller share is noise
constexpr int64_t kSlowTimes = 3;    // times the median of the other links
constexpr int64_t kSlowNs = 20'000;  // and at least this much more

// The lower median.
int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using BySequence = std::map<uint64_t, std::map<uint32_t, const DumpedOperation*>>;

BySequence by_sequence(const std::vector<Dump>& dumps) {
  BySequence all;
  for (const Dump& dump : dumps)
    for (const DumpedOperation& operation : dump.operations)
      if (operation.sequence != 0) all[operation.sequence][dump.rank] = &operation;
  return all;
}

std::optional<Mismatch> find_mismatch(const BySequence& all) {
  for (const auto& [sequence, ranks] : all) {
    std::map<std::pair<std::string, uint64_t>, std::vector<uint32_t>> calls;
    for (const auto& [rank, operation] : ranks)
      calls[{operation->call, operation->blocks}].push_back(rank);
    if (calls.size() < 2) continue;
    Mismatch mismatch{sequence, {}};
    for (const auto& [call, callers] : calls) mismatch.calls.push_back({call.first, callers});
    std::stable_sort(
        mismatch.calls.begin(), mismatch.calls.end(),
        [](const RanksOfCall& a, const RanksOfCall& b) { return a.ranks.size() < b.ranks.size(); });
    return mismatch;
  }
  return std::nullopt;
}

// The first operation that some ranks are in and others have not called. A rank with a later
// operation has called it, even if its ring no longer holds it.
std::optional<MissingCall> find_missing_call(const std::vector<Dump>& dumps,
                                             const BySequence& all) {
  for (const auto& [sequence, ranks] : all) {
    MissingCall missing_call{sequence, ranks.begin()->second->call, {}, {}};
    for (const auto& [rank, operation] : ranks)
      if (operation->state != "done") missing_call.entered.push_back(rank);
    if (missing_call.entered.empty()) continue;
    for (const Dump& dump : dumps) {
      uint64_t last = 0;
      for (const DumpedOperation& operation : dump.operations)
        last = std::max(last, operation.sequence);
      if (last < sequence) missing_call.not_called.push_back(dump.rank);
    }
    if (!missing_call.not_called.empty()) return missing_call;
  }
  return std::nullopt;
}

std::optional<Straggler> find_straggler(const BySequence& all, size_t dumps) {
  struct Sum {
    uint64_t times = 0;
    int64_t total = 0;
    std::vector<int64_t> each;
  };
  std::map<uint32_t, Sum> sums;
  uint64_t operations = 0;
  int64_t time = 0;
  for (const auto& [sequence, ranks] : all) {
    if (ranks.size() < std::max<size_t>(dumps, 2)) continue;
    std::vector<int64_t> issued;
    uint32_t last = ranks.begin()->first;
    int64_t end = 0;
    for (const auto& [rank, operation] : ranks) {
      issued.push_back(operation->issued_ns);
      if (operation->issued_ns > ranks.at(last)->issued_ns) last = rank;
      end = std::max(end, operation->ended_ns.value_or(operation->issued_ns));
    }
    const int64_t behind = ranks.at(last)->issued_ns - median(issued);
    ++operations;
    time += std::max<int64_t>(0, end - *std::min_element(issued.begin(), issued.end()));
    Sum& sum = sums[last];
    ++sum.times;
    sum.total += behind;
    sum.each.push_back(behind);
  }
  if (sums.empty()) return std::nullopt;
  const auto worst = std::max_element(sums.begin(), sums.end(), [](const auto& a, const auto& b) {
    return a.second.total < b.second.total;
  });
  const Sum& sum = worst->second;
  Straggler straggler{worst->first, sum.times, operations, sum.total, median(sum.each)};
  straggler.share = time > 0 ? static_cast<double>(sum.total) / static_cast<double>(time) : 0;
  straggler.late = straggler.share >= kLateShare;
  return straggler;
}

std::optional<SlowLink> find_slow_link(const std::vector<Dump>& dumps) {
  using Name = std::pair<uint32_t, uint32_t>;
  std::map<Name, std::vector<int64_t>> times, sizes;
  std::map<const Dump*, std::map<uint64_t, int64_t>> began;
  for (const Dump& dump : dumps)
    for (const DumpedOperation& operation : dump.operations)
      if (operation.started_ns) began[&dump][operation.sequence] = *operation.started_ns;
  for (const PieceTransfer& p : piece_transfers(dumps)) {
    const auto& started = began[p.to];
    const auto start =
        p.received->sequence != 0 ? started.find(p.received->sequence) : started.end();
    const int64_t from = start == started.end() ? p.sent_ns : std::max(p.sent_ns, start->second);
    const Name link = {p.from->rank, p.to->rank};
    times[link].push_back(std::max<int64_t>(0, p.received->time_ns - from));
    sizes[link].push_back(p.received->bytes);
  }
  if (times.empty()) return std::nullopt;
  std::vector<std::pair<int64_t, Name>> medians;
  for (const auto& [link, piece_transfers] : times)
    medians.push_back({median(piece_transfers), link});
  std::sort(medians.begin(), medians.end());
  const auto& [slowest_ns, slowest] = medians.back();
  SlowLink worst = {slowest.first, slowest.second, times[slowest].size(),
                    static_cast<uint32_t>(median(sizes[slowest])), slowest_ns};
  if (medians.size() > 1) worst.others_ns = medians[(medians.size() - 2) / 2].first;
  worst.slow = medians.size() > 1 && worst.median_ns >= kSlowTimes * worst.others_ns &&
               worst.median_ns - worst.others_ns >= kSlowNs;
  return worst;
}

}  // namespace

Result<Diagnosis> diagnose(std::vector<Dump> dumps) {
  const Dump& first = dumps.front();
  std::set<uint32_t> present;
  for (const Dump& dump : dumps) {
    if (dump.communicator != first.communicator || dump.ranks != first.ranks)
      return Error{Code::invalid_argument,
                   dump.file + " is a dump of communicator '" + dump.communicator + "' of " +
                       std::to_string(dump.ranks) + " ranks, " + first.file + " of '" +
                       first.communicator + "' of " + std::to_string(first.ranks)};
    if (!present.insert(dump.rank).second)
      return Error{Code::invalid_argument, dump.file + ": a second dump of rank " +
                                               std::to_string(dump.rank) + "; pass one per rank"};
  }
  Diagnosis diagnosis{.communicator = first.communicator, .ranks = first.ranks};
  for (uint32_t rank = 0; rank < first.ranks; ++rank)
    if (present.count(rank) == 0) diagnosis.missing.push_back(rank);
  for (const Dump& dump : dumps)
    if (dump.failure) diagnosis.failures.push_back({dump.rank, *dump.failure});
  diagnosis.unknown_clocks = align_clocks(dumps);
  const BySequence all = by_sequence(dumps);
  diagnosis.mismatch = find_mismatch(all);
  diagnosis.missing_call = find_missing_call(dumps, all);
  if (!diagnosis.unknown_clocks.empty()) return diagnosis;  // times are not comparable
  diagnosis.straggler = find_straggler(all, dumps.size());
  diagnosis.link = find_slow_link(dumps);
  return diagnosis;
}

}  // namespace weft::bench
