// SPDX-License-Identifier: BSD-3-Clause
// Completion channels and asynchronous events: descriptors that programs poll, set O_NONBLOCK and
// share, and acknowledgements that destruction waits for.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/ends.hpp"

namespace {

bool is_readable(int fd, int limit_ms) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&polled, 1, limit_ms) == 1;
}

void set_nonblocking(int fd) { REQUIRE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

// A queue pair that is connected to itself, so that it needs no peer.
struct Loop {
  ibv_cq* cq;
  ibv_qp* qp;

  Loop(Ends& ends, ibv_comp_channel* channel, ibv_srq* srq = nullptr)
      : cq(ibv_create_cq(ends.context, 16, this, channel, 0)) {
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

// Runs `destroy` in a thread; it must not return before `acknowledge` was called.
template <class Destroy, class Acknowledge>
void destroy_waits(Destroy destroy, Acknowledge acknowledge) {
  std::atomic<bool> acknowledged{false};
  std::atomic<bool> returned{false};
  std::thread thread([&] {
    destroy();
    CHECK(acknowledged);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(!returned);
  acknowledged = true;
  acknowledge();
  thread.join();
}

void channel_of_two_queues(Ends& ends) {
  ibv_comp_channel* channel = ibv_create_comp_channel(ends.context);
  REQUIRE(channel != nullptr);
  Loop one(ends, channel), two(ends, channel);
  const int epoll = epoll_create1(0);
  epoll_event watched{.events = EPOLLIN | EPOLLET, .data = {.fd = channel->fd}};
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &watched) == 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  for (Loop* loop : {&one, &two}) {
    CHECK_ERROR(0, ibv_req_notify_cq(loop->cq, 0));
    CHECK(!is_readable(channel->fd, 0));
    loop->write(ends, ends.mr->rkey);
    epoll_event found;
    CHECK(epoll_wait(epoll, &found, 1, 10'000) == 1);
    CHECK(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
    CHECK(cq == loop->cq && cq_context == loop);
    ibv_ack_cq_events(cq, 1);
    CHECK(wait_for(loop->cq).status == IBV_WC_SUCCESS);
    loop->write(ends, ends.mr->rkey);  // not armed
    CHECK(wait_for(loop->cq).status == IBV_WC_SUCCESS);
    CHECK(!is_readable(channel->fd, 0));
  }
  close(epoll);
  set_nonblocking(channel->fd);
  CHECK(ibv_get_cq_event(channel, &cq, &cq_context) == -1 && errno == EAGAIN);
  CHECK_ERROR(0, ibv_req_notify_cq(one.cq, 0));
  one.write(ends, ends.mr->rkey);
  CHECK(is_readable(channel->fd, 10'000));
  CHECK(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
  for (Loop* loop : {&one, &two}) CHECK_ERROR(0, ibv_destroy_qp(loop->qp));
  destroy_waits([&] { CHECK_ERROR(0, ibv_destroy_cq(one.cq)); },
                [&] { ibv_ack_cq_events(one.cq, 1); });
  CHECK_ERROR(0, ibv_destroy_cq(two.cq));
  CHECK_ERROR(0, ibv_destroy_comp_channel(channel));
}

void events_of_queues() {
  auto ends = std::make_unique<Ends>(IBV_QPT_RC);
  ibv_context* context = ends->context;
  set_nonblocking(context->async_fd);
  ibv_async_event event{};
  CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
  ibv_sge entry = ends->sge(0, 8);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.wr.rdma = {.remote_addr = ends->address(64), .rkey = ends->mr->rkey ^ 0xFFFF00};
  ibv_send_wr* bad = nullptr;
  CHECK_ERROR(0, ibv_post_send(ends->a.qp, &wr, &bad));  // no such key
  CHECK(wait_for(ends->a.cq).status == IBV_WC_REM_ACCESS_ERR);
  CHECK(is_readable(context->async_fd, 10'000));
  REQUIRE(ibv_get_async_event(context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == ends->b.qp);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  CHECK_ERROR(0, ibv_query_qp(ends->b.qp, &attr, IBV_QP_STATE, &init));
  CHECK(attr.qp_state == IBV_QPS_ERR && ends->b.qp->state == IBV_QPS_ERR);
  destroy_waits([&] { ends.reset(); }, [&] { ibv_ack_async_event(&event); });
}

void limit_of_a_shared_queue(Ends& ends) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 8, .max_sge = 1};
  ibv_srq* srq = ibv_create_srq(ends.pd, &attr);
  REQUIRE(srq != nullptr);
  CHECK(attr.attr.max_wr >= 8);
  Loop loop(ends, nullptr, srq);
  ibv_sge entry = ends.sge(1024, 64);
  ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = &entry, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < 2; ++i) CHECK_ERROR(0, ibv_post_srq_recv(srq, &wr, &bad));
  ibv_srq_attr limit{.srq_limit = 2};
  CHECK_ERROR(0, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
  CHECK_ERROR(0, ibv_query_srq(srq, &limit));
  CHECK(limit.srq_limit == 2 && limit.max_wr >= 8);
  loop.write(ends, 0, IBV_WR_SEND);
  wait_for(loop.cq);
  wait_for(loop.cq);
  ibv_async_event event{};
  CHECK(is_readable(ends.context->async_fd, 10'000));
  REQUIRE(ibv_get_async_event(ends.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
  CHECK_ERROR(0, ibv_query_srq(srq, &limit));
  CHECK(limit.srq_limit == 0);
  limit.max_wr = 32;
  CHECK_ERROR(0, ibv_modify_srq(srq, &limit, IBV_SRQ_MAX_WR));
  CHECK_ERROR(0, ibv_query_srq(srq, &limit));
  CHECK(limit.max_wr >= 32);
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
  destroy_waits([&] { CHECK_ERROR(0, ibv_destroy_srq(srq)); },
                [&] { ibv_ack_async_event(&event); });
}

void overrun(Ends& ends) {
  Loop loop(ends, nullptr);
  int posted = 0;
  const std::time_t until = std::time(nullptr) + 20;
  while (!is_readable(ends.context->async_fd, 0) && std::time(nullptr) < until) {
    ibv_sge entry = ends.sge(0, 8);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &entry;
    wr.num_sge = 1;
    wr.wr.rdma = {.remote_addr = ends.address(64), .rkey = ends.mr->rkey};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(loop.qp, &wr, &bad) == 0) ++posted;
    ibv_wc unused;
    ibv_poll_cq(ends.a.cq, 1, &unused);  // makes progress
  }
  CHECK(posted > loop.cq->cqe);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(ends.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == loop.cq);
  ibv_ack_async_event(&event);
  while (ibv_get_async_event(ends.context, &event) == 0) ibv_ack_async_event(&event);
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
}

void extended_queue(Ends& ends) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = ibv_create_cq_ex(ends.context, &attr);
  REQUIRE(cq != nullptr);
  ibv_poll_cq_attr poll_attr{};
  CHECK_ERROR(ENOENT, ibv_start_poll(cq, &poll_attr));
  ibv_modify_cq_attr moderation{.attr_mask = IBV_CQ_ATTR_MODERATE,
                                .moderate = {.cq_count = 4, .cq_period = 100}};
  CHECK_ERROR(0, ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation));
  ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  CHECK_ERROR(0, ibv_query_rt_values_ex(ends.context, &values));
  CHECK(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
  CHECK(values.raw_clock.tv_sec != 0 || values.raw_clock.tv_nsec != 0);
  CHECK_ERROR(0, ibv_resize_cq(ibv_cq_ex_to_cq(cq), 64));
  CHECK(cq->cqe >= 64);
  CHECK_ERROR(0, ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

}  // namespace

void check_events() {
  events_of_queues();
  Ends ends(IBV_QPT_RC);
  channel_of_two_queues(ends);
  set_nonblocking(ends.context->async_fd);
  limit_of_a_shared_queue(ends);
  overrun(ends);
  extended_queue(ends);
}
