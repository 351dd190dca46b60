// SPDX-License-Identifier: BSD-3-Clause
// Snapshots as metrics. The format requires the samples of a family to be adjacent, so each family
// walks over all devices of all processes.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/stat/print.hpp"

namespace weft::stat {

namespace {

std::string escaped(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// Labels of an object: those of the device, then `keys` of it.
std::string labels(const Json& snapshot, const Json& device, const Json& object,
                   std::initializer_list<const char*> keys) {
  std::string out = "program=\"" + escaped(snapshot.at("program")) + "\",pid=\"" +
                    escaped(snapshot.at("pid")) + "\",device=\"" + escaped(device.at("device")) +
                    "\",gid=\"" + escaped(device.at("gid")) + "\"";
  for (const char* const key : keys)
    if (object.contains(key))
      out += std::string(",") + key + "=\"" + escaped(object.at(key)) + "\"";
  return out;
}

// What is written so far, and the snapshots that it is about.
struct Page {
  const std::vector<Json>& snapshots;
  std::string text;

  void head(const std::string& family, const char* help, const char* type) {
    text += "# HELP " + family + " " + help + "\n# TYPE " + family + " " + type + "\n";
  }
  void value(const std::string& family, const std::string& labels, const Json& value) {
    if (!value.is_boolean()) (void)value.get<double>();  // throws if a process gives no number
    text += family + "{" + labels + "} " +
            (value.is_boolean() ? (value.get<bool>() ? "1" : "0") : value.dump()) + "\n";
  }
  // Calls visit(snapshot, device) for each device.
  template <class Visit>
  void devices(Visit visit) const {
    for (const Json& snapshot : snapshots)
      for (const Json& device : snapshot.at("devices")) visit(snapshot, device);
  }
};

struct Family {
  const char* key;
  const char* name;
  const char* type;
  const char* help;
};

constexpr Family kOfFlows[] = {
    {"sent_packets", "sent_packets_total", "counter", "Packets sent, without retransmissions"},
    {"acked_packets", "acked_packets_total", "counter", "Packets acknowledged by the peer"},
    {"received_bytes", "received_bytes_total", "counter", "Payload received"},
    {"posted_sends", "posted_sends", "gauge", "Requests posted and not completed"},
    {"posted_recvs", "posted_receives", "gauge", "Receives posted and not completed"},
    {"in_flight_bytes", "in_flight_bytes", "gauge", "Bytes in flight"},
    {"window_bytes", "window_bytes", "gauge", "Congestion window in bytes"},
    {"rate_bps", "rate_bits_per_second", "gauge", "Rate limit of congestion control; 0: none"},
    {"rtt_us", "rtt_microseconds", "gauge", "Round trip; 0: not measured"},
    {"ecn_marks", "ecn_marks_total", "counter", "Packets marked with ECN CE"},
    {"resting_messages", "resting_messages", "gauge",
     "Messages that wait for a receive at the peer (RNR)"},
    {"timeouts_in_a_row", "timeouts_in_a_row", "gauge",
     "Consecutive retransmission timeouts without progress"},
};

void add_families(Page& page, const char* list, const std::string& prefix,
                  std::initializer_list<const char*> keys) {
  for (const Family& family : kOfFlows) {
    const std::string name = prefix + family.name;
    bool any = false;
    page.devices([&](const Json& snapshot, const Json& device) {
      for (const Json& object : device.at(list)) {
        if (!object.contains(family.key)) continue;
        if (!std::exchange(any, true)) page.head(name, family.help, family.type);
        page.value(name, labels(snapshot, device, object, keys), object.at(family.key));
      }
    });
  }
}

void add_paths(Page& page, const char* name, const char* help,
               const std::function<Json(const Json&)>& value) {
  page.head(name, help, "gauge");
  page.devices([&](const Json& snapshot, const Json& device) {
    for (const Json& peer : device.at("peers"))
      for (const Json& path : peer.at("paths"))
        page.value(name,
                   labels(snapshot, device, peer, {"address", "endpoint"}) + ",source_port=\"" +
                       escaped(path.at("source_port")) + "\",source=\"" +
                       escaped(path.at("source")) + "\",destination=\"" +
                       escaped(path.at("destination")) + "\"",
                   value(path));
  });
}

}  // namespace

std::string prometheus(const std::vector<Json>& snapshots) {
  Page page{snapshots, {}};
  page.head("weft_counter_total", "Counters of a device: traffic and drop reasons", "counter");
  page.devices([&](const Json& snapshot, const Json& device) {
    for (const auto& [name, value] : device.at("counters").items())
      page.value("weft_counter_total",
                 labels(snapshot, device, device, {}) + ",name=\"" + escaped(name) + "\"", value);
  });
  page.head("weft_qp_state", "1 for the current state of the queue pair", "gauge");
  page.devices([&](const Json& snapshot, const Json& device) {
    for (const Json& qp : device.at("queue_pairs"))
      page.value("weft_qp_state", labels(snapshot, device, qp, {"number", "type", "state"}), 1);
  });
  add_families(page, "queue_pairs", "weft_qp_", {"number", "type", "peer", "address"});
  add_families(page, "peers", "weft_peer_", {"address", "endpoint"});
  add_paths(page, "weft_path_rtt_microseconds", "Round trip of a path; 0: not measured",
            [](const Json& path) { return path.at("rtt_us"); });
  add_paths(page, "weft_path_good", "1: the path carries data",
            [](const Json& path) { return Json(path.at("health") == "good"); });
  return std::move(page.text);
}

}  // namespace weft::stat
