// SPDX-License-Identifier: BSD-3-Clause
// An entry in the maps of the interface's XDP program (program.hpp), which redirects this port's
// frames to its socket. The first device of an interface attaches the program; devices on other
// queues, also of other processes, share it: each holds the bpf_link. The kernel detaches the
// program when the last link closes, and removes a socket's entry with the socket.
#pragma once

#include <cstdint>
#include <utility>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::port::af_xdp {

// XDP mode: native (in the driver), generic (after skb allocation), automatic: native if supported.
enum class Mode : uint8_t { automatic, native, generic };

struct RedirectOptions {
  int interface = 0;  // its index
  uint32_t queue = 0;
  int socket = -1;           // an AF_XDP socket of that queue
  Gid address;               // frames to it, or to a multicast group,
  uint16_t udp_port = 4791;  // and to this port go to the socket
  Mode mode = Mode::automatic;
  bool chains = false;  // multi-buffer frames
};

class Redirect {
 public:
  Redirect() = default;
  Redirect(Redirect&& other) noexcept { *this = static_cast<Redirect&&>(other); }
  Redirect& operator=(Redirect&& other) noexcept;
  ~Redirect();

  // Errors: permission_denied, address_in_use (the interface has a program that is not ours),
  // invalid_argument (ours runs in another mode), not_supported, io_error.
  static Result<Redirect> attach(const RedirectOptions& options);

  // Whether this process may load the program. Errors as above.
  static Result<void> probe();

  Mode mode() const noexcept { return mode_; }  // native or generic

 private:
  Result<void> load(bool chains);
  Result<bool> attach_new(const RedirectOptions& options);
  Result<bool> join(int interface);  // false: it has none
  bool find_maps(const uint32_t* ids, uint32_t count);
  bool find_link(uint32_t program);
  Result<void> add_socket(const RedirectOptions& options) const;

  int users_ = -1, sockets_ = -1, program_ = -1, link_ = -1;
  Mode mode_ = Mode::native;
};

}  // namespace weft::port::af_xdp
