// SPDX-License-Identifier: BSD-3-Clause
// Drivers over an interface of the kernel (net_af_packet, net_af_xdp, net_pcap, net_tap): what they
// need to carry our frames. What an interface passes is its own MTU, whatever the driver claims.
#pragma once

#include <cstdint>

#include "providers/port/dpdk/options.hpp"

namespace weft::port::dpdk {

bool is_af_packet(const Options& options);
// Ring slots (dpdk.framesz, dpdk.blocksz, dpdk.framecnt) that hold a whole frame; the driver's own
// are for Ethernet's 1,500 bytes.
void complete_af_packet(Options& options);
// What a receive buffer must hold for this driver to start.
uint32_t least_buffer(const Options& options);

bool needs_huge_pages(const Options& options);
// Whether this user lacks a capability that the driver needs.
bool lacks_rights(const Options& options);

// The MTU of the interface dpdk.iface; 0 if the device has none, or it is not there yet.
uint32_t interface_mtu(const Options& options);

// Its index; 0 likewise.
uint32_t interface_index(const Options& options);

// net_af_packet, net_af_xdp, net_pcap with dpdk.iface: the interface is the host's, and stays.
bool is_over_interface(const Options& options);

// As long as this socket is open, however the process ends, the interface of such a driver passes
// multicast frames on, solicited-node groups among them; other hosts' frames it need not: ours have
// its own MAC address. -1: it cannot be had.
int hold_multicast(const Options& options);

}  // namespace weft::port::dpdk
