// SPDX-License-Identifier: BSD-3-Clause
// The thread of an endpoint (FI_PROGRESS_AUTO). While the program polls, it looks only now and
// then; else it sleeps until something arrives, and answers it.
#include <poll.h>

#include <algorithm>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"

namespace weft::fi {
namespace {

constexpr int kGlanceMs = 2;     // between looks whether the program polls
constexpr int kLongestMs = 100;  // between probes

}  // namespace

void Rdm::progress() noexcept {
  const std::lock_guard hold(lock_);
  polls_.fetch_add(1, std::memory_order_relaxed);
  progress_locked();
}

void Rdm::arm() noexcept {
  cq_.acknowledge();
  cq_.arm();
}

void Rdm::run() noexcept {
  uint32_t seen = polls_.load();
  while (!stops_.load()) {
    const bool program_polls = polls_.load() != seen;
    seen = polls_.load();
    int timeout = kGlanceMs;
    {
      const std::lock_guard hold(lock_);
      guarded([&] {
        resolver_.progress([this](uint32_t cookie, const Gid& gid, QpNum queue) {
          peers_.resolved(cookie, gid, queue);
        });
        const Instant next = messages_.on_time(domain.device->device.now());
        atomics_.for_each([&](const Atomic& asked) { messages_.probe(asked.peer); });
        forget_peers();
        if (!program_polls) {
          const bool is_quiet =
              next.is_never() && atomics_.empty() && !peers_.has_many_unknown(*av);
          timeout = is_quiet ? -1 : kLongestMs;
        }
        is_asleep_ = timeout < 0;
        return 0;
      });
      if (!program_polls) {
        while (progress_locked() != 0) {
        }
        arm();
        if (progress_locked() != 0) continue;
        if (queue_.is_full) retry();
      }
    }
    pollfd fds[] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                    {.fd = resolver_.fd(), .events = POLLIN, .revents = 0},
                    {.fd = program_polls ? -1 : cq_.fd(), .events = POLLIN, .revents = 0}};
    poll(fds, 3, timeout);
    if (fds[0].revents != 0) clear_event(wake_);
  }
}

}  // namespace weft::fi
