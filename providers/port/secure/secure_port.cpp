// SPDX-License-Identifier: BSD-3-Clause
// Sealing and opening of packets; secure_port_keys.cpp has the packets about keys.
#include "providers/port/secure/secure_port.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::secure {

using transport::Frame;
using transport::Path;
using transport::TxFrame;

namespace {

constexpr uint32_t kMostHeaders = 256;  // of an engine, padding included
constexpr uint16_t kAnySourcePort = 0xC000;

transport::Capabilities above(const transport::Capabilities& inner) {
  transport::Capabilities c = inner;
  c.integrity_bits = 0;  // the tag finds damage
  c.gather = c.signs = c.by_reference = false;
  c.reference_threshold = 0;
  c.telemetry = false;
  c.train_bytes -= std::min(c.train_bytes, c.train_frames * wire::kProtectionLength);
  if (c.train_bytes == 0) c.train_frames = 1;
  return c;
}

// The top 8 bits of the first queue pair numbers that have the low 16 of their own.
uint8_t prefix_of(const transport::Port& port) {
  return static_cast<uint8_t>((port.qpn_range().first + 0xFFFF) >> 16);
}

}  // namespace

SecurePort::SecurePort(std::unique_ptr<transport::Port> inner, SecurePortOptions options)
    : WrappingPort(std::move(inner)),
      capabilities_(above(inner_->capabilities())),
      library_(*options.library),
      layout_(options.layout),
      clock_(std::move(options.clock)),
      random_(options.random),
      exchange_(library_, options.secret, layout_),
      incoming_(exchange_, layout_, options.cipher, random_),
      outgoing_(exchange_, layout_, random_, options.renew_after),
      udp_port_(options.udp_port),
      prefix_(prefix_of(*inner_)),
      largest_(std::max(capabilities_.max_mtu, capabilities_.active_mtu) + kMostHeaders +
               wire::kProtectionLength),
      sealed_(size_t{capabilities_.burst} * largest_),
      opened_(kMaxBurst * size_t{largest_}) {
  const size_t addresses = 1 + inner_->further_addresses().size();
  for (size_t rail = 0; rail < addresses; ++rail)
    own_ports_.push_back(inner_->source_port(kAnySourcePort, static_cast<uint32_t>(rail)));
  out_.reserve(capabilities_.burst);
  paths_.reserve(capabilities_.burst);
  lent_.reserve(kMaxBurst);
}

Result<void> SecurePort::join(const Gid&) {
  return Error{Code::not_supported,
               "multicast cannot be protected: keys are of two endpoints; open a device without "
               "secure= for it"};
}

// ---- what is sent -------------------------------------------------------------------------------

const Path& SecurePort::keep(const Path& path) noexcept {
  if (&path == last_path_ && !paths_.empty()) return paths_.back();
  WEFT_DCHECK(paths_.size() < paths_.capacity());
  last_path_ = &path;
  return paths_.emplace_back(path);
}

bool SecurePort::flush() noexcept {
  if (sent_ != out_.size()) sent_ += inner_->transmit({out_.data() + sent_, out_.size() - sent_});
  WEFT_DCHECK(sent_ <= out_.size());
  if (sent_ != out_.size()) return false;
  out_.clear();
  paths_.clear();
  sent_ = sealed_used_ = 0;
  return true;
}

size_t SecurePort::transmit(std::span<const TxFrame> frames) noexcept {
  last_path_ = nullptr;
  last_frame_ = nullptr;
  for (size_t i = 0; i < frames.size();) {
    if (frames[i].path->in_memory) {
      if (!flush()) return i;
      size_t end = i + 1;
      while (end < frames.size() && frames[end].path->in_memory) ++end;
      const size_t taken = inner_->transmit(frames.subspan(i, end - i));
      if (taken != end - i) return i + taken;
      i = end;
    } else if (seal(frames[i])) {
      ++i;
    } else if (!flush()) {
      return i;
    } else {
      last_path_ = nullptr;
      last_frame_ = nullptr;
    }
  }
  flush();
  return frames.size();
}

bool SecurePort::seal(const TxFrame& frame) noexcept {
  const Path& path = *frame.path;
  WEFT_DCHECK(frame.span_count == 0 && frame.tail_length == 0);  // nothing is gathered
  if (out_.size() == out_.capacity()) return false;
  if (frame.head_length < layout_.header ||
      frame.head_length + wire::kProtectionLength > largest_) {
    count(tx_dropped);
    return true;
  }
  const Way way{path.source, {path.destination, byte_at(frame.head, kDestinationAt)}};
  Receiver* receiver = outgoing_.find(way);
  if (receiver == nullptr && !base::memory_permitting([&] { receiver = &outgoing_.to(way); })) {
    count(tx_dropped);
    return true;
  }
  if (receiver->asks) request_key(*receiver, path);
  if (!receiver->ready()) {
    hold(*receiver, frame);
    return true;
  }
  const uint32_t length = frame.head_length + wire::kProtectionLength;
  if (sealed_used_ + length > sealed_.size()) return false;
  std::byte* const at = &sealed_[sealed_used_];
  if (!outgoing_.seal(*receiver, frame.head, frame.head_length, at)) {
    count(tx_dropped);
    return true;
  }
  count(tx_packets);
  sealed_used_ += length;
  // A train goes on where none of its frames was left out.
  const bool joins = frame.ip_id != 0 && last_frame_ != nullptr && last_frame_ + 1 == &frame;
  TxFrame sealed;
  sealed.ip_id = joins ? static_cast<uint16_t>(out_.back().ip_id + 1) : uint16_t{0};
  sealed.path = &keep(path);
  sealed.head = at;
  sealed.head_length = length;
  sealed.ecn = frame.ecn;
  out_.push_back(sealed);
  last_frame_ = &frame;
  return true;
}

void SecurePort::hold(Receiver& receiver, const TxFrame& frame) noexcept {
  const bool held = receiver.held.size() < kMostHeld && base::memory_permitting([&] {
                      receiver.held.push_back(
                          {*frame.path, frame.ecn, {frame.head, frame.head + frame.head_length}});
                    });
  count(held ? tx_held : tx_dropped);
}

void SecurePort::send_held(Receiver& receiver) noexcept {
  const std::vector<Held> held = std::move(receiver.held);
  receiver.held.clear();
  WEFT_DCHECK(receiver.ready());
  for (const Held& each : held) {
    TxFrame frame;
    frame.path = &each.path;
    frame.head = each.bytes.data();
    frame.head_length = static_cast<uint32_t>(each.bytes.size());
    frame.ecn = each.ecn;
    if (transmit({&frame, 1}) == 0) count(tx_dropped);
  }
}

void SecurePort::send_now(const Path& path, std::span<const std::byte> bytes) noexcept {
  TxFrame frame;
  frame.path = &path;
  frame.head = bytes.data();
  frame.head_length = static_cast<uint32_t>(bytes.size());
  if (!flush() || inner_->transmit({&frame, 1}) == 0) count(tx_dropped);
}

// ---- what is received ---------------------------------------------------------------------------

size_t SecurePort::receive(std::span<Frame> frames) noexcept {
  flush();
  frames = frames.first(std::min(frames.size(), kMaxBurst));
  const size_t arrived = inner_->receive(frames);
  lent_.assign(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(arrived));
  opened_used_ = 0;
  answers_ = 0;
  size_t n = 0;
  for (const Frame& frame : lent_) {
    frames[n] = frame;
    if (open(frames[n])) ++n;
  }
  if (n == 0 && arrived != 0) {  // no frame is left for the caller to release
    inner_->release(lent_);
    lent_.clear();
  }
  return n;
}

void SecurePort::release(std::span<const Frame> frames) noexcept {
  (void)frames;  // all of the last receive()
  if (!lent_.empty()) inner_->release(lent_);
  lent_.clear();
}

//= threat:A12 nothing of a packet is used before its tag was right
bool SecurePort::open(Frame& frame) noexcept {
  if (frame.path->in_memory) return true;
  // What a switch has cut has no tag any more.
  if (layout_.trims && wire::is_trimmed(frame.path->traffic_class)) return count(rx_trimmed), false;
  if (frame.length < layout_.header + wire::kProtectionLength || frame.length > largest_ ||
      frame.more_length != 0 || frame.remote != nullptr)
    return count(rx_malformed), false;
  //= threat:A34 clear packets are not for this endpoint, whatever they say
  if ((byte_at(frame.bytes, layout_.mark_at) & layout_.mark) == 0) return count(rx_clear), false;
  const uint8_t opcode = byte_at(frame.bytes, 0);
  if (opcode == layout_.request || opcode == layout_.grant || opcode == layout_.unknown_association)
    return receive_keys(frame), false;
  std::byte* const out = &opened_[opened_used_];
  Incoming::Verdict verdict = Incoming::Verdict::unknown;
  const bool memory = base::memory_permitting(
      [&] { verdict = incoming_.open(frame.path->source, frame.bytes, frame.length, out); });
  if (!memory) return false;
  switch (verdict) {
    case Incoming::Verdict::ok:
      break;
    case Incoming::Verdict::unknown:
      count(rx_unknown_association);
      return report_unknown(frame), false;
    case Incoming::Verdict::forged:
      return count(rx_forged), false;
    case Incoming::Verdict::replayed:
      return count(rx_replayed), false;
  }
  count(rx_packets);
  frame.bytes = out;
  frame.length -= wire::kProtectionLength;
  frame.ip_id_known = true;
  opened_used_ += largest_;
  WEFT_DCHECK(opened_used_ <= opened_.size());
  return true;
}

bool SecurePort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  const bool all_sent = flush();
  return inner_->prepare_wait(descriptors, want_transmit || !all_sent);
}

void SecurePort::append_counters(std::vector<Counter>& counters) const {
  inner_->append_counters(counters);
  static constexpr const char* kNames[kCounts] = {"secure_tx_packets",
                                                  "secure_tx_held",
                                                  "secure_tx_dropped",
                                                  "secure_tx_requests",
                                                  "secure_tx_unknown_association",
                                                  "secure_rx_packets",
                                                  "secure_rx_clear",
                                                  "secure_rx_malformed",
                                                  "secure_rx_forged",
                                                  "secure_rx_replayed",
                                                  "secure_rx_unknown_association",
                                                  "secure_rx_bad_exchange",
                                                  "secure_rx_trimmed",
                                                  "secure_keys_granted",
                                                  "secure_keys_received"};
  for (size_t i = 0; i < kCounts; ++i) counters.push_back({kNames[i], counts_[i]});
}

}  // namespace weft::secure
