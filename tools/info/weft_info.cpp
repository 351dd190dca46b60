// SPDX-License-Identifier: BSD-3-Clause
// What this machine can open, and why not the rest: a line per device, or with -v all attributes
// and counters, as ibv_devinfo -v gives them.
// link: perftest
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace {

using Json = nlohmann::json;

struct Row {
  std::string name;
  Json value;
  std::string meaning;
};

std::vector<Row> rows_of(const weft::DeviceAttributes& a) {
  const char* integrity = a.integrity_bits == 32   ? "the whole ICRC is checked"
                          : a.integrity_bits == 16 ? "the kernel hides half of what the ICRC covers"
                                                   : "the memory bus is trusted";
  std::string further;
  for (const weft::Gid& gid : a.further_gids)
    further += (further.empty() ? "" : " ") + weft::to_string(gid);
  return {
      {"device", a.spec, "the device string, defaults filled in"},
      {"provider", a.provider, ""},
      {"port", a.port, "what carries the packets"},
      {"transport",
       a.qp_type == weft::QpType::srd ? "SRD: reliable, connectionless, many paths"
                                      : "InfiniBand verbs over RoCEv2",
       ""},
      {"gid", weft::to_string(a.gid), "its address"},
      {"rails", further, further.empty() ? "no further addresses (srd: rails=)" : "its others"},
      {"active_mtu", a.active_mtu, "path MTU that connect() chooses"},
      {"max_mtu", a.max_mtu, ""},
      {"max_msg_sz", a.max_message, "bytes"},
      {"max_qp", a.max_qp, ""},
      {"max_qp_wr", a.max_qp_wr, "requests in one queue"},
      {"max_sge", a.max_sge, "entries of one request"},
      {"max_inline", a.max_inline, "bytes"},
      {"max_cqe", a.max_cqe, ""},
      {"max_rd_atomic", a.max_rd_atomic, "READs and atomics outstanding per queue pair"},
      {"integrity_bits", a.integrity_bits, integrity},
      {"by_reference", a.by_reference,
       a.by_reference ? "large payload is pulled once from the sender's memory"
                      : "payload goes through the port's buffers"},
      {"engines", a.engines, "that serve queue pairs side by side (engines=)"},
      {"paths", a.paths, "UDP source ports that packets to one peer are spread over"},
      {"telemetry", a.telemetry,
       a.telemetry ? "to peers that have it too" : "hpcc sees its own queue only (telemetry=1)"},
  };
}

struct Report {
  weft::DeviceListing listing;
  std::vector<Row> rows;  // empty if it could not be opened
  std::vector<weft::Counter> counters;
};

Report inspect(weft::DeviceListing listing) {
  Report report;
  if (listing.usable && !listing.disturbs) {
    const weft::Result<weft::Device> device = weft::Device::open(listing.spec);
    if (device) {
      report.rows = rows_of(device->attributes());
      report.counters = device->counters();
    } else {
      listing.usable = false;
      listing.reason = device.error().message;
    }
  }
  report.listing = std::move(listing);
  return report;
}

Json to_json(const Report& report) {
  Json j;
  j["device"] = report.listing.spec;
  j["usable"] = report.listing.usable;
  if (!report.listing.usable) j["reason"] = report.listing.reason;
  for (const Row& row : report.rows) j["attributes"][row.name] = row.value;
  for (const weft::Counter& c : report.counters) j["counters"][std::string(c.name)] = c.value;
  return j;
}

void print(const Report& report, bool verbose) {
  const weft::DeviceListing& listing = report.listing;
  if (!listing.usable) {
    std::printf("%-28s not usable: %s\n", listing.spec.c_str(), listing.reason.c_str());
    return;
  }
  if (!verbose || listing.disturbs) {
    std::printf("%-28s usable%s\n", listing.spec.c_str(),
                listing.disturbs ? ", it seems: opened only if -d names it" : "");
    return;
  }
  std::printf("%s\n", listing.spec.c_str());
  for (const Row& row : report.rows) {
    const std::string value =
        row.value.is_string() ? row.value.get<std::string>() : row.value.dump();
    std::printf("    %-20s %-28s %s\n", (row.name + ":").c_str(), value.c_str(),
                row.meaning.c_str());
  }
  std::printf("    counters:            %zu", report.counters.size());
  for (const weft::Counter& c : report.counters)
    if (c.value != 0)
      std::printf(" %.*s=%llu", static_cast<int>(c.name.size()), c.name.data(),
                  static_cast<unsigned long long>(c.value));
  std::printf("\n\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::string device;
  bool verbose = false;
  bool json = false;
  CLI::App app("weft_info: the devices that this machine can open, and why not the others.");
  app.add_option("-d,--ib-dev,--device", device,
                 "Only this device string, with all attributes (default: every device)");
  app.add_flag("-v,--verbose", verbose, "All attributes of each usable device");
  app.add_flag("--json", json, "As JSON");
  CLI11_PARSE(app, argc, argv);

  std::vector<weft::DeviceListing> listings;
  if (device.empty())
    listings = weft::list_devices();
  else
    listings.push_back({device, true, {}, false});
  Json all = Json::array();
  bool any = false;
  for (weft::DeviceListing& listing : listings) {
    const Report report = inspect(std::move(listing));
    any |= report.listing.usable;
    if (json)
      all.push_back(to_json(report));
    else
      print(report, verbose || !device.empty());
  }
  if (json) std::printf("%s\n", all.dump(2).c_str());
  if (!json && device.empty() && !verbose)
    std::printf("\n-v or -d DEVICE shows what a device can do.\n");
  return any ? 0 : 1;
}
