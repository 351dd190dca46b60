// SPDX-License-Identifier: BSD-3-Clause
// A port that writes every frame it passes on to a capture file that tshark and tcpdump read. The
// outer headers are made from the path, so the file shows RoCEv2 over IPv4 or IPv6 whatever the
// port below carries. The frames themselves pass unchanged.
//
// Keys in headers are masked and payload is written, unless the options say otherwise; the ICRC in
// the file is that of what is written, if that of the packet was right.
//
// Ports without an ICRC (shared memory) get one in the file only: what crosses the port stays as it
// was, so one side of a connection may capture while the other does not.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/wire/encapsulation.hpp"
#include "lib/wire/pcap_file.hpp"
#include "providers/port/middleware/capture_mask.hpp"
#include "providers/port/middleware/wrapping_port.hpp"

namespace weft::middleware {

// Nanoseconds for the records, read once per burst.
using CaptureClock = std::function<int64_t()>;
int64_t wall_clock_ns();

class PcapPort final : public WrappingPort {
 public:
  // Creates the file. Errors as PcapWriter::create().
  static Result<std::unique_ptr<transport::Port>> wrap(std::unique_ptr<transport::Port> inner,
                                                       const std::string& path,
                                                       CaptureOptions options = {},
                                                       CaptureClock clock = wall_clock_ns);

  // As the inner port, but frames stay within what IP can carry (MTU 4096) and come with their
  // payload (no by_reference).
  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  // Going to sleep also writes the file's buffer out.
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  // The inner port's, and pcap_frames, pcap_lost (frames that are not in the file).
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  PcapPort(std::unique_ptr<transport::Port> inner, wire::PcapWriter writer, CaptureOptions options,
           CaptureClock clock);
  void capture_sent(const transport::TxFrame& frame, int64_t time_ns) noexcept;
  void capture_received(const transport::Frame& frame, int64_t time_ns) noexcept;
  void write(wire::Outer& outer, uint32_t length, bool id_known, int64_t time_ns) noexcept;

  transport::Capabilities capabilities_;
  wire::PcapWriter writer_;
  const CaptureOptions options_;
  const KeyMask mask_;
  CaptureClock clock_;
  std::vector<std::byte> staging_;  // one packet, BTH to ICRC
  uint64_t lost_ = 0;
  bool unflushed_ = false;
};

}  // namespace weft::middleware
