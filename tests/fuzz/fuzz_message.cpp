// SPDX-License-Identifier: BSD-3-Clause
// An endpoint of lib/message against peers that send what they like, while its user sends, receives
// and cancels: no crash, no byte outside of a receive, the invariants hold after every step, each
// operation ends once, and what waits of a peer is bounded by its credits. The input says what
// happens next, and holds the messages.
#include <array>
#include <memory>
#include <vector>

#include "lib/message/endpoint.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::message;
using fuzz::require;

namespace {

constexpr Peer kPeers = 3;
constexpr Limits kLimits{.eager_bytes = 64, .inline_bytes = 32, .credits = 20, .total_credits = 8};

// What the endpoint has asked for is in flight until the input ends it.
class Net final : public Io {
 public:
  bool send(Peer to, std::span<const std::byte> header, std::span<const iovec>,
            void* operation) override {
    require(to < kPeers && read_header(header).has_value(), "a valid message to a peer");
    if (!has_room) return false;
    sent.push_back(operation);
    return true;
  }
  bool read(Peer from, uint64_t, RKey, iovec into, void* operation) override {
    require(from < kPeers && into.iov_len != 0, "a READ of something");
    if (!has_room) return false;
    std::memset(into.iov_base, 0x5A, into.iov_len);
    reads.push_back(operation);
    return true;
  }
  Result<Exposed> expose(iovec) override { return Exposed{{}, {7}}; }
  void complete(const Completed& completed) override {
    size_t& left = completed.received ? receives : sends;
    if (completed.received && !completed.released) return;
    require(left > 0, "no more ends than operations");
    --left;
  }

  bool has_room = true;
  size_t sends = 0, receives = 0;
  std::vector<void*> sent, reads;
};

// Takes one of the operations in flight; null: there is none.
void* take(std::vector<void*>& operations, uint8_t which) {
  if (operations.empty()) return nullptr;
  const size_t i = which % operations.size();
  void* const taken = operations[i];
  operations.erase(operations.begin() + static_cast<long>(i));
  return taken;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input{data, size};
  Net net;
  Endpoint endpoint(net, kLimits);
  std::vector<std::unique_ptr<std::array<char, 200>>> buffers;
  Instant now;
  while (input.left != 0) {
    const uint8_t step = input.take<uint8_t>(), detail = input.take<uint8_t>();
    const Peer peer = detail % kPeers;
    const bool tagged = (detail & 0x40) != 0;
    const uint64_t tag = tagged ? detail >> 2 & 3 : 0;
    const Code code = (detail & 0x80) != 0 ? Code::peer_failed : Code::ok;
    buffers.push_back(std::make_unique<std::array<char, 200>>());
    const iovec piece{buffers.back()->data(), detail % 200u};
    switch (step % 10) {
      case 0:
      case 1:
      case 2: {
        const size_t length = std::min<size_t>(input.take<uint8_t>(), input.left);
        const std::vector<uint8_t> bytes(input.at, input.at + length);
        input.at += length, input.left -= length;
        endpoint.on_message(peer, std::as_bytes(std::span(bytes)));
        break;
      }
      case 3:
        ++net.sends;
        require(endpoint.send({.to = peer,
                               .tagged = tagged,
                               .tag = tag,
                               .pieces = {&piece, 1},
                               .copies = (step & 0x40) != 0,
                               .until_matched = (step & 0x80) != 0}) == Code::ok,
                "a send");
        break;
      case 4:
        ++net.receives;
        require(endpoint.receive({.pattern = {.tagged = tagged,
                                              .peer = (step & 0x40) != 0 ? kAnyPeer : peer,
                                              .tag = tag,
                                              .ignore = tagged && (step & 0x20) != 0 ? 1u : 0u},
                                  .pieces = {&piece, 1},
                                  .least_room = (step & 0x80) != 0 ? 8u : 0u,
                                  .context = buffers.back().get()}) == Code::ok,
                "a receive");
        break;
      case 5:
        if (void* const operation = take(net.sent, detail)) endpoint.on_sent(operation, code);
        break;
      case 6:
        if (void* const operation = take(net.reads, detail)) endpoint.on_read(operation, code);
        break;
      case 7:
        net.has_room = (detail & 1) != 0;
        if (net.has_room) endpoint.resume();
        break;
      case 8:
        if ((detail & 0x40) != 0)
          endpoint.cancel(buffers[detail % buffers.size()].get());
        else if ((detail & 0x20) != 0)
          endpoint.forget(peer);
        else
          endpoint.on_peer_failed(peer, Code::peer_failed);
        break;
      default:
        endpoint.on_time(now = now + kLimits.probe_interval);
    }
    check_invariants(endpoint);
  }
  return 0;
}
