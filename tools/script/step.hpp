// SPDX-License-Identifier: BSD-3-Clause
// A parsed script: a title and steps, each with its line number. docs/packet-scripts.md
// describes the language.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/script/packet.hpp"
#include "weft/qp.hpp"
#include "weft/units.hpp"

namespace weft::script {

// The end's queue pair and its initial state.
struct QpText {
  QpType type = QpType::rc;
  QpState state = QpState::rts;
  uint32_t mtu = 1024;
  Access access = Access::all | Access::flush_global;
  uint8_t timeout = 18;  // about a second
  uint8_t retry = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  uint8_t max_rd = 16;         // READs and atomics outstanding, either way
  uint32_t depth = 256;        // requests, and receives
  bool credits = false;        // the end reports credits
  // Rights of the end's memory region.
  Access region = Access::all | Access::flush_global;
  bool ipv6 = false;  // addresses of both
  uint8_t dscp = 0;   // of the end's address vector
  uint8_t ttl = 64;
  uint32_t flow_label = 0;
  uint32_t line_mbps = 10'000;  // the end's link
  bool selective = false;       // both agreed to selective repeat
  uint16_t udp_source = 0;      // of the end's address vector
  uint32_t rate_mbps = 0;       // the end's rate limit; 0: none
  uint32_t max_burst = 0;       // of that limit
  std::string profile;          // the kind of device that the end is like; empty: weft
  // What a puppet has no word for.
  bool special() const {
    return credits || ipv6 || dscp != 0 || ttl != 64 || flow_label != 0 || line_mbps != 10'000 ||
           selective || udp_source != 0 || rate_mbps != 0 || !profile.empty() ||
           region != (Access::all | Access::flush_global);
  }
};

// The time window of a step, from the last step that was no wait.
struct Window {
  Duration least;
  std::optional<Duration> most;
};

struct Say {
  PacketText packet;
};
struct Expect {  // in any order
  std::vector<PacketText> packets;
  Window window;
};
struct Nothing {  // neither packet nor completion
  Duration time;
};
struct Wait {
  Duration time;
};
struct Fill {
  uint64_t offset = 0;
  Bytes data;
};
struct Memory {
  uint64_t offset = 0;
  Bytes data;
};
struct Post {
  SendRequest request;  // without its pieces; remote_address and rkey relative to the peer's
  // Offset of its data in the end's memory. None: data has a place of its own in the upper half.
  std::optional<uint32_t> from;
  uint32_t length = 0;
  std::optional<Bytes> data;  // written there before posting
};
struct Receive {
  uint64_t id = 0;
  uint32_t from = 0;
  uint32_t length = 0;
};
struct Done {
  bool receive = false;
  Status status = Status::success;
  std::optional<uint64_t> id, bytes, imm;
  Window window;
};
struct Modify {
  QpState state = QpState::rts;
};
struct State {
  QpState state = QpState::rts;
};
struct Count {
  std::string name;
  uint64_t value = 0;
};
struct Event {
  std::string name;
};
struct Virtual {};  // what follows needs exact time, or the set-up of weft's engine

using Action = std::variant<QpText, Say, Expect, Nothing, Wait, Fill, Memory, Post, Receive, Done,
                            Modify, State, Count, Event, Virtual>;

struct Step {
  size_t line = 0;
  std::string text;
  Action action;
};

struct Script {
  std::string name;   // the file
  std::string title;  // its first comment
  std::vector<Step> steps;
};

}  // namespace weft::script
