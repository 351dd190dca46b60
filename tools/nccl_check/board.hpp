// SPDX-License-Identifier: BSD-3-Clause
// Memory that the ranks and the process that started them share: a barrier, the handles that NCCL
// would carry between ranks, and what became of a rule. It stays valid when a rank dies anywhere:
// nothing in it is locked.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "lib/adapters/nccl/abi.hpp"

namespace weft::nccl_check {

inline constexpr int kMaxRanks = 8, kMaxHandles = 32, kMaxFigures = 8;

enum class State : uint32_t { runs, passed, failed, not_applicable };

struct RankRecord {
  std::atomic<State> state{State::runs};
  std::atomic<uint32_t> step{0};   // 1: ready; rises with each rule that has ended
  std::atomic<uint32_t> waits{0};  // begun: that they do not rise any more shows a call that hangs
  char text[512] = {};             // why it failed, or does not apply
  char place[128] = {};            // what the rank does now: named if it hangs or dies there
  std::array<double, kMaxFigures> figures{};
  std::array<std::array<std::byte, nccl::kHandleSize>, kMaxHandles> handles{};
  std::array<std::atomic<uint32_t>, kMaxHandles> published{};
  std::array<std::atomic<uint32_t>, 8> flags{};
};

struct Board {
  std::atomic<uint32_t> allowed{0};  // rules that the ranks may begin
  std::atomic<uint32_t> arrived{0};  // ranks that wait in the barrier
  std::atomic<uint32_t> generation{0};
  std::atomic<uint32_t> stopped{0};  // a rank has failed: the others give up
  std::array<RankRecord, kMaxRanks> ranks;

  // In memory that children share. Null: there is none.
  static Board* create();
  static void destroy(Board* board);
  void write_text(int rank, std::string_view text);
  void write_place(int rank, std::string_view text);
};

}  // namespace weft::nccl_check
