// SPDX-License-Identifier: BSD-3-Clause
// The table of keys. Each row is in force for every scheme unless it says auto.
#include "lib/sim/scheme/parameters.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "lib/base/module/plugin.hpp"
#include "lib/congestion/path_names.hpp"
#include "lib/congestion/registry.hpp"
#include "lib/sim/fabric/discipline.hpp"

namespace weft::sim::flow {
namespace {

constexpr std::string_view kFidelities[] = {"flow", "engine", "srd"};
constexpr std::string_view kDisciplines[] = {"thresholds"};
constexpr std::string_view kClassWhat =
    "of this data class; 0: strict priority over classes of higher number and of any weight";

Result<size_t> load_path_policy(const std::string& path) {
  const Result<congestion::PathChoice> choice = congestion::find_path_choice(path);
  if (!choice) return choice.error();
  return static_cast<size_t>(*choice);
}
std::string path_policy_name(size_t number) {
  return congestion::path_choice_name(static_cast<congestion::PathChoice>(number));
}

// In the order of Net.
constexpr Key kKeys[] = {
    {"net.payload", "B", kAuto,
     "payload of a full packet; auto: 1000, sprayed 4086, RoCE engines 1024 (theirs is 256, 512, "
     "1024, 2048 or 4096)",
     true, 1, 9000},
    {"net.header", "B", kAuto,
     "data header; auto: 48 (14 link, 20 IP, 8 UDP, 6 sequence and class), sprayed 64, SRD engines "
     "78",
     true, 0, 1000},
    {"net.ack", "B", kAuto, "an acknowledgement; auto: 60, sprayed 64, SRD engines 110", true, 1,
     1000},
    {"net.int_bytes", "B", 42, "telemetry in each data packet, from the source on: hpcc", false, 0,
     1000},
    {"net.int_ack_bytes", "B", 28, "what the echoed telemetry adds to an acknowledgement: hpcc",
     false, 0, 1000},
    {"net.stamp_bytes", "B", 8, "time stamp in each data packet: controllers by delay", false, 0,
     1000},
    {"net.digest_bytes", "B", 2, "digest in each data packet: hpcc-pint", false, 0, 1000},
    {"net.ack_class", "0 or 3", kAuto,
     "class of acknowledgements; 0: strict priority, never paused; 3: in the queue of data; auto: "
     "3, sprayed 0",
     true, 0, 3},
    {"net.ack_pause", "0 or 1", kAuto,
     "a PAUSE of data stops acknowledgements of class 3 at the hosts; auto: 1, 0 for controllers "
     "by delay or without a window",
     true, 0, 1},
    {"host.fidelity", "", 0,
     "hosts are light senders and receivers (flow), run the RoCE engine or, if the controller "
     "sprays, the SRD engine (engine), or the SRD engine whatever the controller (srd)",
     false, 0, 2, kFidelities},
    {"net.floor_ns", "0 or 1", 0,
     "1: serialisation and pacing truncated to whole ns at every hop, as in HPCC's simulator, so "
     "that links carry up to 5 % more than their rate; 0: exact",
     false, 0, 1},
    {"net.base_rtt_ns", "ns", kAuto, "T of the whole network; auto: its largest unloaded RTT", true,
     1},
    {"switch.buffer_mb", "MiB", 32, "shared buffer of a switch", false, 0.01, 1e6},
    {"switch.reserve", "B", 4096, "reserve of each ingress port", false, 0, 1e9},
    {"switch.headroom_factor", "x rate x delay", 3, "headroom of each ingress port", false, 0,
     1000},
    {"switch.pfc", "0 or 1", 1, "PFC; 0: a full buffer drops", false, 0, 1},
    {"switch.pause_shift", "bits", 3,
     "pause above free shared buffer >> this; one less per doubling of the rate above the NICs'",
     false, 0, 31},
    {"switch.resume", "B", 3072, "resume this far below the threshold", false, 0, 1e9},
    {"switch.pause_bytes", "B", 43, "a PFC frame; 0: out of band, no serialisation", false, 0,
     1000},
    {"switch.pause_at", "B", kAuto,
     "fixed pause threshold of an ingress; auto: the dynamic one of switch.pause_shift", true, 1,
     1e9},
    {"switch.kmin", "B per Gb/s", kAuto,
     "no mark below; auto: 4000 (400 KB at 100G), dctcp 3000, sprayed 0.2 BDP in whole packets",
     true, 0, 1e9},
    {"switch.kmax", "B per Gb/s", kAuto,
     "all marked above; auto: 16000, dctcp 3000, sprayed 0.8 BDP in whole packets", true, 0, 1e9},
    {"switch.pmax", "share", kAuto, "marked at kmax; auto: 0.2, dctcp and sprayed 1", true, 0, 1},
    {"switch.discipline", "name", 0,
     "what marks or drops: thresholds (switch.kmin, kmax, pmax), or a shared object, ./mine.so",
     false, 0, 1e6, kDisciplines, fabric::load_discipline, fabric::discipline_name},
    {"switch.mark_last_hop", "0 or 1", kAuto,
     "sprayed: the link to the receiver marks too; auto: 0 with rccc", true, 0, 1},
    {"switch.trim", "0 or 1", 1,
     "sprayed: a packet that does not fit is trimmed to its header; 0: dropped", false, 0, 1},
    {"switch.trim_bytes", "B", 64, "sprayed: a trimmed packet", false, 1, 1000},
    {"switch.queue", "packets", kAuto,
     "sprayed: data queue of a port at NIC rate, in proportion at others; auto: 1 BDP, 5 without "
     "trimming",
     true, 1, 1e6},
    {"switch.int_sent_step", "B", 128, "step of the telemetry's byte counter, times int_scale",
     false, 1, 1e6},
    {"switch.int_queue_step", "B", 80, "step of the telemetry's queue, times int_scale", false, 1,
     1e6},
    {"switch.int_scale", "factor", kAuto, "auto: NIC Gb/s / 25; 0: exact telemetry", true, 0, 1e4},
    {"switch.detection_ns", "ns", 100'000, "until routes avoid a link that failed", false, 0},
    {"class.1", "weight", 0, kClassWhat, false, 0, 1e6},
    {"class.2", "weight", 0, kClassWhat, false, 0, 1e6},
    {"class.3", "weight", 0, kClassWhat, false, 0, 1e6},
    {"class.4", "weight", 0, kClassWhat, false, 0, 1e6},
    {"class.5", "weight", 0, kClassWhat, false, 0, 1e6},
    {"class.6", "weight", 0, kClassWhat, false, 0, 1e6},
    {"class.7", "weight", 0, kClassWhat, false, 0, 1e6},
    {"host.timeout_us", "us", kAuto,
     "RTO, where packets may be dropped; auto: 500, sprayed 15 and six queues at NIC rate", true,
     1},
    {"path.policy", "name", static_cast<double>(congestion::PathChoice::mixed),
     "sprayed: single, oblivious, bitmap, reps, mixed, plb, or a shared object, ./mine.so", false,
     0, 5, congestion::kPathChoiceNames, load_path_policy, path_policy_name},
    {"path.evs", "values", 64, "sprayed: entropy values of a flow, a power of two", false, 1,
     65536},
    {"path.nack_penalty", "turns", 4,
     "sprayed, bitmap and mixed: times that a path is skipped after a packet of it was trimmed",
     false, 0, 15},
    {"ack.bytes", "B", kAuto,
     "sprayed, ACK coalescing: bytes on the wire per acknowledgement; 4000: every packet; auto: "
     "16384, SRD engines every packet",
     true, 1, 1e9},
    {"metrics.sample_ns", "ns", 100, "queue samples of every switch port; 0: none", false, 0},
    {"metrics.queue_until_ns", "ns", kAuto, "end of the queue samples; auto: end of the run", true,
     0},
    {"metrics.queue_window_ns", "ns", 100000, "queue median and maximum per this time", false, 1},
    {"metrics.warm_up_ns", "ns", 0, "slowdowns exclude flows that start earlier", false, 0},
};
static_assert(std::size(kKeys) == static_cast<size_t>(Net::count));

Error invalid(std::string text) { return Error{Code::invalid_argument, std::move(text)}; }

Result<double> parse_word(const Key& key, std::string_view text) {
  const auto found = std::find(key.words.begin(), key.words.end(), text);
  if (found != key.words.end()) return static_cast<double>(found - key.words.begin());
  if (key.load != nullptr && base::is_plugin_path(text)) {
    const Result<size_t> number = key.load(std::string(text));
    if (!number) return number.error();
    return static_cast<double>(*number);
  }
  std::string valid;
  for (const std::string_view word : key.words)
    valid += (valid.empty() ? "" : ", ") + std::string(word);
  if (key.load != nullptr) valid += ", ./mine.so";
  return invalid(std::string(key.name) + " must be one of " + valid + ", not '" +
                 std::string(text) + "'");
}

Result<double> parse_value(const Key& key, std::string_view text) {
  if (!key.words.empty()) return parse_word(key, text);
  if (text == "auto") {
    if (key.may_be_auto) return kAuto;
    return invalid(std::string(key.name) + " cannot be auto");
  }
  Result<double> value = key.name.ends_with("_ns") ? [&]() -> Result<double> {
    Result<int64_t> time = parse_time_ns(text);
    if (!time) return time.error();
    return static_cast<double>(*time);
  }()
      : parse_number(text);
  if (!value) return invalid(std::string(key.name) + ": " + value.error().message);
  if (*value < key.least || *value > key.most) {
    char range[80];
    std::snprintf(range, sizeof range, " must be within %g and %g ", key.least, key.most);
    return invalid(std::string(key.name) + range + std::string(key.unit));
  }
  return value;
}

// A controller's parameter is checked now, and applied when a preset is made.
Result<void> check_controller(std::string_view kind_name, std::string_view parameter) {
  bool with_window = false;
  Result<const congestion::Kind*> kind = congestion::find_kind(kind_name, &with_window);
  if (!kind) return kind.error();
  if (with_window)
    return invalid("parameters belong to '" + std::string((*kind)->name) +
                   "', with and without +win");
  std::string valid;
  for (const congestion::Parameter& p : (*kind)->parameters) {
    if (p.name == parameter) return {};
    valid += (valid.empty() ? "" : ", ") + std::string(p.name);
  }
  return invalid(std::string(kind_name) + " has no parameter '" + std::string(parameter) +
                 "'; it has " + valid);
}

bool is_group(std::string_view name) {
  return name == "net" || name == "switch" || name == "host" || name == "path" || name == "ack" ||
         name == "class" || name == "metrics";
}

}  // namespace

std::span<const Key> Parameters::keys() noexcept { return kKeys; }

std::string Parameters::text(const Key& key, double value) {
  if (key.may_be_auto && value == kAuto) return "auto";
  if (!key.words.empty()) {
    const auto which = static_cast<size_t>(value);
    return which < key.words.size() ? std::string(key.words[which]) : key.loaded(which);
  }
  char number[40];
  std::snprintf(number, sizeof number, "%g", value);
  return number;
}

Parameters::Parameters() {
  for (const Key& key : kKeys) values_.push_back(key.value);
}

Result<void> Parameters::set(std::string_view name, std::string_view text) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos)
    return invalid("'" + std::string(name) +
                   "' is no key; keys look like switch.buffer_mb "
                   "(weft_sim keys lists them)");
  if (!is_group(name.substr(0, dot))) {
    Result<void> known = check_controller(name.substr(0, dot), name.substr(dot + 1));
    if (!known) return known;
    Result<double> value = parse_number(text);
    if (!value) return invalid(std::string(name) + ": " + value.error().message);
    controllers_.push_back(
        {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1)), *value});
    return {};
  }
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    if (kKeys[i].name != name) continue;
    Result<double> value = parse_value(kKeys[i], text);
    if (!value) return value.error();
    values_[i] = *value;
    return {};
  }
  std::string valid;
  for (const Key& key : kKeys)
    if (key.name.starts_with(name.substr(0, dot + 1)))
      valid += (valid.empty() ? "" : ", ") + std::string(key.name);
  return invalid("there is no key '" + std::string(name) + "'; there are " + valid);
}

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return invalid("'" + std::string(text) + "' is not a number");
  return value;
}

Result<int64_t> parse_time_ns(std::string_view text) {
  double scale = 1;
  std::string_view digits = text;
  constexpr struct {
    std::string_view suffix;
    double scale;
  } kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (const auto& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) continue;
    digits = text.substr(0, text.size() - unit.suffix.size());
    scale = unit.scale;
    break;
  }
  Result<double> value = parse_number(digits);
  if (!value || *value < 0 || *value * scale > 9e15)
    return invalid("'" + std::string(text) +
                   "' is no time; write 2ms, 100us, 1.5s or a number "
                   "of ns");
  return std::llround(*value * scale);
}

}  // namespace weft::sim::flow
