// SPDX-License-Identifier: BSD-3-Clause
// What a look into a device found, as JSON for weft_stat. Written here without a library: it runs
// in the user's process, and writes nothing but flat objects of names and numbers.
#include <cmath>
#include <cstdio>

#include "lib/base/log/json_string.hpp"
#include "lib/verbs/inspection.hpp"

namespace weft::verbs {

namespace {

// One object: commas between members, and its end.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  ~Object() { out_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  std::string& key(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    base::append_json_string(out_, name);
    out_ += ':';
    return out_;
  }
  void add(std::string_view name, std::string_view text) {
    base::append_json_string(key(name), text);
  }
  void add(std::string_view name, uint64_t number) { key(name) += std::to_string(number); }
  void add(std::string_view name, bool flag) { key(name) += flag ? "true" : "false"; }
  void add_us(std::string_view name, Duration time) {
    number(name, static_cast<double>(time.ps) / 1e6);
  }
  void number(std::string_view name, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", std::isfinite(value) ? value : 0.0);
    for (char& c : text)
      if (c == ',') c = '.';  // a locale's comma
    key(name) += text;
  }

 private:
  std::string& out_;
  bool first_ = true;
};

template <class List, class Write>
void append_list(std::string& out, const List& list, Write write) {
  out += '[';
  bool first = true;
  for (const auto& each : list) {
    if (!first) out += ',';
    first = false;
    Object object(out);
    write(object, each);
  }
  out += ']';
}

void write_flow(Object& object, const FlowReport& flow) {
  object.number("rate_bps", flow.rate);
  object.add("window_bytes", flow.window);
  object.add("in_flight_bytes", flow.in_flight);
  object.add_us("rtt_us", flow.rtt);
  object.add("ecn_marks", flow.marks);
}

void write_qp(Object& object, const QpReport& qp) {
  object.add("number", uint64_t{qp.number.value});
  object.add("type", name(qp.type));
  object.add("state", name(qp.state));
  object.add("posted_sends", uint64_t{qp.posted_sends});
  object.add("posted_recvs", uint64_t{qp.posted_recvs});
  if (qp.peer == QpNum{}) return;
  object.add("peer", uint64_t{qp.peer.value});
  object.add("address", to_string(qp.address));
  object.add("mtu", uint64_t{qp.mtu});
  object.add("sent_packets", qp.sent_packets);
  object.add("acked_packets", qp.acked_packets);
  object.add("expected_psn", uint64_t{qp.expected_psn});
  object.add("in_memory", qp.in_memory);
  object.add("received_messages", uint64_t{qp.received});
  object.add("retries_left", uint64_t{qp.retries_left});
  object.add("waits_for_receive", qp.waits_for_receive);
  write_flow(object, qp.flow);
}

void write_path(Object& object, const PathReport& path) {
  object.add("source_port", uint64_t{path.source_port});
  object.add("health", name(path.health));
  object.add_us("rtt_us", path.rtt);
  object.add("sent", path.sent);
  object.add("lost", path.lost);
  object.add("ecn_marks", path.marked);
  object.add("source", to_string(path.source));
  object.add("destination", to_string(path.destination));
}

void write_peer(Object& object, const PeerReport& peer) {
  object.add("address", to_string(peer.address));
  object.add("endpoint", uint64_t{peer.endpoint.value});
  object.add("active", peer.active);
  object.add("sent_packets", peer.sent_packets);
  object.add("acked_packets", peer.acked_packets);
  object.add("received_bytes", peer.received_bytes);
  object.add("resting_messages", uint64_t{peer.resting});
  object.add("in_memory", peer.in_memory);
  object.add("awaited_answers", uint64_t{peer.awaiting});
  object.add("duplicates", uint64_t{peer.duplicates});
  object.add("timeouts_in_a_row", uint64_t{peer.timeouts});
  write_flow(object, peer.flow);
  append_list(object.key("paths"), peer.paths, write_path);
}

void write_event(Object& object, const EventReport& event) {
  object.add_us("ago_us", event.ago);
  object.add("what", event.what);
  object.add("queue_pair", uint64_t{event.qp.value});
  if (event.peer != Gid{}) object.add("peer", to_string(event.peer));
  if (!event.why.empty()) object.add("why", event.why);
}

}  // namespace

void append_json(std::string& out, const DeviceAttributes& attributes, const Inspection& found) {
  Object object(out);
  object.add("device", attributes.spec);
  object.add("provider", attributes.provider);
  object.add("port", attributes.port);
  object.add("gid", to_string(attributes.gid));
  object.add("active_mtu", uint64_t{attributes.active_mtu});
  object.add("engines", uint64_t{attributes.engines});
  object.add("note", found.note);
  object.add_us("time_us", found.at - Instant{});
  {
    Object counters(object.key("counters"));
    for (const Counter& counter : found.counters) counters.add(counter.name, counter.value);
  }
  append_list(object.key("queue_pairs"), found.queue_pairs, write_qp);
  append_list(object.key("peers"), found.peers, write_peer);
  append_list(object.key("events"), found.events, write_event);
}

}  // namespace weft::verbs
