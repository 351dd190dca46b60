// SPDX-License-Identifier: BSD-3-Clause
// PAUSE and RESUME frames, and what stands still behind them. When they are sent is the buffer's
// (buffer.hpp).
#include "lib/sim/fabric/buffer.hpp"

namespace weft::sim::fabric {

// A PFC frame goes back through the port's own cable, in class 0.
void Fabric::send_pfc(uint32_t number, Event event, uint32_t c) {
  Port& port = ports_[number];
  Packet frame{};
  frame.tag.event = event;
  frame.tag.control = true;
  frame.bytes = static_cast<uint16_t>(settings_.pause_bytes);
  frame.number = port.epoch;
  frame.flow = c;
  ++counters_.pfc_sent;
  if (frame.bytes == 0) {
    if (port.faulty && lost(port, frame)) return;
    frame.at = wheel_.now() + port.delay;
    frame.target = number ^ 1;
    return wheel_.push(frame);
  }
  if (idle(port)) return transmit(number, frame);
  port.control_bytes += frame.bytes;
  port.control.push(frame, pool_);
  schedule(number, port);
}

// Takes effect after the packet being sent, and lasts until the resume frame.
bool Fabric::pfc_arrived(const Packet& frame) {
  Port& port = ports_[frame.target];
  const bool pauses = frame.tag.event == Event::pause;
  ++(pauses ? counters_.pauses : counters_.resumes);
  if (frame.number != port.epoch) return false;
  if (lanes_.empty())
    set_paused(port, pauses);
  else
    set_paused(lane(frame.target, frame.flow), pauses);
  if (pauses || port.at_host) return !pauses && port.at_host;
  if (idle(port))
    serve(frame.target);
  else
    schedule(frame.target, port);
  return false;
}

int64_t Fabric::paused_time(uint32_t number, int64_t end) const noexcept {
  const auto of = [end](const auto& port) {
    return port.paused_time + (port.paused ? end - port.paused_since : 0);
  };
  int64_t sum = of(ports_[number]);
  for (uint32_t c = 0; c < kClasses && !lanes_.empty(); ++c)
    sum += of(lanes_[size_t{number} * kClasses + c]);
  return sum;
}

bool Fabric::stuck(uint32_t number) const noexcept {
  if (ports_[number].paused && !ports_[number].data.empty()) return true;
  for (uint32_t c = 0; c < kClasses && !lanes_.empty(); ++c) {
    const Lane& lane = lanes_[size_t{number} * kClasses + c];
    if (lane.paused && !lane.data.empty()) return true;
  }
  return false;
}

}  // namespace weft::sim::fabric
