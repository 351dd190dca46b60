// SPDX-License-Identifier: BSD-3-Clause
// One datagram as the kernel handed it over: a frame, or a train of frames merged by GRO.
// Frames point into its buffer until they are released.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/transport/frame.hpp"

namespace weft::port::udp {

struct Message {
  transport::Path path;
  std::byte* bytes = nullptr;
  uint32_t length = 0;
  uint32_t segment = 0;     // bytes of each frame; the last may be shorter
  uint32_t offset = 0;      // frames before it were handed out or forwarded
  uint32_t ours_until = 0;  // frames before it are known to be ours
  uint16_t next_id = 0;     // index in its train of the frame at the offset
};

}  // namespace weft::port::udp
