// SPDX-License-Identifier: BSD-3-Clause
// See log_lines.hpp.
#include "lib/driver/log_lines.hpp"

#include "lib/base/clock.hpp"
#include "lib/base/log/reasons.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/driver/log_limit.hpp"

namespace weft::driver {
namespace {

// A warning: the application sees no error of its own, only timeouts.
std::string text_of_icrc_failures(const Gid& local, const Gid& peer) {
  return to_string(local) + ": every packet from " + to_string(peer) +
         " fails its ICRC and is dropped: probably something on the way translates addresses. Use "
         "a path without it, or, between weft devices, icrc=off in the device strings of both "
         "sides";
}

// Both ends: `local`, and the peer as far as the incident has one.
std::string ends_of(const transport::Incident& incident, const Gid& local) {
  std::string text = to_string(local);
  if (incident.qp.value != 0) text += " queue pair " + std::to_string(incident.qp.value);
  if (incident.peer == Gid{}) return text;
  text += " to " + to_string(incident.peer);
  if (incident.peer_qp.value != 0) text += " queue pair " + std::to_string(incident.peer_qp.value);
  return text;
}

std::string tries_of(const transport::Incident& incident) {
  std::string text;
  if (incident.retries != 0) text = " after " + std::to_string(incident.retries) + " retries";
  if (incident.waited.ps == 0) return text;
  return text + (text.empty() ? " after " : " of ") + std::to_string(incident.waited.us()) + " us";
}

std::string text_of(const transport::Incident& incident, const Gid& local) {
  std::string text = ends_of(incident, local) + ": ";
  if (incident.status == Status::success) {
    const EventType type = incident.event.type;
    return text.append(name(type)).append(": ").append(base::reason(type));
  }
  text += "a request ended in ";
  text += name(incident.status);
  text += tries_of(incident);
  text += ": ";
  const bool is_lost = incident.sign != transport::PeerSign::none;
  return text += is_lost ? transport::text_of(incident.sign) : reason(incident.status);
}

}  // namespace

void LogLines::happened(const transport::Incident& incident, const Gid& local) noexcept {
  if (base::logs(subsystem_, LogLevel::info))
    (void)base::memory_permitting([&] { add(LogLevel::info, text_of(incident, local)); });
}

void LogLines::fails_icrc(const Gid& peer, const Gid& local) noexcept {
  if (base::logs(subsystem_, LogLevel::warning))
    (void)base::memory_permitting(
        [&] { add(LogLevel::warning, text_of_icrc_failures(local, peer)); });
}

// Requests that fail together are one line.
void LogLines::add(LogLevel level, std::string text) {
  const bool repeats = !lines_.empty() && lines_.back().text == text;
  if (!repeats && lines_.size() < kMost) lines_.push_back({level, std::move(text)});
}

void LogLines::write() const noexcept {
  static LogLimit limit;
  for (const Line& line : lines_)
    if (limit.take(base::wall_now())) base::write_line(subsystem_, line.level, line.text);
}

}  // namespace weft::driver
