// SPDX-License-Identifier: BSD-3-Clause
// How many small messages a second one SRD engine sends to one peer, and to many in turn. The peers
// are engines too; frames go from one to the next without a network, and only the time in the
// sender's engine counts: posting, sending, acknowledgements, completions.
//
//   sim_srd_peers_rate [SECONDS_PER_CASE]
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "lib/base/check.hpp"
#include "lib/engine/srd/engine.hpp"
#include "tests/fuzz/no_port.hpp"

namespace {

using namespace weft;

constexpr uint32_t kDomain = 1;
constexpr size_t kBurst = 64;
constexpr uint32_t kDepth = 4096;
constexpr uint32_t kMostPeers = 1000;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

engine::Capabilities capabilities() {
  engine::Capabilities c;
  c.integrity_bits = 0;
  c.in_flight_limit = 1u << 31;
  return c;
}

// One device and its queue pair.
struct End {
  fuzz::NoPort port;
  base::SecureRandom random;
  engine::srd::Engine engine;
  engine::CompletionQueue cq{kDepth};
  uint64_t word = 0;
  uint32_t key;
  engine::srd::QueuePair* qp;

  End(uint32_t number, const engine::srd::Config& config, uint32_t requests)
      : port(Gid::from_ipv4(10, 1, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)),
             capabilities()),
        random(number + 1),
        engine(port, config, random),
        key(engine.keys().insert(reinterpret_cast<std::byte*>(&word), sizeof word, Access::all,
                                 kDomain)) {
    qp = *engine.create_qp({.type = QpType::srd,
                            .domain = kDomain,
                            .send_cq = &cq,
                            .recv_cq = &cq,
                            .max_send_wr = requests,
                            .max_inline = 8});
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      change.access = Access::all;
      WEFT_CHECK(engine.modify_qp(*qp, change));
    }
  }

  // What it sends now, as those who get it see it; valid until the next call.
  std::span<engine::Frame> transmit(Instant now) {
    const size_t n = engine.transmit(sent_, now);
    for (size_t i = 0; i < n; ++i) {
      arrived_[i] = {};
      arrived_[i].path = sent_[i].path;
      arrived_[i].bytes = sent_[i].head;
      arrived_[i].length = sent_[i].head_length;
      WEFT_CHECK(sent_[i].span_count == 0);
    }
    return {arrived_, n};
  }

 private:
  engine::TxFrame sent_[kBurst];
  engine::Frame arrived_[kBurst];
};

class Bench {
 public:
  explicit Bench(uint32_t peers) : sender_(0, config(), kDepth) {
    for (uint32_t i = 0; i < peers; ++i) {
      peers_.push_back(std::make_unique<End>(i + 1, config(), 16));
      handles_.emplace_back(AddressVector{.destination = peers_.back()->port.address()});
    }
  }

  // Messages a second.
  double run(double seconds) {
    for (int i = 0; i < 2000; ++i) turn();
    completed_ = 0;
    spent_ = 0;
    while (spent_ < seconds) turn();
    return static_cast<double>(completed_) / spent_;
  }

 private:
  static engine::srd::Config config() {
    engine::srd::Config c;
    c.paths = 16;
    c.halves = false;
    return c;
  }

  void turn() {
    now_ = now_ + Duration::from_us(5);
    const double begin = cpu_seconds();
    post();
    const std::span<engine::Frame> out = sender_.transmit(now_);
    spent_ += cpu_seconds() - begin;
    // Frames to one peer that lie together come to it together.
    size_t answers = 0;
    for (size_t i = 0; i < out.size();) {
      size_t end = i + 1;
      while (end < out.size() && out[end].path->destination == out[i].path->destination) ++end;
      End& peer = *peers_[index_of(out[i].path->destination)];
      peer.engine.receive(out.subspan(i, end - i), now_);
      for (const engine::Frame& frame : peer.transmit(now_)) answers_[answers++] = frame;
      i = end;
    }
    const double again = cpu_seconds();
    sender_.engine.receive({answers_, answers}, now_);
    Completion done[kBurst];
    while (const size_t n = sender_.cq.pop(done)) {
      completed_ += n;
      outstanding_ -= n;
    }
    if (sender_.engine.next_deadline() <= now_) sender_.engine.expire(now_);
    spent_ += cpu_seconds() - again;
  }

  void post() {
    for (; outstanding_ < kBurst; ++outstanding_) {
      const Sge sge{&word_, 8, LKey{}};
      End& peer = *peers_[next_];
      const SendRequest r{.opcode = Opcode::write,
                          .flags = SendFlags::signaled | SendFlags::inline_data,
                          .sges = {&sge, 1},
                          .remote_address = reinterpret_cast<uint64_t>(&peer.word),
                          .rkey = RKey{peer.key},
                          .to = &handles_[next_],
                          .remote_qpn = peer.qp->number};
      WEFT_CHECK(sender_.engine.post_send(*sender_.qp, {&r, 1}, now_));
      if (++next_ == peers_.size()) next_ = 0;
    }
  }

  static uint32_t index_of(const Gid& address) {
    return uint32_t{address.bytes[14]} * 256 + address.bytes[15] - 1;
  }

  End sender_;
  std::vector<std::unique_ptr<End>> peers_;
  std::vector<AddressHandle> handles_;
  engine::Frame answers_[4 * kBurst];
  Instant now_ = Instant{} + Duration::from_ms(1);
  uint64_t word_ = 1;
  size_t next_ = 0;
  size_t outstanding_ = 0;
  uint64_t completed_ = 0;
  double spent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  double one = 0;
  std::printf("%-8s %14s %10s\n", "peers", "messages/s", "of one's");
  for (const uint32_t peers : {1u, 10u, 100u, kMostPeers}) {
    const double rate = Bench(peers).run(seconds);
    if (one == 0) one = rate;
    std::printf("%-8u %14.0f %10.2f\n", peers, rate, rate / one);
  }
  return 0;
}
