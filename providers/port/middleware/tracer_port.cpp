// SPDX-License-Identifier: BSD-3-Clause
// Payload is what a frame holds beyond its headers, pad and ICRC.
#include "providers/port/middleware/tracer_port.hpp"

#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <ctime>

#include "lib/base/memory_permitting.hpp"
#include "lib/wire/headers.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::middleware {
namespace {

using transport::Frame;
using transport::Path;
using transport::TxFrame;
using wire::Operation;

constexpr uint16_t kRoceUdpPort = 4791;

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::send:
      return "send";
    case Operation::write:
      return "write";
    case Operation::read_response:
      return "read";
    default:
      return nullptr;  // no payload of a message
  }
}

}  // namespace

int64_t monotonic_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Result<std::unique_ptr<transport::Port>> TracerPort::wrap(std::unique_ptr<transport::Port> inner,
                                                          const std::string& path,
                                                          TraceClock clock) {
  std::string own = path;
  if (const size_t at = own.find("%p"); at != std::string::npos)
    own.replace(at, 2, std::to_string(getpid()));
  Result<base::File> file = base::create_private_file(own, "flow list");
  if (!file) return file.error();
  std::fputs("start_ns,src,dst,bytes,direction,operation,source,destination\n", file->get());
  return std::unique_ptr<transport::Port>(
      new TracerPort(std::move(inner), *std::move(file), std::move(clock)));
}

TracerPort::TracerPort(std::unique_ptr<transport::Port> inner, base::File file, TraceClock clock)
    : WrappingPort(std::move(inner)), file_(std::move(file)), clock_(std::move(clock)) {
  number_of(inner_->address());
}

size_t TracerPort::receive(std::span<Frame> frames) noexcept {
  const size_t count = inner_->receive(frames);
  if (count == 0) return 0;
  const int64_t now = clock_();
  for (const Frame& frame : frames.first(count))
    note(*frame.path, frame.bytes, frame.length + frame.more_length + frame.remote_length, false,
         now);
  return count;
}

size_t TracerPort::transmit(std::span<const TxFrame> frames) noexcept {
  const size_t count = inner_->transmit(frames);
  if (count == 0) return 0;
  const int64_t now = clock_();
  for (const TxFrame& frame : frames.first(count)) {
    uint32_t length = frame.head_length + frame.tail_length;
    for (uint32_t i = 0; i < frame.span_count; ++i) length += frame.spans[i].length;
    note(*frame.path, frame.head, length, true, now);
  }
  return count;
}

// Out of memory: the row is left out, the frame is passed on.
void TracerPort::note(const Path& path, const std::byte* head, uint32_t length, bool sent,
                      int64_t now) noexcept {
  (void)base::memory_permitting([&] { follow(path, head, length, sent, now); });
}

// `head`: the headers at least; `length`: of the whole frame.
void TracerPort::follow(const Path& path, const std::byte* head, uint32_t length, bool sent,
                        int64_t now) {
  if (path.destination_port != kRoceUdpPort || length < wire::kBthLength) return;
  wire::Bth bth;
  std::memcpy(&bth, head, sizeof bth);
  const wire::OpcodeInfo& info = wire::opcode_info(bth.opcode);
  const char* const operation = name_of(info.operation);
  if (operation == nullptr) return;
  const uint32_t around = info.header_length + bth.pad() +
                          (inner_->capabilities().integrity_bits != 0 ? wire::kIcrcLength : 0);
  if (length < around) return;
  const Gid& source = path.source;
  const Gid& destination = path.destination;
  const Stream stream = {source, destination, static_cast<uint32_t>(bth.dest_qpn),
                         info.operation == Operation::read_response};
  Message& message = streams_[stream];
  const Psn psn{static_cast<uint32_t>(bth.psn)};
  if (message.known && psn - message.next < 0) return;  // sent again
  message.known = true;
  message.next = psn + 1;
  if (begin_ < 0) begin_ = now;
  if (info.starts_message()) message = {now - begin_, 0, message.next, true, true};
  if (!message.open) return;
  message.bytes += length - around;
  if (!info.ends_message()) return;
  message.open = false;
  if (message.bytes != 0) write(stream, message, sent, operation);
}

void TracerPort::write(const Stream& stream, const Message& message, bool sent,
                       const char* operation) {
  const Gid& source = std::get<0>(stream);
  const Gid& destination = std::get<1>(stream);
  const uint32_t from = number_of(source);
  const uint32_t to = number_of(destination);
  if (from == to) return;  // crosses no network
  ++messages_;
  std::fprintf(file_.get(), "%" PRId64 ",%u,%u,%" PRIu64 ",%s,%s,%s,%s\n", message.start_ns, from,
               to, message.bytes, sent ? "out" : "in", operation, to_string(source).c_str(),
               to_string(destination).c_str());
}

uint32_t TracerPort::number_of(const Gid& host) {
  return hosts_.emplace(host, static_cast<uint32_t>(hosts_.size())).first->second;
}

bool TracerPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  if (!inner_->prepare_wait(descriptors, want_transmit)) return false;
  std::fflush(file_.get());
  return true;
}

void TracerPort::append_counters(std::vector<Counter>& counters) const {
  inner_->append_counters(counters);
  counters.push_back({"tracer_messages", messages_});
}

}  // namespace weft::middleware
