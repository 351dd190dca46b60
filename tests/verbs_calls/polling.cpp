// SPDX-License-Identifier: BSD-3-Clause
// Polling: what a round of an extended completion queue holds, several threads at one queue, and
// events without end.
#include <atomic>
#include <memory>
#include <thread>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

ibv_cq_ex* extended_queue(Ends& ends, ibv_comp_channel* channel, uint32_t entries) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = entries;
  attr.channel = channel;
  attr.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = ibv_create_cq_ex(ends.context, &attr);
  REQUIRE(cq != nullptr);
  return cq;
}

void attributes_of_an_extended_queue(Ends& ends) {
  ibv_cq_ex* cq = extended_queue(ends, nullptr, 8);
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

int start_poll(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attr{};
  const std::time_t until = std::time(nullptr) + 20;
  int error = ENOENT;
  while ((error = ibv_start_poll(cq, &attr)) == ENOENT && std::time(nullptr) < until) {
  }
  return error;
}

// A program arms the queue, takes what is there, and sleeps until the next event: what completes
// meanwhile has an event, and must still be there then.
void a_round_holds_what_was_there_at_its_start(Ends& ends) {
  ibv_comp_channel* channel = ibv_create_comp_channel(ends.context);
  ibv_cq_ex* cq = extended_queue(ends, channel, 16);
  Loop loop(ends, nullptr, ibv_cq_ex_to_cq(cq));
  ibv_cq* of_event = nullptr;
  void* unused = nullptr;
  ibv_poll_cq_attr attr{};
  loop.write(ends, ends.mr->rkey);
  REQUIRE(start_poll(cq) == 0);
  CHECK(cq->status == IBV_WC_SUCCESS);
  CHECK_ERROR(0, ibv_req_notify_cq(loop.cq, 0));
  loop.write(ends, ends.mr->rkey);
  CHECK(is_readable(channel->fd, 10'000));
  CHECK_ERROR(ENOENT, ibv_next_poll(cq));
  ibv_end_poll(cq);
  REQUIRE(ibv_get_cq_event(channel, &of_event, &unused) == 0);
  CHECK(of_event == loop.cq);
  CHECK_ERROR(0, ibv_start_poll(cq, &attr));  // at once
  ibv_end_poll(cq);
  ibv_ack_cq_events(loop.cq, 1);

  // One that asks again within a round gets what has arrived since.
  loop.write(ends, ends.mr->rkey);
  REQUIRE(start_poll(cq) == 0);
  loop.write(ends, ends.mr->rkey);
  const std::time_t until = std::time(nullptr) + 20;
  while (ibv_next_poll(cq) == ENOENT && std::time(nullptr) < until) {
  }
  CHECK(cq->status == IBV_WC_SUCCESS && std::time(nullptr) < until);
  ibv_end_poll(cq);

  // What a round leaves is polled first, by either call.
  for (int i = 0; i < 3; ++i) {
    CHECK_ERROR(0, ibv_req_notify_cq(loop.cq, 0));
    loop.write(ends, ends.mr->rkey);
    CHECK(is_readable(channel->fd, 10'000));
    REQUIRE(ibv_get_cq_event(channel, &of_event, &unused) == 0);
  }
  REQUIRE(ibv_start_poll(cq, &attr) == 0);
  ibv_end_poll(cq);
  ibv_wc wc;
  CHECK(ibv_poll_cq(loop.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
  CHECK_ERROR(0, ibv_start_poll(cq, &attr));
  CHECK_ERROR(ENOENT, ibv_next_poll(cq));
  ibv_end_poll(cq);
  ibv_ack_cq_events(loop.cq, 3);
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
  CHECK_ERROR(0, ibv_destroy_comp_channel(channel));
}

// Takes one completion in one of the two ways; whether there was one.
bool take_one(ibv_cq_ex* cq, bool extended, uint64_t& id) {
  ibv_wc wc{};
  ibv_poll_cq_attr attr{};
  if (!extended) {
    if (ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) != 1) return false;
    id = wc.wr_id;
    return wc.status == IBV_WC_SUCCESS;
  }
  if (ibv_start_poll(cq, &attr) != 0) return false;
  id = cq->wr_id;
  const bool success = cq->status == IBV_WC_SUCCESS;
  ibv_end_poll(cq);
  return success;
}

// Each completion is polled once, by one of them.
void threads_at_one_queue(Ends& ends) {
  constexpr int kThreads = 4;
  constexpr uint64_t kRequests = 2000, kAtATime = 4;
  ibv_cq_ex* cq = extended_queue(ends, nullptr, 64);
  Loop loop(ends, nullptr, ibv_cq_ex_to_cq(cq));
  std::atomic<uint64_t> taken{0}, sum{0};
  std::atomic<bool> stops{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, extended = i % 2 == 0] {
      uint64_t id = 0;
      while (!stops) {
        if (!take_one(cq, extended, id)) {
          std::this_thread::yield();
          continue;
        }
        sum += id;
        ++taken;
      }
    });
  const std::time_t until = std::time(nullptr) + 60;
  for (uint64_t posted = 0; posted < kRequests && std::time(nullptr) < until;) {
    if (posted - taken >= kAtATime) {
      std::this_thread::yield();
      continue;
    }
    ibv_sge entry = ends.sge(0, 8);
    ibv_send_wr wr{};
    wr.wr_id = ++posted;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &entry;
    wr.num_sge = 1;
    wr.wr.rdma = {.remote_addr = ends.address(64), .rkey = ends.mr->rkey};
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(loop.qp, &wr, &bad) == 0);
  }
  while (taken < kRequests && std::time(nullptr) < until) std::this_thread::yield();
  stops = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(taken == kRequests);
  CHECK(sum == kRequests * (kRequests + 1) / 2);
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
}

// One event for each arming, of several queues of one channel, none lost; all acknowledged at last.
void storm_of_events(Ends& ends) {
  constexpr unsigned kRounds = 1000;
  ibv_comp_channel* channel = ibv_create_comp_channel(ends.context);
  std::vector<std::unique_ptr<Loop>> loops;
  for (int i = 0; i < 8; ++i) loops.push_back(std::make_unique<Loop>(ends, channel));
  std::vector<unsigned> events(loops.size());
  for (unsigned round = 0; round < kRounds; ++round) {
    for (auto& loop : loops) {
      CHECK_ERROR(0, ibv_req_notify_cq(loop->cq, 0));
      loop->write(ends, ends.mr->rkey);
    }
    for (size_t i = 0; i < loops.size(); ++i) {
      ibv_cq* cq = nullptr;
      void* of = nullptr;
      REQUIRE(is_readable(channel->fd, 20'000));
      REQUIRE(ibv_get_cq_event(channel, &cq, &of) == 0);
      for (size_t j = 0; j < loops.size(); ++j) events[j] += loops[j]->cq == cq ? 1 : 0;
      CHECK(wait_for(cq).status == IBV_WC_SUCCESS);
    }
  }
  CHECK(!is_readable(channel->fd, 0));
  for (size_t i = 0; i < loops.size(); ++i) {
    CHECK(events[i] == kRounds);
    ibv_ack_cq_events(loops[i]->cq, events[i]);
    CHECK_ERROR(0, ibv_destroy_qp(loops[i]->qp));
    CHECK_ERROR(0, ibv_destroy_cq(loops[i]->cq));
  }
  CHECK_ERROR(0, ibv_destroy_comp_channel(channel));
}

}  // namespace

void check_polling() {
  Ends ends(IBV_QPT_RC);
  attributes_of_an_extended_queue(ends);
  a_round_holds_what_was_there_at_its_start(ends);
  threads_at_one_queue(ends);
  storm_of_events(ends);
}
