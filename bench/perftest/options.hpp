// SPDX-License-Identifier: BSD-3-Clause
// The command line of weft_{send,write,read,atomic}_{bw,lat}: perftest's options, so that scripts
// for perftest work with weft.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/security.hpp"
#include "weft/types.hpp"

namespace weft::bench {

enum class Operation : uint8_t { send, write, read, atomic };
enum class Measure : uint8_t { bandwidth, latency };
enum class AtomicType : uint8_t { fetch_add, compare_swap };

// How the two sides connect.
struct MeetingOptions {
  std::string host;  // empty: this is the server
  uint16_t port = 18515;
  bool cm = false;            // by the RDMA connection manager
  double connect_wait_s = 1;  // how long the client retries until the server listens
  Security security{};        // of connections over TCP
};

struct OutputOptions {
  bool no_peak = false;
  bool gbits = false;
  bool counters = false;
  bool paths_report = false;
  bool json = false;
  std::string json_file = "weft_out.json";
};

struct Options {
  Operation operation = Operation::send;
  Measure measure = Measure::bandwidth;
  AtomicType atomic = AtomicType::fetch_add;
  std::string device;             // empty: WEFT_DEVICE or roce+udp:lo
  std::optional<QpType> service;  // of the measured queue pairs; unset: the device's
  std::vector<uint64_t> sizes;
  uint64_t iterations = 0;
  double duration_s = 0;  // > 0: run for this long instead
  uint32_t qps = 1;
  uint32_t tx_depth = 128;
  uint32_t rx_depth = 512;
  uint32_t mtu = 0;
  uint32_t post_list = 1;
  uint32_t cq_moderation = 0;  // 0: 100, or 1 for messages above 8 KiB
  uint32_t inline_size = 0;
  bool inline_set = false;
  uint32_t outstanding = 16;  // READs and atomics
  uint32_t buffers = 1;
  uint32_t timeout = 14;
  uint32_t retry_count = 7;
  uint32_t traffic_class = 0;
  bool bidirectional = false;
  bool events = false;
  bool validate = false;
  bool warm_up = false;
  bool spin_memory = false;
  bool use_srq = false;
  MeetingOptions meeting;
  OutputOptions output;

  bool is_server() const { return meeting.host.empty(); }
  bool one_sided() const { return operation == Operation::read || operation == Operation::atomic; }
  bool takes_receives() const {
    const bool write_with_imm =
        operation == Operation::write && measure == Measure::latency && service == QpType::srd;
    return operation == Operation::send || write_with_imm;
  }
  bool xrc() const { return service == QpType::xrc_initiator; }
  // All lanes share one receive queue.
  bool shares_receives() const { return xrc() || use_srq; }
  // The service may lose messages without an error.
  bool unreliable() const { return service == QpType::ud || service == QpType::uc; }
  uint64_t max_size() const;
};

std::string_view name(Operation operation) noexcept;
// "weft_write_bw"
std::string program_name(Operation operation, Measure measure);

// Parses the command line. No options: the exit code, 0 after --help, 2 after an error, which has
// been printed.
struct Parsed {
  std::optional<Options> options;
  int exit_code = 0;
};
Parsed parse_options(Operation operation, Measure measure, int argc, char** argv);

}  // namespace weft::bench
