// SPDX-License-Identifier: BSD-3-Clause
// Where a script is played: an end under test, whose queue pair can be made, told and asked, and a
// wire on which the peer says packets and hears the end's. One stage serves one script. What a
// stage cannot do throws Unsupported; what goes wrong with the stage itself throws Complaint.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tools/script/step.hpp"
#include "tools/script/text.hpp"

namespace weft::script {

struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A completion, in what the ends have in common.
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

  // Makes the end's queue pair and walks it to the state that is asked for, with the peer's first
  // PSN and its own. Returns what both sides know of each other.
  virtual Meeting meet(const QpText& qp, Psn peer_first, Psn end_first) = 0;

  virtual void say(const Bytes& frame, const Meeting& meeting, const Draft& draft) = 0;
  // The end's next packet; nothing if none came within the time.
  virtual std::optional<Heard> hear(Duration limit) = 0;

  virtual void post(const Post& post, const Meeting& meeting) = 0;
  virtual void receive(const Receive& receive) = 0;
  virtual std::optional<Outcome> done(Duration limit) = 0;
  virtual void fill(uint64_t offset, const Bytes& data) = 0;
  virtual Bytes memory(uint64_t offset, size_t size) = 0;

  virtual void modify(QpState state) = 0;
  virtual QpState state() = 0;
  virtual uint64_t count(const std::string& name) = 0;
  virtual std::string event() = 0;  // the next one's name; empty: none

  virtual void wait(Duration time) = 0;
  virtual Instant now() = 0;
  // Time is virtual: what a script says of it is exact.
  virtual bool exact() const = 0;
};

// weft's own RoCE engine in virtual time.
std::unique_ptr<Stage> engine_stage();

}  // namespace weft::script
