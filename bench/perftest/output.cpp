// SPDX-License-Identifier: BSD-3-Clause
// Output in the layout of perftest, which scripts parse: the same titles, widths and units, except
// that a MiB is called MiB, not MB.
#include "bench/perftest/output.hpp"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weft::bench {
namespace {

using Json = nlohmann::json;
using ull = unsigned long long;

constexpr double kMiB = 1048576;
constexpr double kGbit = 1e9 / 8;

void print_rule() { std::printf("%s\n", std::string(87, '-').c_str()); }

std::string title(const Options& o) {
  const bool latency = o.measure == Measure::latency;
  std::string text;
  if (o.operation == Operation::send) text = "Send";
  if (o.operation == Operation::write) text = "RDMA_Write";
  if (o.operation == Operation::read) text = "RDMA_Read";
  if (o.operation == Operation::atomic) text = "Atomic";
  if (o.operation == Operation::atomic)
    text += o.atomic == AtomicType::fetch_add ? " FETCH_AND_ADD" : " CMP_AND_SWAP";
  if (o.bidirectional) text += " Bidirectional";
  return text + (latency ? " Latency Test" : " BW Test");
}

void print_side(const char* side, const Gid& gid, QpNum qpn, Psn psn, RKey rkey, uint64_t address) {
  std::printf(" %s address: LID 0000 QPN 0x%04x PSN 0x%06x RKey 0x%06x VAddr 0x%012llx\n", side,
              qpn.value, psn.value, rkey.value, static_cast<ull>(address));
  std::printf(" GID: %s\n", to_string(gid).c_str());
}

double rate(const Options& o, double bytes_per_second) {
  return bytes_per_second / (o.output.gbits ? kGbit : kMiB);
}

std::string connection_type(const Session& s) {
  if (s.options.xrc()) return "XRC";
  std::string text(name(s.options.service.value_or(s.device.attributes().qp_type)));
  for (char& c : text) c = static_cast<char>(c - 'a' + 'A');
  return text;
}

}  // namespace

void print_head(const Session& s) {
  const Options& o = s.options;
  const DeviceAttributes& device = s.device.attributes();
  print_rule();
  std::printf("                    %s\n", title(o).c_str());
  std::printf(" Dual-port       : OFF          Device         : %s\n", device.spec.c_str());
  std::printf(" Number of qps   : %-12u Transport type : IB\n", o.qps);
  std::printf(" Connection type : %-12s Using SRQ      : OFF\n", connection_type(s).c_str());
  std::printf(" TX depth        : %u\n", o.tx_depth);
  if (o.operation == Operation::send) std::printf(" RX depth        : %u\n", o.rx_depth);
  if (o.measure == Measure::bandwidth) {
    std::printf(" Post List       : %u\n", o.post_list);
    if (o.cq_moderation != 0) std::printf(" CQ Moderation   : %u\n", o.cq_moderation);
    if (o.buffers != 1) std::printf(" Buffers         : %u\n", o.buffers);
  }
  std::printf(" Mtu             : %u[B]\n", s.path_mtu);
  std::printf(" Link type       : Ethernet\n");
  if (o.one_sided()) std::printf(" Outstand reads  : %u\n", o.outstanding);
  if (!o.one_sided()) std::printf(" Max inline data : %u[B]\n", s.inline_limit);
  std::printf(" Payload copies  : %s\n",
              device.by_reference ? "large messages pulled once" : "through the port");
  std::printf(" ICRC checked    : %u bits\n", device.integrity_bits);
  std::printf(" Data ex. method : Ethernet\n");
  if (o.validate) std::printf(" Data validation : ON\n");
  print_rule();
  for (const Lane& lane : s.lanes) {
    const QueuePairAttributes a = lane.qp.query();
    print_side(" local", device.gid, lane.qp.number(), a.sq_psn.value_or(Psn{}), s.region.rkey(),
               reinterpret_cast<uintptr_t>(lane.target));
    print_side("remote", s.peer_gid, a.dest_qpn.value_or(QpNum{}), a.rq_psn.value_or(Psn{}),
               s.peer_rkey, lane.peer_target);
  }
  print_rule();
}

void print_titles(const Options& o) {
  if (o.measure == Measure::latency) {
    std::printf(
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
        "t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec] \n");
  } else {
    const char* unit = o.output.gbits ? "Gb/sec" : "MiB/sec";
    std::printf(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]\n", unit,
                unit);
  }
  std::fflush(stdout);
}

void print_result(const Options& o, const SizeResult& r) {
  if (!r.measured) return;
  if (o.measure == Measure::latency) {
    const LatencySummary& l = r.latency;
    std::printf(
        " %-7llu %-10llu     %-7.2f        %-7.2f      %-7.2f          %-7.2f        %-7.2f"
        "            %-7.2f                 %-7.2f\n",
        static_cast<ull>(r.size), static_cast<ull>(l.count), l.min, l.max, l.typical, l.average,
        l.deviation, l.percentile_99, l.percentile_99_9);
  } else {
    const BandwidthSummary& b = r.bandwidth;
    const double average = rate(o, b.average);
    const bool tiny = o.output.gbits && average < 0.1;
    std::printf(tiny ? " %-7llu    %-10llu       %-7.6f           %-7.6f            %-7.6f\n"
                     : " %-7llu    %-10llu       %-7.2f            %-7.2f             %-7.6f\n",
                static_cast<ull>(r.size), static_cast<ull>(b.iterations), rate(o, b.peak), average,
                b.message_rate / 1e6);
  }
  if (r.lost != 0) std::printf("   %llu messages were lost\n", static_cast<ull>(r.lost));
  std::fflush(stdout);
}

void print_foot() { print_rule(); }

void print_counters(const Device& device) {
  for (const Counter& c : device.counters())
    if (c.value != 0)
      std::printf(" %-36.*s %llu\n", static_cast<int>(c.name.size()), c.name.data(),
                  static_cast<ull>(c.value));
}

namespace {

std::vector<PathReport> paths_of(const Session& s) {
  return s.device.paths(s.peer_gid, s.lanes[0].peer_qpn);
}

Json paths_as_json(const Session& s) {
  Json all = Json::array();
  for (const PathReport& path : paths_of(s))
    all.push_back({{"source_port", path.source_port},
                   {"source", to_string(path.source)},
                   {"destination", to_string(path.destination)},
                   {"state", name(path.health)},
                   {"rtt_us", static_cast<double>(path.rtt.ns()) / 1e3},
                   {"sent", path.sent},
                   {"lost", path.lost},
                   {"ecn", path.marked}});
  return all;
}

}  // namespace

void print_paths(const Session& s) {
  const std::vector<PathReport> paths = paths_of(s);
  if (paths.empty()) return;
  std::printf(" path  source port  state     rtt[usec]        sent        lost         ECN\n");
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto same_way = [&](const PathReport& other) {
      return other.source == paths[i].source && other.destination == paths[i].destination;
    };
    if (i == 0 ? !same_way(paths.back()) : !same_way(paths[i - 1]))
      std::printf(" from %s to %s\n", to_string(paths[i].source).c_str(),
                  to_string(paths[i].destination).c_str());
    std::printf(" %4zu  %11u  %-8.*s %10.1f  %10llu  %10llu  %10llu\n", i, paths[i].source_port,
                static_cast<int>(name(paths[i].health).size()), name(paths[i].health).data(),
                static_cast<double>(paths[i].rtt.ns()) / 1e3, static_cast<ull>(paths[i].sent),
                static_cast<ull>(paths[i].lost), static_cast<ull>(paths[i].marked));
  }
  print_rule();
}

Result<void> write_json(const Session& s, const std::vector<SizeResult>& results) {
  const Options& o = s.options;
  Json info;
  info["test"] = title(o);
  info["program"] = program_name(o.operation, o.measure);
  info["Device"] = s.device.attributes().spec;
  info["Number_of_qps"] = o.qps;
  info["Transport_type"] = "IB";
  info["Connection_type"] = connection_type(s);
  info["Link_type"] = "Ethernet";
  info["TX_depth"] = o.tx_depth;
  info["RX_depth"] = o.rx_depth;
  info["Post_List"] = o.post_list;
  info["Mtu"] = s.path_mtu;
  info["Max_inline_data"] = s.inline_limit;
  info["Buffers"] = o.buffers;
  info["Bidirectional"] = o.bidirectional;
  info["by_reference"] = s.device.attributes().by_reference;
  info["BW_unit"] = o.output.gbits ? "Gb/sec" : "MiB/sec";
  Json records = Json::array();
  for (const SizeResult& r : results) {
    if (!r.measured) continue;
    Json record;
    record["MsgSize"] = r.size;
    if (o.measure == Measure::latency) {
      record["n_iterations"] = r.latency.count;
      record["t_min"] = r.latency.min;
      record["t_max"] = r.latency.max;
      record["t_typical"] = r.latency.typical;
      record["t_avg"] = r.latency.average;
      record["t_stdev"] = r.latency.deviation;
      record["percentile_99"] = r.latency.percentile_99;
      record["percentile_99.9"] = r.latency.percentile_99_9;
    } else {
      record["n_iterations"] = r.bandwidth.iterations;
      record["BW_peak"] = rate(o, r.bandwidth.peak);
      record["BW_average"] = rate(o, r.bandwidth.average);
      record["MsgRate"] = r.bandwidth.message_rate / 1e6;
    }
    if (o.unreliable()) record["lost"] = r.lost;
    if (o.validate) {
      record["verified_bytes"] = r.verified_bytes;
      record["mismatched_bytes"] = r.mismatches;
    }
    records.push_back(std::move(record));
  }
  std::ofstream file(o.output.json_file);
  Json all{{"test_info", info}, {"results", records}};
  if (o.output.paths_report) all["paths"] = paths_as_json(s);
  file << all.dump(2) << "\n";
  file.close();
  if (!file) return Error{Code::io_error, "cannot write " + o.output.json_file};
  return {};
}

}  // namespace weft::bench
