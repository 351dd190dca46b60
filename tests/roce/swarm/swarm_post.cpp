// SPDX-License-Identifier: BSD-3-Clause
// How a swarm peer makes up its requests.
#include <algorithm>
#include <cstring>

#include "tests/roce/swarm/swarm_peer.hpp"

namespace weft::test {

Opcode SwarmPeer::draw_opcode() {
  uint64_t sum = 0;
  for (const uint32_t weight : config_.weights) sum += weight;
  uint64_t pick = random_.below(sum);
  uint8_t opcode = 0;
  while (pick >= config_.weights[opcode]) pick -= config_.weights[opcode++];
  return static_cast<Opcode>(opcode);
}

// About uniform in the logarithm, with more weight on 8 bytes and around multiples of the MTU.
uint32_t SwarmPeer::draw_size() {
  const uint64_t kind = random_.below(10);
  const uint32_t mtu = config_.connect.mtu;
  uint64_t size = 0;
  if (kind < 3) {
    size = kind == 0 ? random_.below(9) : 8;
  } else if (kind < 5) {
    size = mtu * (1 + random_.below(4)) + random_.below(5) - 2;
  } else {
    uint32_t bits = 0;
    while (uint64_t{2} << bits <= config_.largest) ++bits;
    size = (uint64_t{1} << random_.below(bits + 1)) + random_.below(64);
    size += random_.below(size + 1) / 2;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(size, config_.largest));
}

void SwarmPeer::post_receives() {
  if (!answers()) return;
  while (!(pool_ ? pool_->ring : endpoint_->qp().rq).full()) {
    Slot* const slot = receive_slots_.take();
    if (slot == nullptr) return;
    const size_t shift = random_.below(64);
    const Sge sges[] = {{slot->at(shift), config_.largest / 2, LKey{home_.station->key()}},
                        {slot->at(shift + config_.largest / 2),
                         config_.largest - config_.largest / 2, LKey{home_.station->key()}}};
    receives_.push_back({next_receive_++, slot, shift, config_.largest});
    const RecvRequest receive{receives_.back().id, sges};
    const bool ok = pool_ ? bool(home_.station->engine().post_recv(*pool_, {&receive, 1}))
                          : bool(endpoint_->recv(receive));
    expect(ok, "a receive was rejected");
    if (random_.below(4) == 0) return;  // not always all at once
  }
}

// `size` bytes at `at` in up to four entries, some of them empty.
std::span<const Sge> SwarmPeer::cut(std::byte* at, uint32_t size, bool inlined) {
  const uint64_t most = std::min<uint64_t>(4, config_.qp.max_send_sge);
  const uint64_t count = 1 + (random_.below(3) == 0 ? random_.below(most) : 0);
  const LKey key{inlined ? 0 : home_.station->key()};
  uint32_t left = size;
  for (uint64_t i = 0; i < count; ++i) {
    const auto piece =
        i + 1 == count ? left : static_cast<uint32_t>(random_.below(uint64_t{left} + 1));
    sges_[i] = {at, piece, key};
    at += piece;
    left -= piece;
  }
  return {sges_, count};
}

bool SwarmPeer::post_request(bool last) {
  if (!asks() || requests_.size() >= config_.depth || endpoint_->qp().sq.full()) return false;
  Request r;
  SendRequest wr;
  wr.flags = SendFlags::none;
  r.id = wr.id = next_id_;
  r.opcode = wr.opcode = last ? Opcode::write : draw_opcode();
  if (r.opcode == Opcode::send_with_invalidate) r.opcode = wr.opcode = Opcode::send;
  if (!prepare(r, wr)) return false;
  r.signaled = last || config_.qp.signal_all || !random_.chance_ppm(config_.unsignaled_ppm) ||
               requests_.size() + 1 >= config_.depth;
  wr.flags = wr.flags | (r.signaled ? SendFlags::signaled : SendFlags::none);
  if (random_.below(10) == 0) wr.flags = wr.flags | SendFlags::fence;
  if (random_.below(10) == 0) wr.flags = wr.flags | SendFlags::solicited;
  if (!last && random_.chance_ppm(config_.bad_ppm)) spoil(r, wr);
  spoiled_ |= r.wanted != Status::success;
  if (r.consumes()) {
    wr.imm = static_cast<uint32_t>(random_.next());
    r.message = messages_++;
    other_->incoming_.push_back(
        {r.opcode, r.size, wr.imm, r.source, r.message, r.id, r.wanted != Status::success});
  }
  ++next_id_;
  ++traffic_.requests;
  traffic_.packets += r.size / config_.connect.mtu + 2;
  requests_.push_back(r);
  expect(bool(endpoint_->send(wr)), "a request was rejected");
  return true;
}

bool SwarmPeer::prepare(Request& r, SendRequest& wr) {
  wr.rkey = RKey{there_.station->key()};
  if (other_->pool_) wr.remote_srq = other_->pool_->number;
  if (r.opcode == Opcode::compare_swap || r.opcode == Opcode::fetch_add) {
    r.slot = local_slots_.take();
    if (r.slot == nullptr) return false;
    prepare_atomic(r, wr);
    return true;
  }
  r.size = draw_size();
  return prepare_transfer(r, wr);
}

void SwarmPeer::prepare_atomic(Request& r, SendRequest& wr) {
  r.size = 8;
  r.shift = random_.below(64);
  r.word = static_cast<uint32_t>(random_.below(Land::kWords));
  std::memset(r.slot->at(r.shift), static_cast<int>(Slot::kFree), 8);
  wr.sges = cut(r.slot->at(r.shift), 8, false);
  const bool add = r.opcode == Opcode::fetch_add;
  const size_t words = there_.words + (add ? 0 : Land::kWords * 8);
  wr.remote_address = there_.station->address_of(words + r.word * 8);
  if (add) {
    r.first = wr.compare_add = AddedWord::addend(random_);
  } else {
    r.first = wr.compare_add = there_.swapped[r.word].guess();
    r.second = wr.swap = there_.swapped[r.word].next_value();
  }
}

bool SwarmPeer::prepare_transfer(Request& r, SendRequest& wr) {
  r.source = random_.below(home_.pool_size - r.size + 1);
  r.shift = random_.below(64);
  const bool write = r.opcode == Opcode::write || r.opcode == Opcode::write_with_imm;
  if (write || r.opcode == Opcode::read) {
    r.slot = (write ? write_slots_ : local_slots_).take();
    if (r.slot == nullptr) return false;
    std::memset(r.slot->at(r.shift), static_cast<int>(Slot::kFree), r.size);
  }
  if (write) wr.remote_address = there_.station->address_of(r.slot->offset + r.shift);
  if (r.opcode == Opcode::read) {
    wr.remote_address = there_.station->address_of(r.source);
    // Often what a WRITE before it on this queue pair wrote, or is still writing.
    for (const Request& w : requests_) {
      if (w.opcode != Opcode::write || w.wanted != Status::success || random_.below(4) != 0)
        continue;
      r.read_from = w.slot;
      ++w.slot->users;
      r.size = w.size;
      r.source = w.source;
      std::memset(r.slot->at(r.shift), static_cast<int>(Slot::kFree), r.size);
      wr.remote_address = there_.station->address_of(w.slot->offset + w.shift);
      break;
    }
    wr.sges = cut(r.slot->at(r.shift), r.size, false);
    return true;
  }
  const bool inlined = r.size <= config_.qp.max_inline && random_.below(2) == 0;
  if (inlined) wr.flags = wr.flags | SendFlags::inline_data;
  wr.sges = cut(home_.station->at(r.source), r.size, inlined);
  return true;
}

// Makes the request one that must fail.
void SwarmPeer::spoil(Request& r, SendRequest& wr) {
  const bool atomic = r.opcode == Opcode::compare_swap || r.opcode == Opcode::fetch_add;
  const bool send = r.opcode <= Opcode::send_with_invalidate;
  const bool inlined = has(wr.flags, SendFlags::inline_data);
  if (other_->pool_ && random_.below(4) == 0) {
    wr.remote_srq ^= 1u << 23;  // no SRQ has this number
    r.wanted = Status::remote_invalid_request;
    return;
  }
  switch (random_.below(3)) {
    case 0:
      if (r.size == 0 || inlined) break;
      for (Sge& sge : sges_) sge.lkey.value ^= 0x1000;
      r.wanted = Status::local_protection_error;
      return;
    case 1:
      if (!atomic) break;
      wr.remote_address += 4;
      r.wanted = Status::remote_invalid_request;
      return;
    default:
      if (send || r.size == 0) break;
      wr.rkey.value ^= 0x40;
      r.wanted = Status::remote_access_error;
      return;
  }
}

}  // namespace weft::test
