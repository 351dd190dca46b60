// SPDX-License-Identifier: BSD-3-Clause
// Every number of a simulation that is not its network or its flows, by a key: net.*, switch.*,
// host.*, path.*, ack.*, metrics.*, and CONTROLLER.PARAMETER. The defaults are those of the
// reference runs (the HPCC authors' simulator; uet-htsim for controllers that spray), so that a
// topology and a flow list alone reproduce them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/result.hpp"

namespace weft::sim::flow {

inline constexpr double kAuto = -1;  // "auto": follows from the network or the controller

// One key: where its value lies, and how to print it.
struct Key {
  std::string_view name;
  std::string_view unit;
  double value;  // the default; kAuto prints as "auto"
  std::string_view what;
  bool may_be_auto = false;
  double least = 0;
  double most = 1e18;
  std::span<const std::string_view> words{};  // the value is one of these; its index is kept
  // Or the path of a shared object, whose number, behind those of the words, this returns.
  Result<size_t> (*load)(const std::string& path) = nullptr;
  std::string (*loaded)(size_t number) = nullptr;  // the text of such a number
};

enum class Net : size_t {
  payload,
  header,
  ack,
  int_bytes,
  int_ack_bytes,
  stamp_bytes,
  digest_bytes,
  ack_class,
  ack_pause,
  fidelity,
  whole_ns,
  base_rtt,
  buffer_mb,
  reserve,
  headroom_factor,
  pfc,
  pause_shift,
  resume,
  pause_bytes,
  pause_at,
  kmin,
  kmax,
  pmax,
  discipline,
  mark_last_hop,
  trim,
  trim_bytes,
  queue,
  int_sent_step,
  int_queue_step,
  int_scale,
  detection,
  class_1,  // and the other data classes behind it
  class_7 = class_1 + 6,
  timeout,
  path_policy,
  path_count,
  nack_penalty,
  ack_every,
  sample,
  queue_until,
  queue_window,
  warm_up,
  count
};

class Parameters {
 public:
  Parameters();
  double operator[](Net key) const noexcept { return values_[static_cast<size_t>(key)]; }
  bool is_auto(Net key) const noexcept { return (*this)[key] == kAuto; }

  // "switch.buffer_mb" "32", "path.policy" "reps", "hpcc.eta" "0.95". Fails with what is wrong and
  // what is valid.
  Result<void> set(std::string_view key, std::string_view value);

  // What was set of one controller's parameters, in order.
  struct ControllerSetting {
    std::string kind;
    std::string parameter;
    double value;
  };
  std::span<const ControllerSetting> controllers() const noexcept { return controllers_; }

  static std::span<const Key> keys() noexcept;
  // A key's value as it is written: "auto", "reps", "32".
  static std::string text(const Key& key, double value);

 private:
  std::vector<double> values_;
  std::vector<ControllerSetting> controllers_;
};

// "2ms", "100us", "1.5s", "100000" (ns) in nanoseconds.
Result<int64_t> parse_time_ns(std::string_view text);
// A number; fails on any other text.
Result<double> parse_number(std::string_view text);

}  // namespace weft::sim::flow
