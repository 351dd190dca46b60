// SPDX-License-Identifier: BSD-3-Clause
// The applications of the SRD swarm: they post, look at completions, and hold them against what may
// be true.
#include "lib/srd/invariants.hpp"
#include "tests/srd/swarm/srd_swarm.hpp"
#include "tests/virtual_time/pair.hpp"

namespace weft::test {

void SrdSwarm::look(uint32_t i) {
  for (const Completion& c : net_.stations[i]->sent()) on_sent(i, c);
  for (const Completion& c : net_.stations[i]->received()) on_received(i, c);
}

void SrdSwarm::step(uint32_t i) {
#ifndef NDEBUG
  srd::check_invariants(net_.stations[i]->engine());
#endif
  look(i);
  Application& app = apps_[i];
  // A slow application: senders often find no receive.
  while (!app.waiting.empty() && (draining_ || random_.below(8) == 0)) {
    expect_receive(i, app.waiting.back());
    app.waiting.pop_back();
  }
  if (draining_) return part(i);
  if (net_.network.now() < silent_until_) return;
  while (traffic_.requests < config_.requests && !app.free.empty() && random_.below(4) != 0)
    post(i, static_cast<uint32_t>(random_.below(net_.stations.size())));
}

// In the end each station sends one more message to each, until it succeeds: then no receiver waits
// for the rest of a message of a dead process.
void SrdSwarm::part(uint32_t i) {
  Application& app = apps_[i];
  if (app.free.size() != kDepth) return;
  for (uint32_t to = 0; to < app.parted.size(); ++to)
    if (!app.parted[to]) return post(i, to);
}

void SrdSwarm::expect_receive(uint32_t i, uint64_t slot) {
  SrdStation& me = *net_.stations[i];
  std::memset(me.at(inbox(slot)), 0xEE, 64);
  expect(me.recv(slot, me.sge(inbox(slot), kMost)).accepted == 1, "a receive could not be posted");
  ++apps_[i].posted_receives;
}

void SrdSwarm::post(uint32_t i, uint32_t to) {
  Application& app = apps_[i];
  const uint32_t slot = app.free.back();
  Request& q = app.live[slot];
  q = {};
  q.to = to;
  q.last = draining_;
  q.disturbances = apps_[q.to].disturbances;
  q.met = app.met[q.to] == q.disturbances;
  Sge sge;
  const SendRequest r = request(i, slot, sge);
  expect(net_.stations[i]->post(*net_.stations[q.to], r).accepted == 1,
         "a request could not be posted");
  q.pending = true;
  app.free.pop_back();
  ++traffic_.requests;
}

SendRequest SrdSwarm::request(uint32_t i, uint32_t slot, Sge& sge) {
  Request& q = apps_[i].live[slot];
  SrdStation& me = *net_.stations[i];
  SrdStation& to = *net_.stations[q.to];
  constexpr Opcode kOps[] = {Opcode::send,          Opcode::send_with_imm, Opcode::write,
                             Opcode::read,          Opcode::fetch_add,     Opcode::write_add,
                             Opcode::write_with_imm};
  q.opcode = q.last ? Opcode::send : kOps[random_.below(7)];
  const uint32_t most = !q.last && random_.below(3) == 0 ? kMost : 300;
  q.length = 16 + static_cast<uint32_t>(random_.below(most - 16));
  q.pattern = ~uint64_t{0} - random_.below(uint64_t{1} << 40);
  const bool sends = q.opcode == Opcode::send || q.opcode == Opcode::send_with_imm;
  if (!q.last && random_.below(1'000'000) < config_.flawed_ppm)
    q.flaw = sends ? Flaw::too_long : Flaw::key;
  if (q.flaw == Flaw::too_long) q.length = kSlot + 1 + static_cast<uint32_t>(random_.below(kMost));
  SendRequest r;
  r.id = slot;
  r.opcode = q.opcode;
  r.rkey = RKey{q.flaw == Flaw::key ? ~to.key() : to.key()};
  r.remote_address = to.address_of(written(i, apps_[i].lives, slot));
  r.flags = SendFlags::signaled;
  if ((sends || q.opcode == Opcode::write_add) && random_.below(2) == 0)
    r.flags = r.flags | SendFlags::ordered;
  if (sends || q.opcode == Opcode::write_with_imm) note_sent(i, q, r);
  // One that is too long leaves from two slots.
  std::byte* const from = me.at(source(q.flaw == Flaw::too_long ? 0 : slot));
  if (q.flaw != Flaw::too_long) describe_operation(i, q, r, from);
  sge = {from, q.length, me.sge(0, 1).lkey};
  r.sges = {&sge, 1};
  return r;
}

// What is wanted where, and the bytes that leave.
void SrdSwarm::describe_operation(uint32_t i, Request& q, SendRequest& r, std::byte* from) {
  SrdStation& to = *net_.stations[q.to];
  const auto slot = static_cast<uint32_t>(r.id);
  if (q.opcode == Opcode::read) {
    r.remote_address = to.address_of(readable(i, slot));
    fill(to.at(readable(i, slot)), q.length, q.pattern);
  } else if (q.opcode == Opcode::fetch_add) {
    q.addend = r.compare_add = AddedWord::addend(random_);
    q.length = 8;
    r.remote_address = to.address_of(kWord);
  } else if (q.opcode == Opcode::write_add) {
    q.addend = AddedWord::addend(random_);
    q.length = 8 * (1 + static_cast<uint32_t>(random_.below(kAddWords)));
    r.element = Element::int64;
    r.remote_address = to.address_of(kAdded);
    for (uint32_t at = 0; at < q.length; at += 8) std::memcpy(from + at, &q.addend, 8);
  } else {
    fill(from, q.length, q.pattern);
    // What the receiver expects.
    std::memcpy(from, &q.pattern, 8);
  }
}

void SrdSwarm::note_sent(uint32_t i, Request& q, SendRequest& r) {
  q.pattern = uint64_t{sent_.size()} << 20 | random_.below(1u << 20);
  r.imm = static_cast<uint32_t>(q.pattern);
  r.imm_high = static_cast<uint32_t>(q.pattern >> 32);
  Sent sent{.pattern = q.pattern, .from = i, .to = q.to, .length = q.length};
  sent.disturbances = q.disturbances;
  sent.is_write = q.opcode == Opcode::write_with_imm;
  sent.ordered = has(r.flags, SendFlags::ordered);
  sent_.push_back(sent);
}

void SrdSwarm::on_sent(uint32_t i, const Completion& c) {
  expect(c.id < kDepth && apps_[i].live[c.id].pending, "a request completed twice");
  const auto slot = static_cast<uint32_t>(c.id);
  Request& q = apps_[i].live[slot];
  q.pending = false;
  ++traffic_.completions;
  if (c.status == Status::success) {
    expect(q.flaw == Flaw::none, "a request succeeded that could not");
    succeed(i, slot, q);
  } else {
    if (!excused(i, q, c.status))
      throw Violation("a request of opcode " + std::to_string(static_cast<int>(q.opcode)) +
                      " from " + std::to_string(i) + " to " + std::to_string(q.to) +
                      " failed for no reason, with status " +
                      std::to_string(static_cast<int>(c.status)));
    leave_unknown(q);
    if (c.status != Status::flushed) ++traffic_.failures;
  }
  apps_[i].free.push_back(slot);
}

void SrdSwarm::succeed(uint32_t i, uint32_t slot, const Request& q) {
  const std::byte* const here = net_.stations[i]->at(source(slot));
  SrdStation& to = *net_.stations[q.to];
  Application& app = apps_[i];
  if (q.last) app.parted[q.to] = true;
  if (q.disturbances == apps_[q.to].disturbances) app.met[q.to] = q.disturbances;
  if (q.opcode == Opcode::write || q.opcode == Opcode::write_with_imm) {
    const std::byte* const there = to.at(written(i, app.lives, slot));
    const auto wrong =
        static_cast<uint32_t>(std::mismatch(here, here + q.length, there).first - here);
    if (wrong != q.length)
      throw Violation("a WRITE of " + std::to_string(q.length) + " bytes from " +
                      std::to_string(i) + " to " + std::to_string(q.to) + " succeeded, and byte " +
                      std::to_string(wrong) + " is wrong");
  } else if (q.opcode == Opcode::read) {
    expect(std::memcmp(here, to.at(readable(i, slot)), q.length) == 0,
           "a READ succeeded with other bytes");
  } else if (q.opcode == Opcode::fetch_add) {
    uint64_t original;
    std::memcpy(&original, here, 8);
    apps_[q.to].added.succeeded(q.addend, original);
  } else if (q.opcode == Opcode::write_add) {
    for (uint32_t w = 0; w < q.length / 8; ++w) apps_[q.to].sums[w].succeeded(q.addend);
  }
  if (q.pattern >> 20 < sent_.size()) sent_[q.pattern >> 20].succeeded = true;
}

// It may have happened, or not.
void SrdSwarm::leave_unknown(const Request& q) {
  if (q.flaw != Flaw::none) return;
  if (q.opcode == Opcode::fetch_add) apps_[q.to].added.unknown(q.addend);
  if (q.opcode == Opcode::write_add)
    for (uint32_t w = 0; w < q.length / 8; ++w) apps_[q.to].sums[w].unknown(q.addend);
}

bool SrdSwarm::excused(uint32_t i, const Request& q, Status status) const {
  if (status == Status::flushed) return apps_[i].failing;
  // What goes to a process that is dead fails, also when its end is not known here yet.
  if (!q.met || q.disturbances != apps_[q.to].disturbances) return true;
  const bool receives = q.pattern >> 20 < sent_.size();
  if (status == Status::rnr_retry_exceeded) return receives && config_.rnr_retry != 7;
  if (q.flaw == Flaw::key) return status == Status::remote_access_error;
  return q.flaw == Flaw::too_long && status == Status::remote_invalid_request;
}

void SrdSwarm::on_received(uint32_t i, const Completion& c) {
  Application& app = apps_[i];
  --app.posted_receives;
  if (c.status == Status::flushed) return expect(app.failing, "a receive was flushed");
  expect(c.status == Status::success && c.id < kReceives, "a receive failed");
  const std::byte* const at = net_.stations[i]->at(inbox(c.id));
  const bool is_write = has(c.flags, CompletionFlags::rdma_write);
  uint64_t pattern = uint64_t{c.imm_high} << 32 | c.imm_or_key;
  if (!is_write) std::memcpy(&pattern, at, 8);
  expect(pattern >> 20 < sent_.size(), "a message arrived that was not sent");
  Sent& sent = sent_[pattern >> 20];
  expect(sent.pattern == pattern && sent.to == i && sent.is_write == is_write &&
             sent.length == c.byte_count,
         "a message arrived that was sent elsewhere or with other attributes");
  expect(!sent.seen, "a message arrived twice");
  // A later process may receive it again.
  sent.seen = true;
  if (!is_write) {
    std::vector<std::byte> wanted(c.byte_count);
    fill(wanted.data(), wanted.size(), pattern);
    expect(std::memcmp(at + 8, wanted.data() + 8, c.byte_count - 8) == 0, "a SEND was damaged");
    if (has(c.flags, CompletionFlags::with_imm))
      expect(c.imm_or_key == static_cast<uint32_t>(pattern), "immediate data were damaged");
  }
  if (sent.ordered) {
    expect(sent.pattern > app.last_ordered[sent.from], "ordered SENDs arrived in another order");
    app.last_ordered[sent.from] = sent.pattern;
  }
  app.waiting.push_back(c.id);
}

}  // namespace weft::test
