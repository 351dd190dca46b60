// SPDX-License-Identifier: BSD-3-Clause
// A port that notes each RoCEv2 message with payload that it passes on: when it began, from whom to
// whom, how long it was. The file is a flow list that `weft_sim run --flows FILE` replays: its
// columns start_ns, src, dst and bytes are the simulator's; direction, operation and the addresses
// are for people. Hosts are numbered as they appear, this one is 0; time begins with the first.
//
// A message is a SEND or a WRITE of RC, UC or UD, or the answer to a READ, and is written when its
// last packet has passed; packets that are sent again do not count.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lib/base/private_file.hpp"
#include "providers/port/middleware/wrapping_port.hpp"
#include "weft/result.hpp"

namespace weft::middleware {

using TraceClock = std::function<int64_t()>;  // ns
int64_t monotonic_clock_ns();

class TracerPort final : public WrappingPort {
 public:
  // Creates the file, which only its owner can read; %p in its name stands for the process. Errors:
  // those of base::create_private_file().
  static Result<std::unique_ptr<transport::Port>> wrap(std::unique_ptr<transport::Port> inner,
                                                       const std::string& path,
                                                       TraceClock clock = monotonic_clock_ns);

  size_t receive(std::span<transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  // Going to sleep also writes the file's buffer out.
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  // The inner port's, and tracer_messages.
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  // A queue pair as its receiver is called; answers to READs are another row of packet numbers.
  using Stream = std::tuple<Gid, Gid, uint32_t, bool>;
  struct Message {
    int64_t start_ns = 0;
    uint64_t bytes = 0;
    Psn next;            // the packet number that comes next
    bool known = false;  // whether it is
    bool open = false;   // between first and last packet
  };

  TracerPort(std::unique_ptr<transport::Port> inner, base::File file, TraceClock clock);
  void note(const transport::Path& path, const std::byte* head, uint32_t length, bool sent,
            int64_t now) noexcept;
  void follow(const transport::Path& path, const std::byte* head, uint32_t length, bool sent,
              int64_t now);
  void write(const Stream& stream, const Message& message, bool sent, const char* operation);
  uint32_t number_of(const Gid& host);

  base::File file_;
  TraceClock clock_;
  int64_t begin_ = -1;
  std::map<Gid, uint32_t> hosts_;
  std::map<Stream, Message> streams_;
  uint64_t messages_ = 0;
};

}  // namespace weft::middleware
