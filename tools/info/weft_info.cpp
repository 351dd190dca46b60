// SPDX-License-Identifier: BSD-3-Clause
// Lists the devices that this machine can open, and the reason for the others: a line per device,
// or with -v all attributes and counters, like ibv_devinfo -v.
// link: perftest
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "lib/crypto/library.hpp"
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
      {"port", a.port, "moves the packets"},
      {"transport",
       a.qp_type == weft::QpType::srd ? "SRD: reliable, connectionless, many paths"
                                      : "InfiniBand verbs over RoCEv2",
       ""},
      {"gid", weft::to_string(a.gid), "address of the device"},
      {"rails", further,
       further.empty() ? "no further addresses (srd: rails=)" : "further addresses"},
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
       a.by_reference ? "large payloads are copied once, from the sender's memory"
                      : "payloads are copied through the port's buffers"},
      {"engines", a.engines, "protocol engines that serve queue pairs in parallel (engines=)"},
      {"paths", a.paths, "UDP source ports over which packets to one peer are sprayed"},
      {"telemetry", a.telemetry,
       a.telemetry ? "INT with peers that also have it"
                   : "hpcc sees its own queue only (telemetry=1)"},
  };
}

// Who on this host can send packets in the name of a peer: docs/security.md, "Same host". A udp
// device that checks senders has counters of that.
Row local_senders(const weft::Device& device) {
  const weft::DeviceAttributes& a = device.attributes();
  const std::vector<weft::Counter> counters = device.counters();
  const bool checked = std::any_of(counters.begin(), counters.end(), [](const weft::Counter& c) {
    return c.name == "udp_rx_foreign_sender";
  });
  if (a.provider == "ibverbs")
    return {"local_senders", "adapter", "the adapter decides who can forge packets of a peer"};
  if (a.port == "shm")
    return {"local_senders", "none",
            "no process of another user can send here; with shm.shared=1 those of yours are one "
            "sender"};
  if (checked)
    return {"local_senders", "user",
            "no process of another user here can forge packets of a peer, except with CAP_NET_RAW"};
  return {"local_senders", "any", "other processes may be able to forge packets of a peer"};
}

// Whether packets are encrypted and authenticated: docs/security.md, "Protected data". A device
// that does it has counters of that.
Row protection(const weft::Device& device) {
  const std::vector<weft::Counter> counters = device.counters();
  const bool protects = std::any_of(counters.begin(), counters.end(), [](const weft::Counter& c) {
    return c.name == "secure_rx_packets";
  });
  if (protects)
    return {"protection", "psk", "packets are encrypted and authenticated under keys of a secret"};
  return {"protection", "none", "packets are clear (secure=psk)"};
}

struct Report {
  weft::DeviceListing listing;
  std::vector<Row> rows;  // empty if open() failed
  std::vector<weft::Counter> counters;
};

Report inspect(weft::DeviceListing listing) {
  Report report;
  if (listing.usable && !listing.disturbs) {
    const weft::Result<weft::Device> device = weft::Device::open(listing.spec);
    if (device) {
      report.rows = rows_of(device->attributes());
      report.rows.push_back(local_senders(*device));
      report.rows.push_back(protection(*device));
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
                listing.disturbs
                    ? ", not verified: opening it would disturb the interface; name it with -d"
                    : "");
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

void print_crypto() {
  const weft::Result<const weft::crypto::Library*> library = weft::crypto::load_library();
  if (library)
    std::printf("%-28s usable, by %s\n", "TLS", std::string((*library)->name).c_str());
  else
    std::printf("%-28s not usable: %s\n", "TLS", library.error().message.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string device;
  bool verbose = false;
  bool json = false;
  CLI::App app(
      "weft_info: lists the devices that this machine can open, and the reason for the others.");
  app.add_option("-d,--ib-dev,--device", device,
                 "Only this device string, with all attributes (default: every device)");
  app.add_flag("-v,--verbose", verbose, "Print all attributes of each usable device");
  app.add_flag("--json", json, "Print JSON");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;

  std::vector<weft::DeviceListing> listings;
  if (device.empty())
    listings = weft::list_devices(weft::LoadModules::yes);
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
  if (!json && device.empty()) print_crypto();
  if (!json && device.empty() && !verbose)
    std::printf("\n-v or -d DEVICE prints the attributes of a device.\n");
  return any ? 0 : 1;
}
