// SPDX-License-Identifier: BSD-3-Clause
// Rates: the difference of two looks at the same process.
#include "tools/stat/print.hpp"

namespace weft::stat {

namespace {

// The object of `list` whose members `keys` are those of `like`; null: it was not there.
const Json* same(const Json& list, const Json& like, std::initializer_list<const char*> keys) {
  for (const Json& each : list) {
    bool equal = true;
    for (const char* const key : keys) equal = equal && each.at(key) == like.at(key);
    if (equal) return &each;
  }
  return nullptr;
}

double per_second(const Json& now, const Json& before, const char* key, double seconds) {
  if (!now.contains(key) || !before.contains(key)) return 0;
  const double more = now.at(key).get<double>() - before.at(key).get<double>();
  return more > 0 ? more / seconds : 0;  // a queue pair that was reset begins anew
}

void add_device_rates(Json& device, const Json& before) {
  const double seconds =
      (device.at("time_us").get<double>() - before.at("time_us").get<double>()) / 1e6;
  if (seconds <= 0) return;
  Json rates = Json::object();
  for (const auto& [name, value] : device.at("counters").items())
    if (const double rate =
            per_second(device.at("counters"), before.at("counters"), name.c_str(), seconds);
        rate > 0)
      rates[name] = rate;
  device["per_second"] = rates;
  const auto add = [&](const char* list, std::initializer_list<const char*> keys) {
    for (Json& each : device.at(list)) {
      const Json* const old = same(before.at(list), each, keys);
      if (old == nullptr || !each.contains("sent_packets")) continue;
      each["sent_per_second"] = per_second(each, *old, "sent_packets", seconds);
      each["acked_per_second"] = per_second(each, *old, "acked_packets", seconds);
    }
  };
  add("queue_pairs", {"number"});
  add("peers", {"address", "endpoint"});
}

}  // namespace

void add_rates(Json& now, const Json& before) {
  for (Json& device : now.at("devices"))
    if (const Json* const old = same(before.at("devices"), device, {"device", "gid"}))
      add_device_rates(device, *old);
}

}  // namespace weft::stat
