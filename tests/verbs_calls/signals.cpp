// SPDX-License-Identifier: BSD-3-Clause
// Signals and cancellation in the calls that block: EINTR after a handler without SA_RESTART, as
// the read(2) of a kernel's descriptor has it; with SA_RESTART the call goes on.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

std::atomic<int> handled{0};

void install(int signal, int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) { ++handled; };
  action.sa_flags = flags;
  REQUIRE(sigaction(signal, &action, nullptr) == 0);
}

// A thread in a call that blocks.
struct Blocked {
  int result = 0, error = 0;
  std::atomic<bool> returned{false};
  std::thread thread;

  template <class Call>
  explicit Blocked(Call call) {
    thread = std::thread([this, call] {
      errno = 0;
      result = call();
      error = errno;
      returned = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(!returned);
  }
  // Sends the signal until the handler has run and, if wanted, the call has returned.
  void interrupt(bool until_it_returns) {
    const int before = handled;
    const std::time_t until = std::time(nullptr) + 20;
    while ((handled == before || (until_it_returns && !returned)) && std::time(nullptr) < until) {
      pthread_kill(thread.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CHECK(handled != before);
  }
};

// `call` blocks until `wake` was called; `after` follows its return.
template <class Call, class Wake, class After>
void interrupted_and_restarted(Call call, Wake wake, After after) {
  install(SIGUSR1, 0);
  {
    Blocked blocked(call);
    blocked.interrupt(true);
    blocked.thread.join();
    CHECK(blocked.result == -1 && blocked.error == EINTR);
  }
  install(SIGUSR1, SA_RESTART);
  Blocked blocked(call);
  blocked.interrupt(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(!blocked.returned);
  wake();
  blocked.thread.join();
  CHECK(blocked.result == 0);
  after();
}

// pthread_cancel() ends the thread and nothing else.
template <class Call>
void cancelled(Call call) {
  Blocked blocked(call);
  CHECK(pthread_cancel(blocked.thread.native_handle()) == 0);
  blocked.thread.join();
  CHECK(!blocked.returned);
}

void completion_events(Ends& ends) {
  ibv_comp_channel* channel = ibv_create_comp_channel(ends.context);
  Loop loop(ends, channel);
  const auto call = [&] {
    ibv_cq* cq = nullptr;
    void* of = nullptr;
    return ibv_get_cq_event(channel, &cq, &of);
  };
  cancelled(call);
  interrupted_and_restarted(
      call,
      [&] {
        CHECK_ERROR(0, ibv_req_notify_cq(loop.cq, 0));
        loop.write(ends, ends.mr->rkey);
      },
      [&] { ibv_ack_cq_events(loop.cq, 1); });
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
  CHECK_ERROR(0, ibv_destroy_comp_channel(channel));
}

void asynchronous_events(Ends& ends) {
  ibv_async_event event{};
  const auto call = [&] { return ibv_get_async_event(ends.context, &event); };
  cancelled(call);
  Loop loop(ends, nullptr);
  interrupted_and_restarted(
      call,
      [&] {
        loop.write(ends, ends.mr->rkey ^ 0xFFFF00);  // no such key
        CHECK(wait_for(loop.cq).status != IBV_WC_SUCCESS);
      },
      [&] { ibv_ack_async_event(&event); });
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
}

// A timer of 500 us, while data is moved and objects come and go.
void signals_during_traffic(Ends& ends) {
  install(SIGALRM, 0);
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 500},
                        .it_value = {.tv_sec = 0, .tv_usec = 500}};
  REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  const int before = handled;
  const std::time_t until = std::time(nullptr) + 20;
  for (int i = 0; (i < 50 || handled < before + 20) && std::time(nullptr) < until; ++i) {
    Loop loop(ends, nullptr);
    loop.write(ends, ends.mr->rkey);
    CHECK(wait_for(loop.cq).status == IBV_WC_SUCCESS);
    CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
    CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
    ibv_context* other = ibv_open_device(ends.context->device);
    CHECK(other != nullptr && ibv_close_device(other) == 0);
  }
  const itimerval never{};
  REQUIRE(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  CHECK(handled >= before + 20);
}

}  // namespace

void check_signals() {
  Ends ends(IBV_QPT_RC);
  completion_events(ends);
  asynchronous_events(ends);
  signals_during_traffic(ends);
}
