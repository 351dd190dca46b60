// SPDX-License-Identifier: BSD-3-Clause
// Parses perftest's options (options.hpp). An option that does not apply to weft is accepted if it
// cannot change the result, and refused with the reason otherwise.
#include "bench/perftest/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "bench/perftest/command_line.hpp"

namespace weft::bench {
namespace {

constexpr uint64_t kLargest = (uint64_t{1} << 31) - 1;  // of one message
constexpr uint64_t kDatagram = 1024;                    // of UD, unless -s says otherwise

struct Raw {
  uint64_t size = 0;
  bool all = false;
  std::vector<uint64_t> sizes;
  std::string atomic;
  std::string connection;
  uint32_t paths = 0;
  uint32_t service_level = 0;
  std::optional<uint32_t> gid_index, port;
  bool ignored = false;
};

// Default sizes and numbers of messages.
constexpr uint64_t kStream = 65536, kPing = 2, kAtomic = 8;

// perftest's defaults: 5000 for WRITE bandwidth, otherwise 1000.
uint64_t default_iterations(const Options& o) {
  const bool few = o.measure == Measure::latency || o.operation != Operation::write;
  return few ? 1000 : 5000;
}

uint64_t default_size(const Options& o) {
  if (o.operation == Operation::atomic) return kAtomic;
  return o.measure == Measure::latency ? kPing : kStream;
}

void add_traffic_options(CLI::App& app, Options& o, Raw& raw) {
  app.add_option("-s,--size", raw.size, "Message size in bytes; bandwidth over UD: 1024")
      ->check(CLI::Range(1ul, kLargest))
      ->default_str(std::to_string(default_size(o)));
  app.add_flag("-a,--all", raw.all, "Run sizes from 2 to 2^23");
  app.add_option("--sizes", raw.sizes, "Run these sizes, separated by commas (default: -s)")
      ->delimiter(',')
      ->default_str("");
  app.add_option("-n,--iters", o.iterations, "Number of messages (at least 5)")
      ->check(CLI::Range(5ul, 1ul << 40))
      ->default_str(std::to_string(default_iterations(o)));
  app.add_option("-D,--duration", o.duration_s,
                 "Run for this many seconds instead of -n (default: -n)")
      ->check(CLI::Range(0.01, 1e6))
      ->default_str("");
  app.add_option("-q,--qp", o.qps, "Number of queue pairs (bandwidth)")
      ->check(CLI::Range(1, 16384));
  app.add_option("-t,--tx-depth", o.tx_depth, "Depth of the send queue")
      ->check(CLI::Range(1, 65536));
  app.add_option("-r,--rx-depth", o.rx_depth, "Depth of the receive queue (SEND)")
      ->check(CLI::Range(1, 65536));
  app.add_option("-m,--mtu", o.mtu,
                 "Path MTU, a power of two: 256 to 4096, more on shm (default: the port's)")
      ->check(CLI::Range(256, 1 << 20))
      ->default_str("");
  app.add_option("-l,--post_list", o.post_list, "Post requests in lists of this length")
      ->check(CLI::Range(1, 65536));
  app.add_option("-Q,--cq-mod", o.cq_moderation,
                 "One completion per this many requests (default: 100, above 8 KiB 1)")
      ->check(CLI::Range(1, 65536))
      ->default_str("");
  app.add_option("-I,--inline_size", o.inline_size,
                 "Largest message that is sent inline (default: the queue pair's)")
      ->check(CLI::Range(0, 65536))
      ->default_str("");
  app.add_option("-o,--outs", o.outstanding, "Outstanding READs and atomics")
      ->check(CLI::Range(1, 255));
  app.add_option("-A,--atomic_type", raw.atomic, "FETCH_AND_ADD or CMP_AND_SWAP")
      ->check(CLI::IsMember({"FETCH_AND_ADD", "CMP_AND_SWAP"}, CLI::ignore_case))
      ->default_str("FETCH_AND_ADD");
  app.add_option("--buffers", o.buffers, "Cycle through this many buffers (perftest: one)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("-b,--bidirectional", o.bidirectional, "Both sides send (bandwidth)");
}

void add_run_options(CLI::App& app, Options& o, Raw& raw) {
  app.add_option("-d,--ib-dev,--device", o.device,
                 "Device string, like roce+udp:lo or roce+shm:job (default: WEFT_DEVICE, or "
                 "roce+udp:lo)");
  app.add_option("-p,--port", o.meeting.port, "TCP port of the server")
      ->check(CLI::Range(1, 65535));
  app.add_flag("--use-srq", o.use_srq, "Queue pairs share one receive queue (SEND)");
  app.add_flag("-e,--events", o.events, "Sleep on completion events instead of polling");
  app.add_flag("-N,--no_peak-bw", o.output.no_peak,
               "Do not measure the peak (takes no time stamps)");
  app.add_option("-u,--qp-timeout", o.timeout, "Retry timeout: 4.096 us * 2^this")
      ->check(CLI::Range(0, 31));
  app.add_option("--retry_count", o.retry_count, "Retries before the queue pair fails")
      ->check(CLI::Range(0, 7));
  app.add_option("-S,--sl", raw.service_level, "Service level (no effect: Ethernet)")
      ->check(CLI::Range(0, 15));
  app.add_option("-T,--tos", o.traffic_class, "IP traffic class: DSCP * 4 + ECN")
      ->check(CLI::Range(0, 255));
  app.add_option("-c,--connection", raw.connection,
                 "RC, UC, UD, XRC, or SRD (default: RC; SRD with -d srd+...)");
  app.add_option("--paths", raw.paths,
                 "SRD: spray packets over this many paths (default: 64, on shm 1)")
      ->check(CLI::Range(1, 256))
      ->default_str("");
  app.add_option("-x,--gid-index", raw.gid_index,
                 "ibverbs: index of the address (default: a RoCEv2 one)");
  app.add_option("-i,--ib-port", raw.port, "ibverbs: port of the device (default: 1)");
  app.add_flag("-F,--CPU-freq", raw.ignored, "No effect");
  app.add_flag("-R,--rdma_cm", o.meeting.cm,
               "Connect by RDMA CM (RC, UC): HOST is the address of the server's device");
  app.add_flag("--report_gbits", o.output.gbits,
               "Bandwidth in 10^9 bits per second instead of MiB/s");
  app.add_flag("--data_validation", o.validate, "Check every byte; exit code 1 on a mismatch");
  app.add_flag("--perform_warm_up", o.warm_up, "Run 100 messages before measuring");
  app.add_flag("--spin_memory", o.spin_memory,
               "write_lat: poll memory only; the library's thread makes progress");
  app.add_flag("--report-counters", o.output.counters,
               "Print the device's counters that are not 0");
  app.add_flag("--paths-report", o.output.paths_report,
               "SRD: print state, RTT and counters of each path to the peer");
  app.add_flag("--out_json", o.output.json, "Write the results as JSON too");
  app.add_option("--out_json_file", o.output.json_file, "Name of the JSON file");
  app.add_option("--connect_wait", o.meeting.connect_wait_s,
                 "Client: seconds to retry until the server listens; it answers 2 s later at most")
      ->check(CLI::Range(0.0, 1e6));
  add_security(app, o.meeting.security);
  app.add_option("host", o.meeting.host, "The server; without it this is the server");
}

std::string fill_sizes(Options& o, const Raw& raw) {
  const int given = (raw.size != 0) + raw.all + !raw.sizes.empty();
  if (given > 1) return "-s, -a and --sizes exclude each other";
  if (o.operation == Operation::atomic) {
    if (raw.all || (raw.size != 0 && raw.size != 8)) return "atomics have 8 bytes: no -a, no -s";
    o.sizes = {8};
  } else if (raw.all) {
    const uint32_t last = o.service == QpType::ud ? 12 : 23;  // UD: one packet
    for (uint32_t bit = 1; bit <= last; ++bit) o.sizes.push_back(uint64_t{1} << bit);
  } else if (!raw.sizes.empty()) {
    o.sizes = raw.sizes;
  } else {
    const bool datagrams = o.service == QpType::ud && o.measure == Measure::bandwidth;
    o.sizes = {raw.size != 0 ? raw.size : datagrams ? kDatagram : default_size(o)};
  }
  for (const uint64_t size : o.sizes)
    if (size < 1 || size > kLargest) return "a size is not in 1 .. 2147483647";
  return {};
}

// -c: the service and its operations. Returns the text of the error, or nothing.
std::string choose_service(Options& o, const std::string& connection, bool srd) {
  if (srd) o.service = QpType::srd;
  if (connection.empty() || connection == (srd ? "SRD" : "RC")) return {};
  if (connection == "UC") o.service = QpType::uc;
  if (connection == "UD") o.service = QpType::ud;
  if (connection == "XRC") o.service = QpType::xrc_initiator;
  if (srd || !o.service)
    return "-c " + connection + ": a " + (srd ? "srd" : "roce") + " device has " +
           (srd ? "SRD" : "RC, UC, UD and XRC") + " queue pairs (-d names the device)";
  if (o.xrc()) return {};
  if (o.one_sided()) return "-c " + connection + ": READ and atomics need RC or XRC";
  if (o.service == QpType::ud && o.operation != Operation::send)
    return "-c UD: datagrams are for weft_send_bw and weft_send_lat";
  if (o.validate && o.measure == Measure::bandwidth)
    return "--data_validation of a stream needs a service that loses nothing: not -c " + connection;
  return {};
}

// -x and -i: only a device of libibverbs has several addresses and ports to choose from.
void choose_address(Options& o, const Raw& raw) {
  if (!o.device.starts_with("ibverbs")) return;
  if (raw.port) o.device += ",port=" + std::to_string(*raw.port);
  if (raw.gid_index) o.device += ",gid=" + std::to_string(*raw.gid_index);
}

// True for an SRD device: weft's own, or an EFA's.
bool is_srd_device(const std::string& device) {
  if (!device.starts_with("ibverbs")) return device.starts_with("srd");
  const std::string keys = device + ",";
  return keys.find(",srd,") != std::string::npos || keys.find(",srd=1,") != std::string::npos;
}

// Options that depend on the device. Returns the text of the error, or nothing.
std::string choose_device(Options& o, const Raw& raw) {
  const char* const fallback = std::getenv("WEFT_DEVICE");
  if (o.device.empty() && fallback != nullptr) o.device = fallback;
  if (o.device.empty() && raw.connection == "SRD") o.device = "srd+udp:lo";
  choose_address(o, raw);
  const bool srd = is_srd_device(o.device);
  if (const std::string wrong = choose_service(o, raw.connection, srd); !wrong.empty())
    return wrong;
  if (srd && o.cq_moderation > 1)
    return "-Q: on SRD every request has its own completion, since they complete in any order";
  if (srd && o.spin_memory)
    return "--spin_memory: SRD does not order the bytes of a WRITE; leave it out";
  if ((raw.paths != 0 || o.output.paths_report) && !srd)
    return "--paths and --paths-report are for srd devices: -d srd+udp:lo";
  if (o.output.paths_report) o.device += ",path_counters=1";
  if (raw.paths == 0) return {};
  if (o.device.find(",paths=") != std::string::npos)
    return "--paths: the device string has paths= already; leave one out";
  o.device += ",paths=" + std::to_string(raw.paths);
  return {};
}

// Checks combinations of options. Returns the text of the error, or nothing.
std::string complete(Options& o, const Raw& raw) {
  if (const std::string wrong = choose_device(o, raw); !wrong.empty()) return wrong;
  if (o.meeting.cm && (o.service == QpType::ud || o.service == QpType::srd || o.xrc()))
    return "-R connects queue pairs of RC and UC; leave it out for UD, XRC and SRD";
  if (o.use_srq && (o.operation != Operation::send || o.service == QpType::srd))
    return "--use-srq is for weft_send_* on roce and ibverbs devices: nothing else takes receives";
  if (o.shares_receives() && o.validate && o.operation == Operation::send && o.qps != 1)
    return "--data_validation of SENDs needs receives that are not shared: -q 1, or no --use-srq";
  if (o.iterations != 0 && o.duration_s > 0) return "-n and -D exclude each other";
  if (o.measure == Measure::latency && o.bidirectional) return "-b is for bandwidth";
  if (o.measure == Measure::latency && o.qps != 1) return "-q is for bandwidth";
  if (o.spin_memory && (o.measure != Measure::latency || o.operation != Operation::write))
    return "--spin_memory is for weft_write_lat";
  if (o.events && o.measure == Measure::latency && o.operation == Operation::write)
    return "-e: weft_write_lat polls memory, which has no event; leave it out";
  if (!raw.atomic.empty()) {
    if (o.operation != Operation::atomic) return "-A is for weft_atomic_*";
    const bool adds = std::toupper(static_cast<unsigned char>(raw.atomic[0])) == 'F';
    o.atomic = adds ? AtomicType::fetch_add : AtomicType::compare_swap;
  }
  if (o.post_list > o.tx_depth) return "-l must not exceed -t";
  if (o.iterations == 0) o.iterations = default_iterations(o);
  return fill_sizes(o, raw);
}

}  // namespace

uint64_t Options::max_size() const { return *std::max_element(sizes.begin(), sizes.end()); }

std::string_view name(Operation operation) noexcept {
  switch (operation) {
    case Operation::send:
      return "send";
    case Operation::write:
      return "write";
    case Operation::read:
      return "read";
    case Operation::atomic:
      return "atomic";
  }
  return "unknown";
}

std::string program_name(Operation operation, Measure measure) {
  return "weft_" + std::string(name(operation)) + (measure == Measure::latency ? "_lat" : "_bw");
}

Parsed parse_options(Operation operation, Measure measure, int argc, char** argv) {
  Options o;
  Raw raw;
  o.operation = operation;
  o.measure = measure;
  CLI::App app(program_name(operation, measure) + ": measures RDMA " +
               std::string(name(operation)) +
               (measure == Measure::latency ? " latency" : " bandwidth") +
               ". Start it without a host on one side, then with that host on the other.");
  app.option_defaults()->always_capture_default();
  add_traffic_options(app, o, raw);
  add_run_options(app, o, raw);
  if (const auto ended = read_command_line(app, argc, argv)) return {std::nullopt, *ended};
  o.inline_set = app.count("-I") != 0;
  const std::string wrong = complete(o, raw);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s: %s\n", program_name(operation, measure).c_str(), wrong.c_str());
    return {std::nullopt, kWrongOptions};
  }
  return {std::move(o), 0};
}

}  // namespace weft::bench
