// SPDX-License-Identifier: BSD-3-Clause
// Completion channels and asynchronous events: descriptors that programs poll, set O_NONBLOCK and
// share, and acknowledgements that destruction waits for.
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

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

}  // namespace

void check_events() {
  events_of_queues();
  Ends ends(IBV_QPT_RC);
  channel_of_two_queues(ends);
  set_nonblocking(ends.context->async_fd);
  limit_of_a_shared_queue(ends);
  overrun(ends);
}
