// SPDX-License-Identifier: BSD-3-Clause
// Queue pair 1 of the engine, the general service interface (GSI): management datagrams (MADs) to
// and from the services that are attached. It has no receives and no completions: a datagram that
// cannot be delivered at once is dropped.
#pragma once

#include "lib/roce/state/engine_state.hpp"
#include "lib/roce/state/general_services.hpp"
#include "lib/transport/frame_builder.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

class Gsi {
 public:
  void attach(GeneralServices* services) noexcept { services_ = services; }
  GeneralServices* services() const noexcept { return services_; }
  bool wants_transmit() const noexcept {
    return services_ != nullptr && services_->wants_transmit();
  }
  // A packet to queue pair 1; services are attached.
  void receive(EngineState& engine, const wire::Packet& packet, const Frame& frame,
               Instant now) noexcept;
  // Sends the MADs of the attached services while there is room. `migrated`: their MigReq.
  void transmit(Port& port, FrameBuilder& out, bool migrated) noexcept;

 private:
  GeneralServices* services_ = nullptr;
  Psn next_psn_;
};

}  // namespace weft::roce
