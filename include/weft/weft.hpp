// SPDX-License-Identifier: BSD-3-Clause
// weft: RDMA in user space, a verbs-like API over exchangeable providers. This header includes all
// of it but collectives (collective.hpp). A program that writes eight bytes into a peer's memory:
//
//   auto device = *weft::Device::open("roce+udp:lo");
//   auto cq = *device.completion_queue({.capacity = 16});
//   auto pd = *device.protection_domain();
//   uint64_t word = 42;
//   auto region = *pd.register_memory(&word, sizeof word, weft::Access::all);
//   auto qp = *pd.queue_pair({.send_cq = cq, .recv_cq = cq});
//   auto peer = *weft::connect("127.0.0.1:18515", qp);
//   struct { uint64_t address; weft::RKey rkey; } remote;  // the peer's private data
//   std::memcpy(&remote, peer.peer_data.data(), sizeof remote);
//   weft::Sge sge = region.sge(0, 8);
//   (void)qp.post_send({.opcode = weft::Opcode::write, .sges = {&sge, 1},
//                       .remote_address = remote.address, .rkey = remote.rkey});
//   weft::Completion done;
//   cq.wait({&done, 1});
#pragma once

#include "weft/ah.hpp"
#include "weft/cm.hpp"
#include "weft/congestion.hpp"
#include "weft/connect.hpp"
#include "weft/cq.hpp"
#include "weft/device.hpp"
#include "weft/mr.hpp"
#include "weft/port.hpp"
#include "weft/qp.hpp"
#include "weft/result.hpp"
#include "weft/srq.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"
#include "weft/wr.hpp"
