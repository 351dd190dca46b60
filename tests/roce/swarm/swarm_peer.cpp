// SPDX-License-Identifier: BSD-3-Clause
// Opening and closing a peer, and checking its completions. Posting is in swarm_post.cpp.
#include "tests/roce/swarm/swarm_peer.hpp"

#include <algorithm>
#include <cstring>

namespace weft::test {

void Land::lay_out(Station& owner, size_t pool, uint64_t seed) {
  station = &owner;
  pool_size = pool;
  base::Random random(seed);
  for (size_t i = 0; i < pool; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(owner.at(i), &word, 8);
  }
  words = pool;
  used = pool + 2 * kWords * 8;
}

size_t Land::take(size_t size) {
  const size_t at = used;
  used += (size + 63) & ~size_t{63};
  expect(used <= station->memory_size(), "the swarm's memory is too small");
  return at;
}

void SlotPool::create(Land& land, uint32_t count, size_t space) {
  slots_.resize(count);
  for (Slot& slot : slots_) {
    const size_t begin = land.take(space + 2 * Slot::kGuard);
    slot = {&land, begin + Slot::kGuard, space, 0};
    std::memset(land.station->at(begin), static_cast<int>(Slot::kFence), Slot::kGuard);
    std::memset(slot.at(space), static_cast<int>(Slot::kFence), Slot::kGuard);
    free_.push_back(&slot);
  }
}

Slot* SlotPool::take() {
  if (free_.empty()) return nullptr;
  Slot* const slot = free_.back();
  free_.pop_back();
  slot->users = 1;
  return slot;
}

void SlotPool::give(Slot* slot) {
  if (--slot->users != 0) return;
  const auto is_fence = [](std::byte b) { return b == Slot::kFence; };
  const std::byte* const front = slot->at(0) - Slot::kGuard;
  const std::byte* const back = slot->at(slot->space);
  expect(std::all_of(front, front + Slot::kGuard, is_fence) &&
             std::all_of(back, back + Slot::kGuard, is_fence),
         "bytes outside of a buffer were changed");
  free_.push_back(slot);
}

void SlotPool::give_all() {
  for (Slot& slot : slots_) {
    if (slot.users == 0) continue;
    slot.users = 1;
    give(&slot);
  }
}

SwarmPeer::SwarmPeer(const SwarmConnection& config, QpType type, Land& home, Land& there,
                     uint64_t seed, bool faulty, Traffic& traffic)
    : config_(config),
      type_(type),
      home_(home),
      there_(there),
      random_(seed),
      faulty_(faulty),
      traffic_(traffic) {
  const size_t space = config.largest + 64;
  write_slots_.create(there, config.depth, space);
  local_slots_.create(home, config.depth, space);
  receive_slots_.create(home, config.receives, space);
}

void SwarmPeer::open() {
  const uint32_t room = config_.qp.max_send_wr + config_.qp.max_recv_wr;
  transport::QpConfig qp = config_.qp;
  qp.type = type_;
  if (!asks()) qp.xrc_domain = kXrcDomain;
  endpoint_.emplace(*home_.station, qp, room);
  if (!asks())
    pool_ = std::move(*home_.station->engine().create_shared_receives(
        Station::kDomain, {.max_recv_wr = config_.qp.max_recv_wr, .max_recv_sge = 2},
        {kXrcDomain, &endpoint_->recv_cq()}));
  broken_ = failed_ = spoiled_ = false;
  messages_ = delivered_ = 0;
}

bool SwarmPeer::act(bool posting) {
  bool happened = poll_received();
  happened |= poll_sent();
  if (broken_) return happened;
  post_receives();
  if (!posting) return happened;
  for (uint64_t n = 1 + random_.below(16); n-- > 0 && post_request(false);) happened = true;
  return happened;
}

bool SwarmPeer::poll_received() {
  const std::vector<Completion> all = endpoint_->received();
  for (const Completion& c : all) on_received(c);
  return !all.empty();
}

bool SwarmPeer::poll_sent() {
  const std::vector<Completion> all = endpoint_->sent();
  for (const Completion& c : all) on_sent(c);
  return !all.empty();
}

void SwarmPeer::on_sent(const Completion& c) {
  ++traffic_.completions;
  expect(c.qp == endpoint_->qp().number, "a completion names another queue pair");
  // Unsignaled requests before a completion have succeeded, unless something failed.
  while (true) {
    expect(!requests_.empty() && requests_.front().id <= c.id,
           "a request completed twice, or one that was never posted");
    if (requests_.front().id == c.id) break;
    expect(!requests_.front().signaled, "a signaled request did not complete in order");
    expect(!failed_, "an unsignaled request was not flushed");
    succeed(requests_.front());
    requests_.pop_front();
  }
  Request r = requests_.front();
  requests_.pop_front();
  if (c.status != Status::success) return fail(r, c.status);
  expect(!failed_, "success after a failure");
  expect(r.signaled, "an unsignaled request completed");
  expect(c.byte_count == r.size, "a completion has a wrong length");
  succeed(r);
}

void SwarmPeer::succeed(const Request& r) {
  expect(r.wanted == Status::success, "a request succeeded that could not");
  switch (r.opcode) {
    case Opcode::write:
    case Opcode::write_with_imm:
      expect(std::memcmp(r.slot->at(r.shift), home_.station->at(r.source), r.size) == 0,
             "the bytes of a WRITE are wrong");
      break;
    case Opcode::read:
      expect(
          std::memcmp(r.slot->at(r.shift),
                      (r.read_from != nullptr ? home_ : there_).station->at(r.source), r.size) == 0,
          "the bytes of a READ are wrong");
      break;
    case Opcode::fetch_add:
    case Opcode::compare_swap: {
      uint64_t original;
      std::memcpy(&original, r.slot->at(r.shift), 8);
      if (r.opcode == Opcode::fetch_add) {
        there_.added[r.word].succeeded(r.first, original);
      } else {
        there_.swapped[r.word].succeeded(r.first, r.second, original);
      }
      break;
    }
    default:
      break;
  }
  if (r.consumes()) {
    other_->poll_received();
    expect(other_->delivered_ > r.message, "a message was acknowledged but not delivered");
  }
  release(r);
}

void SwarmPeer::release(const Request& r) {
  if (r.read_from != nullptr) write_slots_.give(r.read_from);
  if (r.slot == nullptr) return;
  const bool write = r.opcode == Opcode::write || r.opcode == Opcode::write_with_imm;
  (write ? write_slots_ : local_slots_).give(r.slot);
}

void SwarmPeer::fail(Request& r, Status status) {
  const bool first = !failed_;
  broken_ = failed_ = true;
  if (status != Status::flushed) ++traffic_.failures;
  expect(first || status == Status::flushed, "a request behind a failed one was not flushed");
  const bool spoiled = spoiled_ || other_->spoiled_;
  const bool allowed =
      status == Status::flushed || status == r.wanted ||
      (status == Status::retry_exceeded && (faulty_ || spoiled)) ||
      (status == Status::rnr_retry_exceeded && config_.connect.rnr_retry != 7 && r.consumes());
  if (!allowed) throw Violation("a request failed as " + std::string(name(status)));
  expect(status != Status::flushed || !first || spoiled || other_->broken_ ||
             endpoint_->qp().state == QpState::err,
         "the first failure of a queue pair was a flush");
  if (r.opcode == Opcode::fetch_add) there_.added[r.word].unknown(r.first);
  if (r.opcode == Opcode::compare_swap) there_.swapped[r.word].unknown(r.first, r.second);
  r.failed = true;
  leftovers_.push_back(r);
}

void SwarmPeer::on_received(const Completion& c) {
  ++traffic_.completions;
  expect(c.qp == endpoint_->qp().number, "a completion names another queue pair");
  expect(!receives_.empty() && receives_.front().id == c.id,
         "a receive completed twice or out of order");
  const Receive receive = receives_.front();
  receives_.pop_front();
  if (c.status != Status::success) {
    const bool spoiled = spoiled_ || other_->spoiled_;
    expect(c.status == Status::flushed || spoiled, "a receive failed without a reason");
    broken_ = true;
    return;
  }
  expect(!incoming_.empty(), "a message arrived that was not sent");
  const Incoming m = incoming_.front();
  incoming_.pop_front();
  expect(!m.bad, "a message was delivered that could not be");
  const bool imm = m.opcode == Opcode::send_with_imm || m.opcode == Opcode::write_with_imm;
  expect(c.byte_count == m.size, "a message has a wrong length");
  expect(has(c.flags, CompletionFlags::with_imm) == imm, "immediate data is missing, or too much");
  expect(!imm || c.imm_or_key == m.imm, "immediate data is wrong");
  if (m.opcode != Opcode::write_with_imm)
    expect(std::memcmp(receive.slot->at(receive.shift), there_.station->at(m.source), m.size) == 0,
           "the bytes of a SEND are wrong");
  ++delivered_;
  other_->check_written_before(m);
  receive_slots_.give(receive.slot);
}

// When a message is delivered, the WRITEs posted before it have landed. //= roce:C-OPS-81
void SwarmPeer::check_written_before(const Incoming& m) {
  const Request* last = nullptr;
  for (const Request& r : requests_) {
    if (r.id > m.after_request) break;
    if (r.opcode == Opcode::write || r.opcode == Opcode::write_with_imm) last = &r;
  }
  if (last != nullptr && last->wanted == Status::success)
    expect(
        std::memcmp(last->slot->at(last->shift), home_.station->at(last->source), last->size) == 0,
        "a message overtook the WRITE before it");
}

void SwarmPeer::flush() {
  poll_received();
  poll_sent();
  roce::Engine& engine = home_.station->engine();
  const Result<void> ok = engine.modify_qp(endpoint_->qp(), {.state = QpState::err});
  expect(ok.ok(), "the transition to ERR was rejected");
  broken_ = true;
  poll_received();
  poll_sent();
  expect(requests_.empty(), "a request never completed");
  expect(receives_.size() == (pool_ ? pool_->ring.size() : 0), "a receive never completed");
  receives_.clear();
  expect(endpoint_->qp().sq.empty() && endpoint_->qp().rq.empty(), "a queue is not empty in ERR");
}

// A failed request may have been carried out in part: each byte is the old or the new one.
void SwarmPeer::check_failed(const Request& r) {
  if (r.slot == nullptr || r.opcode >= Opcode::compare_swap) return;
  const bool from_home = r.opcode != Opcode::read || r.read_from != nullptr;
  const std::byte* const fresh = (from_home ? home_ : there_).station->at(r.source);
  const std::byte* const got = r.slot->at(r.shift);
  const bool none = r.wanted != Status::success && r.opcode != Opcode::read;
  for (uint32_t i = 0; i < r.size; ++i)
    expect(got[i] == Slot::kFree || (!none && got[i] == fresh[i]),
           "a failed request left bytes that are neither old nor new");
}

void SwarmPeer::close() {
  for (const Request& r : leftovers_) check_failed(r);
  leftovers_.clear();
  incoming_.clear();
  write_slots_.give_all();
  local_slots_.give_all();
  receive_slots_.give_all();
  if (pool_) home_.station->engine().withdraw(*pool_);
  pool_.reset();
  home_.station->engine().destroy_qp(&endpoint_->qp());
  endpoint_.reset();
}

std::string SwarmPeer::describe() const {
  if (!endpoint_) return "closed";
  const roce::QueuePair& qp = const_cast<Endpoint&>(*endpoint_).qp();
  const roce::Requester& req = qp.req;
  return std::string(name(qp.state)) + " " + std::to_string(requests_.size()) + " requests, " +
         std::to_string(receives_.size()) + " receives, una " + std::to_string(req.una) + " next " +
         std::to_string(req.next) + " sent " + std::to_string(req.sent_end) + " posted " +
         std::to_string(req.post_end) + " expected " + std::to_string(qp.res.expected.value) +
         (qp.active.listed ? " active" : "") + (qp.window_wait.listed ? " waiting" : "") +
         (qp.timer.armed() ? " armed" : "") + (req.rnr_until.is_never() ? "" : " rnr") +
         " in flight " + std::to_string(req.in_flight) + " of " +
         (qp.destination != nullptr ? std::to_string(qp.destination->window.in_flight) + "/" +
                                          std::to_string(qp.destination->window.size)
                                    : "-") +
         " retries " + std::to_string(req.retries_left) + " ssn limit " +
         std::to_string(req.ssn_limit) + (req.credits_unlimited ? " unlimited" : "");
}

}  // namespace weft::test
