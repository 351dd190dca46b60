// SPDX-License-Identifier: BSD-3-Clause
// See swarm_unreliable.hpp.
#include "tests/roce/swarm/swarm_unreliable.hpp"

#include <algorithm>
#include <cstring>

namespace weft::test {

SwarmReceives::SwarmReceives(Land& land, uint32_t count, uint32_t space)
    : land_(land), space_(space) {
  slots_.create(land, count, space);
}

void SwarmReceives::share(roce::Engine& engine) {
  pool_ = std::move(*engine.create_shared_receives(
      Station::kDomain, {.max_recv_wr = slots_.size(), .max_recv_sge = 1}));
}

void SwarmReceives::refill() {
  while (endpoint_ == nullptr || !endpoint_->qp().rq.full()) {
    Slot* const slot = slots_.take();
    if (slot == nullptr) return;
    const Sge sge{slot->at(0), space_, LKey{land_.station->key()}};
    const RecvRequest request{next_id_++, {&sge, 1}};
    posted_[request.id] = slot;
    const bool ok = pool_ ? bool(land_.station->engine().post_recv(*pool_, {&request, 1}))
                          : bool(endpoint_->recv(request));
    expect(ok, "a receive was rejected");
  }
}

Slot* SwarmReceives::take(uint64_t id) {
  const auto found = posted_.find(id);
  expect(found != posted_.end(), "a receive completed twice");
  expect(pool_ != nullptr || found == posted_.begin(), "receives completed out of order");
  Slot* const slot = found->second;
  posted_.erase(found);
  return slot;
}

void SwarmReceives::check_end() {
  expect(posted_.size() == (pool_ ? pool_->ring.size() : 0), "a receive never completed");
  slots_.give_all();
}

UnreliablePeer::UnreliablePeer(const SwarmConnection& config, Land& home, Land& there,
                               uint64_t seed, bool orderly, Traffic& traffic)
    : config_(config),
      home_(home),
      there_(there),
      random_(seed),
      orderly_(orderly),
      traffic_(traffic),
      identity_(seed) {
  label_slots_.create(home, config.depth, sizeof(Label));
  target_slots_.create(there, 2 * config.depth, config.largest);
  while (Slot* const slot = target_slots_.take()) targets_.push_back(slot);
}

void UnreliablePeer::open(UnreliablePeer& other, SwarmReceives* shared) {
  other_ = &other;
  receives_ = shared;
  transport::QpConfig qp = config_.qp;
  if (shared != nullptr) {
    qp.shared = shared->pool();
  } else {
    own_receives_ = std::make_unique<SwarmReceives>(home_, config_.receives,
                                                    config_.largest + kNetworkHeaderLength);
    receives_ = own_receives_.get();
  }
  endpoint_.emplace(*home_.station, qp, 4096);
  number_ = endpoint_->qp().number;
  if (own_receives_) own_receives_->post_to(*endpoint_);
}

bool UnreliablePeer::act(bool posting) {
  bool happened = poll_received();
  happened |= poll_sent();
  if (random_.below(4) != 0) receives_->refill();  // sometimes there are too few
  if (!posting) return happened;
  for (uint64_t n = 1 + random_.below(8); n-- > 0 && post();) happened = true;
  return happened;
}

bool UnreliablePeer::poll_sent() {
  const std::vector<Completion> all = endpoint_->sent();
  for (const Completion& c : all) {
    ++traffic_.completions;
    expect(!requests_.empty() && requests_.front().number == c.id,
           "a request completed twice or out of order");
    expect(c.status == Status::success, "a request of an unreliable service failed");
    expect(c.byte_count == messages_[c.id].size, "a completion has a wrong length");
    label_slots_.give(requests_.front().label);
    requests_.pop_front();
  }
  return !all.empty();
}

bool UnreliablePeer::poll_received() {
  const std::vector<Completion> all = endpoint_->received();
  for (const Completion& c : all) on_received(c);
  return !all.empty();
}

void UnreliablePeer::on_received(const Completion& c) {
  ++traffic_.completions;
  expect(c.qp == endpoint_->qp().number, "a completion names another queue pair");
  Slot* const slot = receives_->take(c.id);
  if (c.status != Status::flushed) check(c, slot);
  receives_->give(slot);
}

void UnreliablePeer::check(const Completion& c, const Slot* slot) {
  expect(c.status == Status::success, "a receive failed without a reason");
  const uint32_t header = datagrams() ? kNetworkHeaderLength : 0;
  const bool write = has(c.flags, CompletionFlags::rdma_write);
  uint64_t number = c.imm_or_key;
  if (!write) {
    Label label;
    expect(c.byte_count >= header + sizeof label, "a message is too short");
    std::memcpy(&label, slot->at(header), sizeof label);
    expect(label.from == other_->identity_, "a message came to the wrong one");
    number = label.number;
  }
  expect(number < other_->messages_.size(), "a message arrived that was not sent");
  Message& m = other_->messages_[number];
  expect(!m.bad, "a datagram with a wrong Q_Key was delivered");
  expect(write == (m.opcode == Opcode::write_with_imm), "a message came as another operation");
  expect(c.byte_count == header + m.size, "a message has a wrong length");
  const bool imm = m.opcode != Opcode::send;
  expect(has(c.flags, CompletionFlags::with_imm) == imm, "immediate data is missing, or too much");
  expect(!imm || c.imm_or_key == static_cast<uint32_t>(number), "immediate data is wrong");
  const std::byte* const fresh = there_.station->at(m.source);
  if (!write) {
    expect(std::memcmp(slot->at(header + sizeof(Label)), fresh, m.size - sizeof(Label)) == 0,
           "the bytes of a SEND are wrong");
  } else if (orderly_ && other_->messages_.size() - number <= other_->targets_.size()) {
    expect(std::memcmp(other_->target_of(number)->at(0), fresh, m.size) == 0,
           "the bytes of a WRITE are wrong");
  }
  if (datagrams()) expect(c.source_qp == other_->number_, "another sender is named");
  expect(!orderly_ || !m.arrived, "a message came twice");
  expect(!orderly_ || datagrams() || number >= next_, "a message was overtaken");
  next_ = number + 1;
  ++(m.arrived ? other_->again_ : other_->arrived_);
  m.arrived = true;
}

bool UnreliablePeer::post() {
  if (requests_.size() >= config_.depth || endpoint_->qp().sq.full()) return false;
  Slot* const label = label_slots_.take();
  if (label == nullptr) return false;
  const uint64_t number = messages_.size();
  constexpr Opcode kOpcodes[] = {Opcode::send, Opcode::send_with_imm, Opcode::write_with_imm,
                                 Opcode::write};
  Message m{kOpcodes[random_.below(datagrams() ? 2 : 4)], 0, 0, false};
  const bool write = m.opcode == Opcode::write || m.opcode == Opcode::write_with_imm;
  const auto body = static_cast<uint32_t>(random_.below(config_.largest - sizeof(Label) + 1));
  m.size = write ? body : body + uint32_t{sizeof(Label)};
  m.source = random_.below(home_.pool_size - body + 1);
  m.bad = datagrams() && random_.below(10) == 0;
  const Label text{number, identity_};
  std::memcpy(label->at(0), &text, sizeof text);
  const Sge sges[] = {{label->at(0), sizeof(Label), LKey{home_.station->key()}},
                      {home_.station->at(m.source), body, LKey{home_.station->key()}}};
  const AddressHandle to(AddressVector{.destination = there_.station->address()});
  SendRequest r;
  r.id = number;
  r.opcode = m.opcode;
  r.sges = write ? std::span(sges).subspan(1) : std::span(sges);
  r.imm = static_cast<uint32_t>(number);
  r.to = &to;
  r.remote_qpn = other_->number_;
  r.remote_qkey = config_.connect.qkey ^ (m.bad ? 0x100 : 0);
  if (write) r.remote_address = there_.station->address_of(target_of(number)->offset);
  r.rkey = RKey{there_.station->key()};
  if (m.opcode != Opcode::write) ++(m.bad ? refused_ : good_);
  messages_.push_back(m);
  requests_.push_back({number, label});
  ++traffic_.requests;
  traffic_.packets += m.size / config_.connect.mtu + 1;
  expect(bool(endpoint_->send(r)), "a request was rejected");
  return true;
}

void UnreliablePeer::close() {
  poll_received();
  poll_sent();
  expect(requests_.empty(), "a request never completed");
  roce::Engine& engine = home_.station->engine();
  expect(engine.modify_qp(endpoint_->qp(), {.state = QpState::err}).ok(),
         "the transition to ERR was rejected");
  poll_received();
  if (own_receives_) own_receives_->check_end();
  label_slots_.give_all();
  target_slots_.give_all();
  engine.destroy_qp(&endpoint_->qp());
  endpoint_.reset();
}

}  // namespace weft::test
