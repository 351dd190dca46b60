// SPDX-License-Identifier: BSD-3-Clause
// The matching rules of lib/message in their plainest form: two lists that are searched from the
// front. Tests compare with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft::test {

struct ReferenceMessage {
  bool tagged;
  uint32_t peer;
  uint64_t tag;
  uint64_t id;
  size_t length;
};

struct ReferenceReceive {
  bool tagged;
  std::optional<uint32_t> peer;
  uint64_t tag, ignore;
  uint64_t id;
  size_t room;
  size_t least_room;  // 0: one message
};

// A message that went into a receive.
struct ReferenceMatch {
  uint64_t receive, message;
  size_t at, length, beyond;
  auto operator<=>(const ReferenceMatch&) const = default;
};

class Reference {
 public:
  void post(ReferenceReceive receive) {
    for (size_t i = 0; i < waiting_.size();) {
      if (!fits(receive, waiting_[i])) {
        ++i;
        continue;
      }
      const bool goes_on = put(receive, waiting_[i]);
      waiting_.erase(waiting_.begin() + static_cast<long>(i));
      if (!goes_on) return;
    }
    posted_.push_back(receive);
  }

  void arrive(const ReferenceMessage& message) {
    for (size_t i = 0; i < posted_.size(); ++i)
      if (fits(posted_[i], message)) {
        if (!put(posted_[i], message)) posted_.erase(posted_.begin() + static_cast<long>(i));
        return;
      }
    waiting_.push_back(message);
  }

  bool cancel(uint64_t id) {
    return std::erase_if(posted_, [id](const auto& receive) { return receive.id == id; }) != 0;
  }

  const std::vector<ReferenceMatch>& matches() const { return matches_; }
  const std::vector<ReferenceMessage>& waiting() const { return waiting_; }
  const std::vector<ReferenceReceive>& posted() const { return posted_; }

 private:
  static bool fits(const ReferenceReceive& receive, const ReferenceMessage& message) {
    return receive.tagged == message.tagged && (!receive.peer || *receive.peer == message.peer) &&
           ((receive.tag ^ message.tag) & ~receive.ignore) == 0;
  }

  // True: the receive takes more.
  bool put(ReferenceReceive& receive, const ReferenceMessage& message) {
    const size_t used = used_[receive.id % kIds];
    const size_t length = std::min(message.length, receive.room - used);
    matches_.push_back({receive.id, message.id, used, length, message.length - length});
    used_[receive.id % kIds] = used + length;
    return receive.least_room != 0 && receive.room - used - length >= receive.least_room;
  }

  static constexpr size_t kIds = 1 << 16;
  std::vector<size_t> used_ = std::vector<size_t>(kIds);
  std::vector<ReferenceReceive> posted_;
  std::vector<ReferenceMessage> waiting_;
  std::vector<ReferenceMatch> matches_;
};

}  // namespace weft::test
