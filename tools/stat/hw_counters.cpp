// SPDX-License-Identifier: BSD-3-Clause
// The table of names (hw_counters.hpp).
#include "tools/stat/hw_counters.hpp"

#include <utility>

namespace weft::stat {

namespace {

// (rxe's name, weft's name)
constexpr std::pair<const char*, const char*> kNames[] = {
    {"sent_pkts", "tx_packets"},
    {"rcvd_pkts", "rx_packets"},
    {"duplicate_request", "rx_duplicates"},
    {"out_of_seq_request", "rx_out_of_sequence"},
    {"rcvd_rnr_err", "rx_rnr_naks"},
    {"send_rnr_err", "tx_rnr_naks"},
    {"rcvd_seq_err", "rx_naks"},
    {"retry_exceeded_err", "retry_exceeded"},
    {"retry_rnr_exceeded_err", "rnr_exceeded"},
    {"completer_retry_err", "tx_rewinds"}};

}  // namespace

void add_hw_counters(Json& snapshot) {
  for (Json& device : snapshot.at("devices")) {
    const Json& ours = device.at("counters");
    if (!ours.contains("tx_packets")) continue;  // a device with a kernel driver
    Json named = Json::object();
    for (const auto& [theirs, name] : kNames)
      if (ours.contains(name)) named[theirs] = ours.at(name);
    named["ack_deferred"] = 0;
    device["hw_counters"] = std::move(named);
  }
}

}  // namespace weft::stat
