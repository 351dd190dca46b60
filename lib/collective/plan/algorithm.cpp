// SPDX-License-Identifier: BSD-3-Clause
// The list of algorithms.
#include "lib/collective/plan/algorithm.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <string>
#include <tuple>

#include "lib/base/check.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

constexpr size_t kMostAlgorithms = 256;  // a row is one byte of a Call

// Rows are only added, and readers take no lock: they see complete rows.
class Rows {
 public:
  Rows() {
    for (const AlgorithmFile file : algorithm_files())
      for (const Algorithm& algorithm : file()) WEFT_CHECK(add(algorithm));
    std::sort(rows_.begin(), rows_.begin() + count_, [](const Algorithm& a, const Algorithm& b) {
      return std::tie(a.collective, a.order, a.name) < std::tie(b.collective, b.order, b.name);
    });
  }

  std::span<const Algorithm> all() const noexcept {
    return {rows_.data(), count_.load(std::memory_order_acquire)};
  }
  bool add(const Algorithm& algorithm) {
    const std::lock_guard lock(mutex_);
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count == kMostAlgorithms) return false;
    rows_[count] = algorithm;
    count_.store(count + 1, std::memory_order_release);
    return true;
  }

 private:
  std::mutex mutex_;
  std::array<Algorithm, kMostAlgorithms> rows_{};
  std::atomic<size_t> count_{0};
};

Rows& rows() {
  static Rows all;
  return all;
}

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective)
      names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  return names;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return rows().all(); }

Result<void> add_algorithm(const Algorithm& algorithm) {
  const auto invalid = [&](const char* text) {
    return Error{Code::invalid_argument,
                 "add_algorithm: '" + std::string(algorithm.name) + "' " + text};
  };
  if (algorithm.name.empty() || (algorithm.emit == nullptr && algorithm.source == nullptr))
    return invalid("has no name or no function");
  for (const Algorithm& row : algorithms())
    if (row.name == algorithm.name && row.collective == algorithm.collective)
      return invalid("is the name of another algorithm for that collective");
  if (!rows().add(algorithm))
    return Error{Code::no_memory, "add_algorithm: there are 256 algorithms"};
  return {};
}

Result<const Algorithm*> find_algorithm(std::string_view wanted, Collective collective,
                                        uint32_t ranks) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || algorithm.name != wanted) continue;
    if (!algorithm.traits.power_of_two || std::has_single_bit(ranks)) return &algorithm;
    return Error{Code::not_supported, std::string(wanted) + " " + std::string(name(collective)) +
                                          " needs a power of two of ranks, there are " +
                                          std::to_string(ranks)};
  }
  return Error{Code::not_found, "no algorithm '" + std::string(wanted) + "' for " +
                                    std::string(name(collective)) +
                                    "; there are: " + names_for(collective)};
}

bool is_candidate(const Algorithm& algorithm, Collective collective, uint32_t ranks) noexcept {
  return algorithm.collective == collective && !algorithm.traits.over_forest &&
         algorithm.source == nullptr &&
         (!algorithm.traits.power_of_two || std::has_single_bit(ranks));
}

uint64_t model_piece(const Algorithm& algorithm, uint64_t count) noexcept {
  constexpr uint64_t kPieces = 64;
  return algorithm.traits.passes_on || algorithm.source != nullptr
             ? std::max<uint64_t>(1, count / kPieces)
             : 0;
}

bool adds_in_rank_order(const Algorithm& algorithm) noexcept {
  if (algorithm.collective == Collective::combine) return !algorithm.traits.by_rack;
  return algorithm.traits.rank_order || !reduces(algorithm.collective);
}

Result<void> fits(const Algorithm& algorithm, const Shape& shape) {
  return algorithm.source != nullptr ? algorithm.source->fits(shape) : Result<void>();
}

Program program_of(const Algorithm& algorithm, const Shape& shape, uint32_t rank) {
  WEFT_DCHECK(rank < shape.ranks);
  if (algorithm.source != nullptr) return algorithm.source->program(shape, rank);
  WEFT_DCHECK(!algorithm.traits.power_of_two || std::has_single_bit(shape.ranks));
  Builder builder(shape, rank);
  algorithm.emit(builder);
  return builder.take_program();
}

std::vector<Program> programs_of(const Algorithm& algorithm, const Shape& shape) {
  std::vector<Program> programs;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank)
    programs.push_back(program_of(algorithm, shape, rank));
  return programs;
}

}  // namespace weft::collective
