// SPDX-License-Identifier: BSD-3-Clause
// Names of verbs' enumerators, and rates of links in its units.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>

namespace {

template <size_t kSize>
const char* name_of(const std::array<const char*, kSize>& names, int value) noexcept {
  if (value < 0 || static_cast<size_t>(value) >= kSize) return "unknown";
  return names[static_cast<size_t>(value)];
}

struct RateRow {
  ibv_rate rate;
  int multiple;  // of 2.5 Gb/s; 0: none
  int mbps;
};
constexpr std::array kRates{
    RateRow{IBV_RATE_2_5_GBPS, 1, 2500},      RateRow{IBV_RATE_5_GBPS, 2, 5000},
    RateRow{IBV_RATE_10_GBPS, 4, 10000},      RateRow{IBV_RATE_20_GBPS, 8, 20000},
    RateRow{IBV_RATE_30_GBPS, 12, 30000},     RateRow{IBV_RATE_40_GBPS, 16, 40000},
    RateRow{IBV_RATE_60_GBPS, 24, 60000},     RateRow{IBV_RATE_80_GBPS, 32, 80000},
    RateRow{IBV_RATE_120_GBPS, 48, 120000},   RateRow{IBV_RATE_14_GBPS, 0, 14062},
    RateRow{IBV_RATE_56_GBPS, 0, 56250},      RateRow{IBV_RATE_112_GBPS, 0, 112500},
    RateRow{IBV_RATE_168_GBPS, 0, 168750},    RateRow{IBV_RATE_25_GBPS, 0, 25781},
    RateRow{IBV_RATE_100_GBPS, 0, 103125},    RateRow{IBV_RATE_200_GBPS, 0, 206250},
    RateRow{IBV_RATE_300_GBPS, 0, 309375},    RateRow{IBV_RATE_28_GBPS, 11, 28125},
    RateRow{IBV_RATE_50_GBPS, 20, 53125},     RateRow{IBV_RATE_400_GBPS, 160, 425000},
    RateRow{IBV_RATE_600_GBPS, 240, 637500},  RateRow{IBV_RATE_800_GBPS, 320, 850000},
    RateRow{IBV_RATE_1200_GBPS, 480, 1275000}};

}  // namespace

const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array kNames{"success",
                                     "local length error",
                                     "local QP operation error",
                                     "local EE context operation error",
                                     "local protection error",
                                     "Work Request Flushed Error",
                                     "memory management operation error",
                                     "bad response error",
                                     "local access error",
                                     "remote invalid request error",
                                     "remote access error",
                                     "remote operation error",
                                     "transport retry counter exceeded",
                                     "RNR retry counter exceeded",
                                     "local RDD violation error",
                                     "remote invalid RD request",
                                     "aborted error",
                                     "invalid EE context number",
                                     "invalid EE context state",
                                     "fatal error",
                                     "response timeout error",
                                     "general error",
                                     "TM error",
                                     "TM software rendezvous"};
  return name_of(kNames, status);
}

const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array kNames{"unknown",           "InfiniBand channel adapter",
                                     "InfiniBand switch", "InfiniBand router",
                                     "iWARP NIC",         "usNIC",
                                     "usNIC UDP",         "unspecified"};
  return name_of(kNames, type);
}

const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array kNames{"no state change (NOP)", "down", "init", "armed", "active",
                                     "active defer"};
  return name_of(kNames, state);
}

const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array kNames{"CQ error",
                                     "local work queue catastrophic error",
                                     "invalid request local work queue error",
                                     "local access violation work queue error",
                                     "communication established",
                                     "send queue drained",
                                     "path migrated",
                                     "path migration request error",
                                     "local catastrophic error",
                                     "port active",
                                     "port error",
                                     "LID change",
                                     "P_Key change",
                                     "SM change",
                                     "SRQ catastrophic error",
                                     "SRQ limit reached",
                                     "last WQE reached",
                                     "client reregistration",
                                     "GID table change",
                                     "WQ fatal"};
  return name_of(kNames, event);
}

// Drivers of rdma-core 56 call it.
extern "C" const char* weft_wr_opcode_str(ibv_wr_opcode opcode) __asm__("ibv_wr_opcode_str");
const char* weft_wr_opcode_str(ibv_wr_opcode opcode) {
  static constexpr std::array kNames{"RDMA write",
                                     "RDMA write with immediate",
                                     "send",
                                     "send with immediate",
                                     "RDMA read",
                                     "atomic compare and swap",
                                     "atomic fetch and add",
                                     "local invalidate",
                                     "bind memory window",
                                     "send with invalidate",
                                     "TSO",
                                     "driver's own",
                                     "unknown",
                                     "unknown",
                                     "flush",
                                     "atomic write"};
  return name_of(kNames, opcode);
}

int ibv_rate_to_mult(ibv_rate rate) {
  for (const RateRow& row : kRates)
    if (row.rate == rate && row.multiple != 0) return row.multiple;
  return -1;
}

ibv_rate mult_to_ibv_rate(int multiple) {
  for (const RateRow& row : kRates)
    if (row.multiple == multiple && multiple != 0) return row.rate;
  return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  for (const RateRow& row : kRates)
    if (row.rate == rate) return row.mbps;
  return -1;
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const RateRow& row : kRates)
    if (row.mbps == mbps) return row.rate;
  return IBV_RATE_MAX;
}
