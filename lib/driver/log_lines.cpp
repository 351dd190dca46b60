// SPDX-License-Identifier: BSD-3-Clause
// See log_lines.hpp.
#include "lib/driver/log_lines.hpp"

#include "lib/base/memory_permitting.hpp"

namespace weft::driver {
namespace {

// A warning: the application sees no error of its own, only timeouts.
std::string text_of_icrc_failures(const Gid& local, const Gid& peer) {
  return to_string(local) + ": every packet from " + to_string(peer) +
         " fails its ICRC and is dropped: probably something on the way translates addresses. Use "
         "a "
         "path without it, or, between weft devices, icrc=off in the device strings of both sides";
}

std::string text_of(const transport::Incident& incident, const Gid& local) {
  std::string text = to_string(local) + ", queue pair " + std::to_string(incident.qp.value) + ": ";
  if (incident.status == Status::success) return text += name(incident.event.type);
  text += "a request ended in ";
  text += name(incident.status);
  text += ": ";
  return text += reason(incident.status);
}

}  // namespace

void LogLines::collect(transport::Machine& machine, const Gid& local) noexcept {
  while (const std::optional<Gid> peer = machine.next_failing_peer())
    if (base::logs(subsystem_, LogLevel::warning))
      (void)base::memory_permitting(
          [&] { add(LogLevel::warning, text_of_icrc_failures(local, *peer)); });
  if (!base::logs(subsystem_, LogLevel::info)) return;
  machine.incidents().visit([&](const transport::Incident& incident) {
    if (!incident.at.is_never()) return;
    (void)base::memory_permitting([&] { add(LogLevel::info, text_of(incident, local)); });
  });
}

// Requests that fail together are one line.
void LogLines::add(LogLevel level, std::string text) {
  const bool repeats = !lines_.empty() && lines_.back().text == text;
  if (!repeats && lines_.size() < kMost) lines_.push_back({level, std::move(text)});
}

void LogLines::write() const noexcept {
  for (const Line& line : lines_) base::write_line(subsystem_, line.level, line.text);
}

}  // namespace weft::driver
