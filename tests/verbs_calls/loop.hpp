// SPDX-License-Identifier: BSD-3-Clause
// A queue pair that is connected to itself, so that it needs no peer, and descriptors that it makes
// readable.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include "tests/verbs_calls/ends.hpp"

inline bool is_readable(int fd, int limit_ms) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&polled, 1, limit_ms) == 1;
}

inline void set_nonblocking(int fd) {
  REQUIRE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

struct Loop {
  ibv_cq* cq;
  ibv_qp* qp = nullptr;

  Loop(Ends& ends, ibv_comp_channel* channel, ibv_srq* srq = nullptr)
      : Loop(ends, srq, ibv_create_cq(ends.context, 16, this, channel, 0)) {}
  // With a completion queue of the caller.
  Loop(Ends& ends, ibv_srq* srq, ibv_cq* queue) : cq(queue) {
    REQUIRE(cq != nullptr);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.srq = srq;
    attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    attr.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(ends.pd, &attr);
    REQUIRE(qp != nullptr);
    to_init(qp);
    to_rts(qp, qp->qp_num);
  }
  void write(Ends& ends, uint32_t rkey, ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
    ibv_sge entry = ends.sge(0, 8);
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &entry;
    wr.num_sge = 1;
    wr.wr.rdma = {.remote_addr = ends.address(64), .rkey = rkey};
    ibv_send_wr* bad = nullptr;
    CHECK_ERROR(0, ibv_post_send(qp, &wr, &bad));
  }
};
