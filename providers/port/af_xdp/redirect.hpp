// SPDX-License-Identifier: BSD-3-Clause
// The XDP program that hands this port's frames to its socket and leaves all else to the kernel. It
// is a few dozen instructions, written here, so that no compiler is needed. It is attached through
// a link that this process holds: the kernel takes it off when the process ends, however that is.
#pragma once

#include <cstdint>
#include <utility>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::port::af_xdp {

// Where the kernel runs the program: auto is in the driver where it can, else behind it.
enum class Mode : uint8_t { automatic, native, generic };

class Redirect {
 public:
  Redirect() = default;
  Redirect(Redirect&& other) noexcept { *this = static_cast<Redirect&&>(other); }
  Redirect& operator=(Redirect&& other) noexcept;
  ~Redirect();

  // Frames to `address` (or a multicast group) and UDP port `udp_port` that come to `queue` of the
  // interface go to `socket`, an AF_XDP socket. Errors: permission_denied, address_in_use (the
  // interface has a program already), not_supported, io_error. `chains`: they may come in several
  // buffers each, as the socket takes them.
  static Result<Redirect> attach(int interface, uint32_t queue, int socket, const Gid& address,
                                 uint16_t udp_port, Mode mode, bool chains);

  // Whether this process may load the program. Errors as above.
  static Result<void> probe(const Gid& address, uint16_t udp_port);

  Mode mode() const noexcept { return mode_; }  // native or generic

 private:
  Result<void> load(const Gid& address, uint16_t udp_port, bool chains);

  int map_ = -1, program_ = -1, link_ = -1;
  Mode mode_ = Mode::native;
};

}  // namespace weft::port::af_xdp
