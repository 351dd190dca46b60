// SPDX-License-Identifier: BSD-3-Clause
// How many small messages a second one SRD engine sends to one peer, and to many in turn. The peers
// exist only in the acknowledgements that come back, as those of other hosts would, one for what
// lies together: a thousand engines here would take the caches from the one that is measured. Only
// the time in that one counts: posting, sending, acknowledgements, completions.
//
//   sim_srd_peers_rate [SECONDS_PER_CASE [PEERS]]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/srd/engine.hpp"
#include "tests/fuzz/no_port.hpp"

namespace {

using namespace weft;

constexpr uint32_t kDomain = 1;
constexpr size_t kBurst = 64;
constexpr uint32_t kDepth = 4096;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

transport::Capabilities capabilities() {
  transport::Capabilities c;
  c.integrity_bits = 0;
  c.in_flight_limit = 1u << 31;
  return c;
}

// The device that sends, and its queue pair.
struct Sender {
  fuzz::NoPort port{Gid::from_ipv4(10, 0, 0, 1), capabilities()};
  base::SecureRandom random{1};
  srd::Engine engine;
  transport::CompletionQueue cq{kDepth};
  srd::QueuePair* qp;

  explicit Sender(const srd::Config& config) : engine(port, config, random) {
    qp = *engine.create_qp({.type = QpType::srd,
                            .domain = kDomain,
                            .send_cq = &cq,
                            .recv_cq = &cq,
                            .max_send_wr = kDepth,
                            .max_inline = 8});
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      change.access = Access::all;
      WEFT_CHECK(engine.modify_qp(*qp, change));
    }
  }
};

// The receiver: executes all packets and acknowledges them.
class Listener {
 public:
  explicit Listener(const Gid& address) : handle_(AddressVector{.destination = address}) {
    path_.source = address;
    path_.destination = Gid::from_ipv4(10, 0, 0, 1);
  }
  const AddressHandle& handle() const { return handle_; }
  QpNum number() const { return QpNum{kBlock << 16 | 1}; }

  // Of frames that lie together the last one is echoed.
  transport::Frame answer(std::span<const transport::TxFrame> frames) {
    wire::SrdPacket packet;
    for (const transport::TxFrame& frame : frames) {
      WEFT_CHECK(frame.span_count == 0);
      WEFT_CHECK(wire::srd_parse(frame.head, frame.head_length, 0, 0, packet) ==
                 wire::SrdError::none);
      if (next_ == 0) next_ = packet.introduction->first;
      WEFT_CHECK(packet.sequence == next_);
      ++next_;
      bytes_ += packet.payload_length;
    }
    wire::SrdPacket p;
    p.opcode = wire::SrdOpcode::acknowledge;
    p.path = packet.path;
    p.path_sequence = packet.path_sequence;
    p.epoch = packet.epoch;
    p.incarnation = packet.incarnation;
    p.sequence = next_;
    p.dest = packet.source;
    p.source = QpNum{kBlock << 16};
    wire::SrdAck ack;
    ack.echo = static_cast<uint32_t>(packet.sequence);
    ack.received_bytes = bytes_;
    std::byte* const end = wire::srd_emit(head_, p, 0);
    std::memcpy(end, &ack, sizeof ack);
    transport::Frame frame;
    frame.path = &path_;
    frame.bytes = head_;
    frame.length = static_cast<uint32_t>(end - head_) + static_cast<uint32_t>(sizeof ack);
    return frame;
  }

 private:
  static constexpr uint32_t kBlock = 1;

  AddressHandle handle_;
  transport::Path path_;
  uint64_t next_ = 0;
  uint64_t bytes_ = 0;
  std::byte head_[128];
};

class Bench {
 public:
  explicit Bench(uint32_t peers) : sender_(config()) {
    for (uint32_t i = 0; i < peers; ++i) {
      peers_.emplace_back(address_of(i));
      WEFT_CHECK(sender_.engine.accept(address_of(i), peers_.back().number().value >> 16,
                                       {.incarnation = 4711, .stamp = 1, .process = 1}, now_));
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
  static srd::Config config() {
    srd::Config c;
    c.paths = 16;
    c.halve_on_loss = false;
    c.least_rto = Duration::from_ms(1);  // as a device has it
    return c;
  }

  void turn() {
    now_ = now_ + Duration::from_us(5);
    const double begin = cpu_seconds();
    post();
    transport::TxFrame out[kBurst];
    const size_t count = sender_.engine.transmit(out, now_);
    spent_ += cpu_seconds() - begin;
    size_t answers = 0;
    for (size_t i = 0; i < count;) {
      size_t end = i + 1;
      while (end < count && out[end].path->destination == out[i].path->destination) ++end;
      Listener& peer = peers_[index_of(out[i].path->destination)];
      answers_[answers++] = peer.answer({out + i, end - i});
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

  // As many as have completed, in one call.
  void post() {
    const Sge sge{&word_, 8, LKey{}};
    SendRequest requests[kBurst];
    size_t count = 0;
    for (; outstanding_ < kBurst; ++outstanding_) {
      const Listener& peer = peers_[next_];
      requests[count++] = {.opcode = Opcode::write,
                           .flags = SendFlags::signaled | SendFlags::inline_data,
                           .sges = {&sge, 1},
                           .remote_address = 4096,
                           .rkey = RKey{1},
                           .to = &peer.handle(),
                           .remote_qpn = peer.number()};
      if (++next_ == peers_.size()) next_ = 0;
    }
    WEFT_CHECK(sender_.engine.post_send(*sender_.qp, {requests, count}, now_));
  }

  static Gid address_of(uint32_t peer) {
    return Gid::from_ipv4(10, 1, static_cast<uint8_t>(peer >> 8), static_cast<uint8_t>(peer));
  }
  static uint32_t index_of(const Gid& address) {
    return uint32_t{address.bytes[14]} * 256 + address.bytes[15];
  }

  Sender sender_;
  std::vector<Listener> peers_;
  transport::Frame answers_[kBurst];
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
  std::vector<uint32_t> numbers{1, 10, 100, 1000};
  if (argc > 2) numbers = {static_cast<uint32_t>(std::atoi(argv[2]))};
  for (const uint32_t peers : numbers) {
    const double rate = Bench(peers).run(seconds);
    if (one == 0) one = rate;
    std::printf("%-8u %14.0f %10.2f\n", peers, rate, rate / one);
  }
  return 0;
}
