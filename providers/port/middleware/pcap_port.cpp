// SPDX-License-Identifier: BSD-3-Clause
// Each frame is first put together in a staging buffer: its pieces may lie in user memory, which is
// read under the fault guard, and ICRC and UDP checksum need it in one piece.
#include "providers/port/middleware/pcap_port.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "lib/memory/guarded_copy.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::middleware {
namespace {

using transport::Frame;
using transport::Path;
using transport::TxFrame;

constexpr uint32_t kLargestMtu = 4096;
// The longest packet that IPv4 and UDP can carry, BTH to ICRC, less an ICRC that is added here.
constexpr uint32_t kLargestPacket = 65535 - 20 - 8 - wire::kIcrcLength;

wire::Outer outer_of(const Path& path, uint8_t ecn, uint16_t ip_id) noexcept {
  wire::Outer outer;
  outer.mac_source = wire::mac_of(path.source);
  outer.mac_destination = wire::mac_of(path.destination);
  outer.vlan = path.vlan;
  outer.traffic_class = static_cast<uint8_t>((path.traffic_class & ~3u) | (ecn & 3u));
  outer.hop_limit = path.hop_limit;
  outer.ip_id = ip_id;
  outer.source = path.source;
  outer.destination = path.destination;
  outer.source_port = path.source_port;
  outer.destination_port = path.destination_port;
  return outer;
}

// Appends to the staging buffer; once something did not fit or faulted, `good` stays false.
class Stage {
 public:
  explicit Stage(std::vector<std::byte>& buffer) noexcept : buffer_(buffer) {}

  void add(const std::byte* data, uint32_t size) noexcept {
    if (!room(size)) return;
    if (size != 0) std::memcpy(buffer_.data() + used_, data, size);
    used_ += size;
  }
  void add_user(const std::byte* data, uint32_t size) noexcept {
    if (!room(size)) return;
    good_ = memory::copy_out(buffer_.data() + used_, data, size);
    used_ += size;
  }
  void add_remote(transport::RemoteMemory& remote, uint64_t address, uint32_t size) noexcept {
    if (!room(size)) return;
    good_ = remote.pull(buffer_.data() + used_, address, size);
    used_ += size;
  }
  bool good() const noexcept { return good_; }
  uint32_t used() const noexcept { return used_; }

 private:
  bool room(uint32_t size) noexcept {
    good_ = good_ && size <= kLargestPacket - used_;
    return good_;
  }

  std::vector<std::byte>& buffer_;
  uint32_t used_ = 0;
  bool good_ = true;
};

}  // namespace

int64_t wall_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Result<std::unique_ptr<transport::Port>> PcapPort::wrap(std::unique_ptr<transport::Port> inner,
                                                        const std::string& path,
                                                        CaptureOptions options,
                                                        CaptureClock clock) {
  auto writer = wire::PcapWriter::create(path);
  if (!writer) return writer.error();
  return std::unique_ptr<transport::Port>(
      new PcapPort(std::move(inner), *std::move(writer), options, std::move(clock)));
}

PcapPort::PcapPort(std::unique_ptr<transport::Port> inner, wire::PcapWriter writer,
                   CaptureOptions options, CaptureClock clock)
    : WrappingPort(std::move(inner)),
      capabilities_(inner_->capabilities()),
      writer_(std::move(writer)),
      options_(options),
      clock_(std::move(clock)),
      staging_(kLargestPacket + wire::kIcrcLength) {
  capabilities_.max_mtu = std::min(capabilities_.max_mtu, kLargestMtu);
  capabilities_.active_mtu = std::min(capabilities_.active_mtu, kLargestMtu);
  capabilities_.signs = false;  // what is captured is whole
  capabilities_.by_reference = false;
  capabilities_.reference_threshold = 0;
}

size_t PcapPort::receive(std::span<Frame> frames) noexcept {
  const size_t count = inner_->receive(frames);
  if (count == 0) return 0;
  const int64_t now = clock_();
  for (const Frame& frame : frames.first(count)) capture_received(frame, now);
  return count;
}

void PcapPort::release(std::span<const Frame> frames) noexcept { inner_->release(frames); }

// Captured after they went: the inner port says how many it took. What the frames name stays lent
// until this call returns.
size_t PcapPort::transmit(std::span<const TxFrame> frames) noexcept {
  const size_t count = inner_->transmit(frames);
  if (count == 0) return 0;
  const int64_t now = clock_();
  for (const TxFrame& frame : frames.first(count)) capture_sent(frame, now);
  return count;
}

bool PcapPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  if (!inner_->prepare_wait(descriptors, want_transmit)) return false;
  if (unflushed_) writer_.flush();
  unflushed_ = false;
  return true;
}

void PcapPort::append_counters(std::vector<Counter>& counters) const {
  inner_->append_counters(counters);
  counters.push_back({"pcap_frames", writer_.records()});
  counters.push_back({"pcap_lost", lost_});
}

void PcapPort::capture_sent(const TxFrame& frame, int64_t time_ns) noexcept {
  Stage stage(staging_);
  stage.add(frame.head, frame.head_length);
  for (uint32_t i = 0; i < frame.span_count; ++i)
    stage.add_user(frame.spans[i].data, frame.spans[i].length);
  stage.add(frame.tail, frame.tail_length);
  if (!stage.good()) {
    ++lost_;
    return;
  }
  const uint8_t ecn = capabilities_.ecn ? frame.ecn : 0;
  wire::Outer outer = outer_of(*frame.path, ecn, frame.ip_id);
  write(outer, stage.used(), true, time_ns);
}

void PcapPort::capture_received(const Frame& frame, int64_t time_ns) noexcept {
  // Payload that lies apart belongs between the headers and what else is here (pad, ICRC).
  uint32_t headers = frame.length;
  if ((frame.more_length != 0 || frame.remote != nullptr) && frame.length >= wire::kBthLength)
    headers = std::min<uint32_t>(
        frame.length, wire::opcode_info(static_cast<uint8_t>(frame.bytes[0])).header_length);
  Stage stage(staging_);
  stage.add(frame.bytes, headers);
  stage.add_user(frame.more, frame.more_length);
  if (frame.remote) stage.add_remote(*frame.remote, frame.remote_address, frame.remote_length);
  stage.add(frame.bytes + headers, frame.length - headers);
  if (!stage.good()) {
    ++lost_;
    return;
  }
  wire::Outer outer = outer_of(*frame.path, frame.ecn, frame.ip_id);
  write(outer, stage.used(), frame.ip_id_known, time_ns);
}

// Writes the `length` bytes in the staging buffer. `id_known`: outer.ip_id is the one that the
// packet was signed with; otherwise the one that makes the ICRC right is found.
void PcapPort::write(wire::Outer& outer, uint32_t length, bool id_known, int64_t time_ns) noexcept {
  const uint16_t port = outer.destination_port;
  const bool has_icrc = capabilities_.integrity_bits != 0;
  if (!has_icrc && length >= wire::kBthLength) length += wire::kIcrcLength;
  // The ICRC covers neither the telemetry block nor what is shorter than a BTH.
  const uint32_t before = telemetry_length(staging_.data(), length, port);
  std::byte* const bytes = staging_.data();
  std::byte* const bth = bytes + before;
  const uint32_t covered_length = length - before;
  wire::OuterHeader covered{&outer.source, &outer.destination, outer.source_port, port,
                            outer.ip_id};
  if (has_icrc && !id_known && wire::icrc_verify_unknown_id(covered, bth, covered_length))
    outer.ip_id = covered.ip_id;
  const bool masks = !options_.keys;
  const bool sums = covered_length >= wire::kBthLength + wire::kIcrcLength &&
                    (!has_icrc || (masks && wire::icrc_verify(covered, bth, covered_length)));
  if (masks) mask_.apply(bytes, length, wire::kIcrcLength, port);
  if (sums) {
    const uint32_t sum = wire::icrc(covered, bth, covered_length);
    for (uint32_t i = 0; i < wire::kIcrcLength; ++i)
      bytes[length - wire::kIcrcLength + i] = static_cast<std::byte>(sum >> 8 * i);
  }
  const uint32_t kept =
      options_.payload ? length : header_bytes(bytes, length, wire::kIcrcLength, port);
  // IPv6 wants a UDP checksum; NICs send none, but decoders complain.
  if (!outer.is_ipv4()) outer.udp_checksum = wire::udp_checksum(outer, bytes, length);
  std::array<std::byte, wire::kMaxOuterLength> head;
  const uint32_t head_length = wire::emit_outer(head.data(), outer, length);
  const std::span<const std::byte> pieces[] = {{head.data(), head_length}, {bytes, length}};
  lost_ += !writer_.write(time_ns, pieces, length - kept);
  unflushed_ = true;
}

}  // namespace weft::middleware
