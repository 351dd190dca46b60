// SPDX-License-Identifier: BSD-3-Clause
// PAUSE and RESUME frames. shared_buffer.hpp decides when they are sent.
#include "lib/base/check.hpp"
#include "lib/sim/fabric/fabric.hpp"
namespace weft::sim::fabric {

// A PFC frame goes back through the port's own cable, in class 0.
void Fabric::send_pfc(uint32_t number, Event event, uint32_t c) {
  Port& port = ports_[number];
  WEFT_DCHECK(!port.at_host);
  Packet frame{};
  frame.tag.event = event;
  frame.tag.control = true;
  frame.bytes = static_cast<uint16_t>(settings_.pause_bytes);
  frame.number = port.fault.pfc_epoch;
  frame.flow = c;
  WEFT_DCHECK(settings_.pfc && (event == Event::pause || event == Event::resume));
  ++counters_.pfc_sent;
  if (frame.bytes == 0) {
    if (port.faulty && link_loses(port, frame)) return;
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
  if (frame.number != port.fault.pfc_epoch) return false;
  if (classes_.enabled())
    set_paused(classes_.queue(frame.target, frame.flow), pauses, wheel_.now());
  else
    set_paused(port, pauses, wheel_.now());
  if (pauses || port.at_host) return !pauses && port.at_host;
  if (idle(port))
    serve(frame.target);
  else
    schedule(frame.target, port);
  return false;
}

}  // namespace weft::sim::fabric
