// SPDX-License-Identifier: BSD-3-Clause
// What a dpdk port counts, and what its driver does (README.md says what they mean).
#include <rte_ethdev.h>

#include "providers/port/dpdk/dpdk_port.hpp"

namespace weft::port {

void DpdkPort::append_counters(std::vector<Counter>& counters) const {
  rte_eth_stats stats{};  // of all queues
  if (queue_ == 0) (void)rte_eth_stats_get(device_->port(), &stats);
  const dpdk::Steering* const steering = device_->steering();
  const bool first = steering != nullptr && queue_ == 0;  // whose counters are the device's
  counters.insert(counters.end(), {{"dpdk_rx_frames", counters_.rx_frames},
                                   {"dpdk_tx_frames", counters_.tx_frames},
                                   {"dpdk_rx_foreign", counters_.rx_foreign},
                                   {"dpdk_rx_malformed", counters_.rx_malformed},
                                   {"dpdk_rx_joined", counters_.rx_joined},
                                   {"dpdk_rx_neighbour", counters_.rx_neighbour},
                                   {"dpdk_tx_neighbour", counters_.tx_neighbour},
                                   {"dpdk_tx_no_neighbour", unresolved_.dropped()},
                                   {"dpdk_tx_link_down", counters_.tx_link_down},
                                   {"dpdk_tx_unreadable", counters_.tx_unreadable},
                                   {"dpdk_tx_too_long", counters_.tx_too_long},
                                   {"dpdk_tx_no_buffer", counters_.tx_no_buffer},
                                   {"dpdk_buffers_free", device_->free_buffers(queue_)},
                                   {"dpdk_handed_over", counters_.handed_over},
                                   {"dpdk_handed_drops", counters_.handed_drops},
                                   {"dpdk_flow_rules", first ? steering->rules() : 0},
                                   {"dpdk_flow_rules_refused", first ? steering->refused() : 0},
                                   {"dpdk_rx_missed", stats.imissed},
                                   {"dpdk_rx_no_mbuf", stats.rx_nombuf}});
}

}  // namespace weft::port
