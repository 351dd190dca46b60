// SPDX-License-Identifier: BSD-3-Clause
// What verbs must answer, for fuzz_verbs: which attributes each transition of a queue pair needs
// and takes (the table of ibv_modify_qp(3)), and which objects exist.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/fuzz/input.hpp"

namespace weft::fuzz {

struct Transition {
  bool legal = false;
  int needed = 0, taken = 0;  // attributes besides IBV_QP_STATE
};

inline constexpr int kRcToRtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRcToRts =
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

// To RESET, INIT, RTR, RTS and ERR, from where the manual has a row of its own.
inline Transition transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  const bool is_rc = type == IBV_QPT_RC, is_ud = type == IBV_QPT_UD;
  const int rights = is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
    return {to == IBV_QPS_RESET || from != IBV_QPS_RESET, 0, 0};
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
    return {true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | rights, 0};
  if (from == IBV_QPS_INIT && to == IBV_QPS_INIT)
    return {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | rights};
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
    if (is_ud) return {true, 0, IBV_QP_PKEY_INDEX | rights};
    const int both = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    return {true, is_rc ? kRcToRtr : both, IBV_QP_PKEY_INDEX | rights};
  }
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
    const int more = is_ud ? 0 : IBV_QP_PATH_MIG_STATE;
    return {true, is_rc ? kRcToRts : IBV_QP_SQ_PSN,
            IBV_QP_CUR_STATE | rights | more | (is_rc ? IBV_QP_MIN_RNR_TIMER : 0)};
  }
  return {};
}

// Objects of one kind. What was destroyed stays known, to be destroyed again.
template <class Verbs, class State>
class Objects {
 public:
  struct Row {
    Verbs* verbs;
    State state;
    int users = 0;
  };
  static constexpr size_t kMost = 16;

  bool full() const { return rows_.size() == kMost; }
  Row* any(Input& input) {
    const auto number = input.take<uint8_t>();
    return rows_.empty() ? nullptr : &rows_[number % rows_.size()];
  }
  void add(Verbs* verbs, State state) {
    // The library may use the address of an object that is gone.
    std::erase(gone_, verbs);
    rows_.push_back({verbs, state, 0});
  }
  Row& of(Verbs* verbs) {
    for (Row& row : rows_)
      if (row.verbs == verbs) return row;
    require(false, "an object that does not exist");
    return rows_.front();
  }
  // Destroys one, or one that is gone already. `release` is called for one that is destroyed.
  template <class Destroy, class Release>
  void destroy(Input& input, Destroy destroy, Release release) {
    const auto number = input.take<uint8_t>();
    if (number % 8 == 0 && !gone_.empty()) {
      require(destroy(gone_[number / 8 % gone_.size()]) == EINVAL, "destroyed twice");
      return;
    }
    if (rows_.empty()) return;
    const auto at = rows_.begin() + number % static_cast<int>(rows_.size());
    require(destroy(at->verbs) == (at->users != 0 ? EBUSY : 0), "destruction");
    if (at->users != 0) return;
    release(at->state);
    gone_.push_back(at->verbs);
    rows_.erase(at);
  }
  // All of them, whose users are gone.
  template <class Destroy, class Release>
  void destroy_all(Destroy destroy, Release release) {
    // The newest first: one may use an older one of its kind.
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      require(row->users == 0, "users that the model has lost");
      require(destroy(row->verbs) == 0, "destruction at the end");
      release(row->state);
    }
    rows_.clear();
    gone_.clear();
  }
  // Those of another kind have been made since: their addresses may be used again.
  void forget_gone(const void* address) {
    std::erase_if(gone_, [&](const Verbs* gone) { return gone == address; });
  }

 private:
  std::vector<Row> rows_;
  std::vector<Verbs*> gone_;
};

}  // namespace weft::fuzz
