// SPDX-License-Identifier: BSD-3-Clause
// A stage in real time: the peer is on a port of weft, the end is another process that does what
// lines of text over TCP tell it (tests/interop/puppet), on weft's device, a NIC or kernel rxe.
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
  std::string device;                // of the end, in its own terms
};

// A line to the end and its answer: `ok key=value ...`.
class Puppet {
 public:
  static Result<std::unique_ptr<Puppet>> call(const std::string& host_and_port);
  ~Puppet();
  // Throws Unsupported with the end's words if it refuses.
  std::map<std::string, std::string> tell(const std::string& line);

 private:
  explicit Puppet(int fd) : fd_(fd) {}
  int fd_;
  std::string received_;
};

// What all scripts of a run share.
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
