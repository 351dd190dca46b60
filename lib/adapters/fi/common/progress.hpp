// SPDX-License-Identifier: BSD-3-Clause
// What a completion queue or a counter has to call so that it gets completions.
#pragma once

namespace weft::fi {

// A source of completions. Any thread.
class Progress {
 public:
  virtual ~Progress() = default;
  // Takes what has completed and reports it to queues and counters. Never blocks.
  virtual void progress() noexcept = 0;
  // Makes fd() readable at the next event. Call progress() once more before sleeping.
  virtual void arm() noexcept = 0;
  // A descriptor that is readable after an event, until the next progress(); owned by the source.
  virtual int fd() const noexcept = 0;
};

}  // namespace weft::fi
