// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of lib/message joined by queues in memory: SENDs to a peer arrive in order and at a
// random time, READs end in any order, and there is room only sometimes. Each member keeps what has
// completed, and a Reference that is told of each message when it arrives. The endpoints'
// invariants are checked after every event.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/message/endpoint.hpp"
#include "tests/message/message_reference.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {

class MessageNet;

// One endpoint and its side of the queues.
class MessageMember final : public message::Io {
 public:
  MessageMember(MessageNet& net, message::Peer own, const message::Limits& limits)
      : net_(net), own_(own), endpoint(*this, limits) {}

  bool send(message::Peer to, std::span<const std::byte> header, std::span<const iovec> payload,
            void* operation) override;
  bool read(message::Peer from, uint64_t address, RKey key, iovec into, void* operation) override;
  Result<message::Exposed> expose(iovec memory) override;
  void complete(const message::Completed& completed) override { done.push_back(completed); }

  // The peers of the SENDs since the last call.
  std::vector<message::Peer> take_sent() { return std::exchange(sent_, {}); }

  std::vector<message::Completed> done;
  Reference reference;
  size_t loses = 0;  // the next SENDs fail instead of arriving

 private:
  friend class MessageNet;
  struct Sent {
    message::Peer to;
    std::vector<std::byte> bytes;
    void* operation;
  };
  struct Read {
    message::Peer from;
    uint64_t address;
    uint32_t key;
    iovec into;
    void* operation;
  };
  MessageNet& net_;
  const message::Peer own_;
  std::map<message::Peer, std::deque<Sent>> wire_;
  std::vector<std::pair<void*, Code>> acknowledged_;
  std::vector<Read> reads_;
  size_t in_flight_ = 0;
  std::vector<message::Peer> sent_;

 public:
  message::Endpoint endpoint;
};

class MessageNet {
 public:
  MessageNet(uint64_t seed, size_t members, const message::Limits& limits, size_t room)
      : random(seed), room_(room) {
    for (size_t i = 0; i < members; ++i)
      members_.push_back(
          std::make_unique<MessageMember>(*this, static_cast<message::Peer>(i), limits));
  }

  MessageMember& operator[](size_t i) { return *members_[i]; }

  // Lets one random thing happen: an arrival, an acknowledgement, the end of a READ, room.
  void step() {
    happen();
    if (checks)
      for (const auto& member : members_) check_invariants(member->endpoint);
  }
  // Until nothing is in flight.
  void settle() {
    for (int idle = 0; idle < 2000;) {
      const size_t before = events_;
      step();
      idle = events_ == before ? idle + 1 : 0;
    }
  }

  base::Random random;
  bool checks = true;  // off where a walk over what waits is long

 private:
  friend class MessageMember;
  struct Region {
    iovec memory;
    bool valid = true;
  };

  void happen() {
    MessageMember& member = *members_[random.below(members_.size())];
    switch (random.below(4)) {
      case 0:
        return arrive(member);
      case 1:
        return acknowledge(member);
      case 2:
        return end_read(member);
      default:
        return member.endpoint.resume();
    }
  }

  void arrive(MessageMember& member) {
    for (auto& [to, queue] : member.wire_) {
      if (queue.empty() || random.below(2) == 0) continue;
      ++events_;
      const MessageMember::Sent sent = std::move(queue.front());
      queue.pop_front();
      MessageMember& receiver = *members_[to];
      const auto header = message::read_header(sent.bytes);
      REQUIRE(header);
      const size_t payload = sent.bytes.size() - message::kHeaderSize;
      if (header->kind == message::Kind::eager || header->kind == message::Kind::announce)
        receiver.reference.arrive(
            {header->tagged, member.own_, header->tag, header->data,
             header->kind == message::Kind::eager ? payload : header->length});
      receiver.endpoint.on_message(member.own_, sent.bytes);
      member.acknowledged_.emplace_back(sent.operation, Code::ok);
      return;
    }
  }

  void acknowledge(MessageMember& member) {
    if (member.acknowledged_.empty()) return;
    ++events_;
    const size_t i = random.below(member.acknowledged_.size());
    const auto [operation, code] = member.acknowledged_[i];
    member.acknowledged_.erase(member.acknowledged_.begin() + static_cast<long>(i));
    --member.in_flight_;
    member.endpoint.on_sent(operation, code);
  }

  void end_read(MessageMember& member) {
    if (member.reads_.empty()) return;
    ++events_;
    const size_t i = random.below(member.reads_.size());
    const MessageMember::Read read = member.reads_[i];
    member.reads_.erase(member.reads_.begin() + static_cast<long>(i));
    const Region& region = regions_.at(read.key);
    REQUIRE(region.valid);
    REQUIRE(read.address >= reinterpret_cast<uintptr_t>(region.memory.iov_base));
    REQUIRE(read.address + read.into.iov_len <=
            reinterpret_cast<uintptr_t>(region.memory.iov_base) + region.memory.iov_len);
    std::memcpy(read.into.iov_base, reinterpret_cast<const void*>(read.address), read.into.iov_len);
    --member.in_flight_;
    member.endpoint.on_read(read.operation, Code::ok);
  }

  std::map<uint32_t, Region> regions_;  // outlives the members, which withdraw theirs
  std::vector<std::unique_ptr<MessageMember>> members_;
  size_t room_;
  size_t events_ = 0;
};

inline bool MessageMember::send(message::Peer to, std::span<const std::byte> header,
                                std::span<const iovec> payload, void* operation) {
  if (in_flight_ >= net_.room_ || net_.random.below(8) == 0) return false;
  ++in_flight_;
  sent_.push_back(to);
  if (loses > 0) {
    --loses;
    acknowledged_.emplace_back(operation, Code::peer_failed);
    return true;
  }
  std::vector<std::byte> bytes(header.begin(), header.end());
  for (const iovec& piece : payload) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), from, from + piece.iov_len);
  }
  wire_[to].push_back({to, std::move(bytes), operation});
  return true;
}

inline bool MessageMember::read(message::Peer from, uint64_t address, RKey key, iovec into,
                                void* operation) {
  if (in_flight_ >= net_.room_ || net_.random.below(8) == 0) return false;
  ++in_flight_;
  reads_.push_back({from, address, key.value, into, operation});
  return true;
}

inline Result<message::Exposed> MessageMember::expose(iovec memory) {
  const auto key = static_cast<uint32_t>(net_.regions_.size() + 1);
  net_.regions_[key] = {memory};
  const auto withdraw = [&net = net_, key](const void*) { net.regions_.at(key).valid = false; };
  return message::Exposed{std::shared_ptr<const void>(this, withdraw), {key}};
}

}  // namespace weft::test
