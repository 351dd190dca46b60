// SPDX-License-Identifier: BSD-3-Clause
// The environment of a script: an end under test, whose queue pair can be created, used and
// queried, and a wire between the peer and the end. One stage serves one script. Throws
// NotSupportedByEnd for operations that the stage does not support, ScriptError for errors of the
// stage itself.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tools/script/step.hpp"
#include "tools/script/text.hpp"

namespace weft::script {

struct NotSupportedByEnd : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A completion: the fields that all ends have.
struct Outcome {
  bool receive = false;
  Status status = Status::success;
  uint64_t id = 0;
  uint64_t bytes = 0;
  uint64_t imm = 0;
};

class Stage {
 public:
  virtual ~Stage() = default;

  // Creates the end's queue pair and brings it to the requested state, with the first PSNs of the
  // peer and the end. Returns the connection data of both.
  virtual Meeting meet(const QpText& qp, Psn peer_first, Psn end_first) = 0;

  virtual void say(const Bytes& frame, const Meeting& meeting, const Draft& draft) = 0;
  // The end's next packet; nothing after `limit`.
  virtual std::optional<ReceivedPacket> expect(Duration limit) = 0;

  virtual void post(const Post& post, const Meeting& meeting) = 0;
  virtual void receive(const Receive& receive) = 0;
  virtual std::optional<Outcome> done(Duration limit) = 0;
  virtual void fill(uint64_t offset, const Bytes& data) = 0;
  virtual Bytes memory(uint64_t offset, size_t size) = 0;

  virtual void modify(QpState state) = 0;
  virtual QpState state() = 0;
  virtual uint64_t count(const std::string& name) = 0;
  virtual std::string event() = 0;  // name of the next event; empty: none

  virtual void wait(Duration time) = 0;
  virtual Instant now() = 0;
  // True if time is virtual: times are exact.
  virtual bool exact() const = 0;
};

// weft's own RoCE engine in virtual time.
std::unique_ptr<Stage> engine_stage();

}  // namespace weft::script
