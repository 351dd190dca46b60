// SPDX-License-Identifier: BSD-3-Clause
// A stage in real time: the peer uses a port of weft; the end is another process, which executes
// commands received over TCP (responder.hpp) on weft's device, a NIC or the kernel's rxe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/transport/port.hpp"
#include "tools/script/stage.hpp"

namespace weft::script {

struct LiveOptions {
  // The peer's device string: its port carries the packets. Empty: roce+udp on the address of this
  // host from which packets go to the end.
  std::string wire;
  std::string responder;  // HOST or HOST:PORT of the end
  std::string device;     // of the end, in its syntax; empty: the one it was started with
};

// Sends commands to a responder; its answer is `ok key=value ...`.
class ResponderClient {
 public:
  // `where`: HOST or HOST:PORT. Errors: not_found.
  static Result<std::unique_ptr<ResponderClient>> connect(const std::string& where);
  ~ResponderClient();
  // Throws NotSupportedByEnd with the responder's text if it refuses, ScriptError if it has gone.
  std::map<std::string, std::string> send_command(const std::string& line);

 private:
  explicit ResponderClient(int fd) : fd_(fd) {}
  int fd_;
  std::string received_;
};

// State shared by all scripts of a run.
class Live {
 public:
  static Result<std::unique_ptr<Live>> open(const LiveOptions& options);
  std::unique_ptr<Stage> stage();
  const std::string& wire() const { return wire_; }  // the device string of the peer
  const std::string& end() const { return end_; }    // the GID of the end

 private:
  friend class LiveStage;
  std::unique_ptr<transport::Port> port_;
  std::map<std::string, std::string> open_end();
  Result<void> open_wire();

  std::unique_ptr<ResponderClient> responder_;
  std::string device_, wire_, end_;
  uint32_t scripts_ = 0;
};

}  // namespace weft::script
