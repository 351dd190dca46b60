// SPDX-License-Identifier: BSD-3-Clause
// A stage in real time: the peer uses a port of weft; the end is another process, which executes
// commands received over TCP (tests/interop/puppet) on weft's device, a NIC or kernel rxe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/transport/port.hpp"
#include "tools/script/stage.hpp"

namespace weft::script {

struct LiveOptions {
  std::string wire = "roce+udp:lo";  // the peer's device string: its port carries the packets
  std::string puppet;                // HOST:PORT of the end
  std::string device;                // of the end, in the puppet's syntax
};

// Sends a command to the puppet; its answer is `ok key=value ...`.
class Puppet {
 public:
  static Result<std::unique_ptr<Puppet>> call(const std::string& host_and_port);
  ~Puppet();
  // Throws NotSupportedByEnd with the puppet's text if it refuses.
  std::map<std::string, std::string> send_command(const std::string& line);

 private:
  explicit Puppet(int fd) : fd_(fd) {}
  int fd_;
  std::string received_;
};

// State shared by all scripts of a run.
class Live {
 public:
  static Result<std::unique_ptr<Live>> open(const LiveOptions& options);
  std::unique_ptr<Stage> stage();

 private:
  friend class LiveStage;
  std::unique_ptr<transport::Port> port_;
  std::unique_ptr<Puppet> puppet_;
  std::string device_;
  uint32_t scripts_ = 0;
};

}  // namespace weft::script
