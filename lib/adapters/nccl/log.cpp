// SPDX-License-Identifier: BSD-3-Clause
// See log.hpp. NCCL puts host, process, GPU and time before each line itself.
#include "lib/adapters/nccl/log.hpp"

#include <atomic>

namespace weft::nccl {
namespace {

std::atomic<Logger> current{nullptr};

void write(int level, const std::string& text) noexcept {
  if (const Logger logger = current.load(std::memory_order_acquire))
    logger(level, kLogInit | kLogNet, "weft", 0, "NET/weft : %s", text.c_str());
}

}  // namespace

void set_logger(Logger logger) noexcept { current.store(logger, std::memory_order_release); }
void log_info(const std::string& text) noexcept { write(kLogInfo, text); }
void log_warning(const std::string& text) noexcept { write(kLogWarn, text); }

Outcome report(const std::string& where, const Error& error) {
  write(kLogWarn, where + ": " + error.message);
  switch (error.code) {
    case Code::invalid_argument:
    case Code::bad_state:
      return Outcome::internal_error;
    case Code::mismatch:
      return Outcome::invalid_usage;
    case Code::disconnected:
    case Code::peer_failed:
    case Code::timed_out:
      return Outcome::remote_error;
    default:
      return Outcome::system_error;
  }
}

}  // namespace weft::nccl
