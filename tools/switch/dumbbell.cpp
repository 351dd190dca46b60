// SPDX-License-Identifier: BSD-3-Clause
// See dumbbell.hpp.
#include "tools/switch/dumbbell.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/base/clock.hpp"

namespace weft::bench {

namespace {

constexpr size_t kReceiver = 2;

uint64_t counter(const Device& device, std::string_view name) {
  for (const Counter& c : device.counters())
    if (c.name == name) return c.value;
  return 0;
}

Duration seconds(double s) { return Duration{static_cast<int64_t>(s * 1e12)}; }

}  // namespace

Result<std::unique_ptr<Dumbbell>> Dumbbell::open(const std::vector<std::string>& hosts,
                                                 const sim::SwitchOptions& options,
                                                 const std::string& senders,
                                                 const std::string& receiver, uint32_t mtu) {
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; else a nap takes 50 us longer
  std::unique_ptr<Dumbbell> all(new Dumbbell);
  Result<std::unique_ptr<UdpHosts>> attached = UdpHosts::open(hosts);
  if (!attached) return attached.error();
  all->hosts_ = std::move(*attached);
  Result<std::unique_ptr<sim::Switch>> device =
      sim::Switch::make(options, all->hosts_->pool(), base::wall_now());
  if (!device) return device.error();
  all->switch_ = std::move(*device);
  for (size_t i = 0; i <= kReceiver; ++i) {
    const std::string& keys = i == kReceiver ? receiver : senders;
    Result<std::unique_ptr<Host>> host = Host::open(
        "roce+udp:" + hosts[i] + ",udp.switched=1,single_thread=1," + keys, 2 * kMessage);
    if (!host) return host.error();
    all->devices_.push_back(std::move(*host));
  }
  Result<Listener> listener = Listener::listen("127.0.0.1:0");
  if (!listener) return listener.error();
  for (size_t i = 0; i < kReceiver; ++i)
    if (const Result<void> ok = all->connect(i, *listener, mtu); !ok) return ok.error();
  return all;
}

Result<void> Dumbbell::connect(size_t sender, Listener& listener, uint32_t mtu) {
  Host& from = *devices_[sender];
  Host& to = *devices_[kReceiver];
  Result<QueuePair> a = from.pd.queue_pair({.send_cq = from.cq, .recv_cq = from.cq});
  Result<QueuePair> b = to.pd.queue_pair({.send_cq = to.cq, .recv_cq = to.cq});
  if (!a || !b) return a ? b.error() : a.error();
  const std::string address = "127.0.0.1:" + std::to_string(listener.port());
  Result<Connector> dialing = Connector::start(address, *a, {.path_mtu = mtu});
  if (!dialing) return dialing.error();
  Result<Connector> accepting = Error{Code::would_block, ""};
  bool dialed = false, accepted = false;
  while (!dialed || !accepted) {
    if (!accepting) accepting = listener.try_accept(*b);
    if (!accepting && accepting.error().code != Code::would_block) return accepting.error();
    for (const bool mine : {true, false}) {
      bool& done = mine ? dialed : accepted;
      if (done || (!mine && !accepting)) continue;
      const Result<Connection> moved = mine ? dialing->advance() : accepting->advance();
      if (!moved && moved.error().code != Code::would_block) return moved.error();
      done = moved.ok();
    }
  }
  sending_[sender] = *a;
  receiving_[sender] = *b;
  return {};
}

// Each sender writes into its own half of the receiver's memory.
Result<void> Dumbbell::post(size_t sender) {
  const Host& from = *devices_[sender];
  const Host& to = *devices_[kReceiver];
  const Sge sge = from.region.sge(0, kMessage);
  const PostStatus posted = sending_[sender].post_send(
      {.opcode = Opcode::write,
       .sges = {&sge, 1},
       .remote_address = reinterpret_cast<uint64_t>(to.memory.data()) + sender * kMessage,
       .rkey = to.region.rkey()});
  if (!posted) return Error{Code::io_error, "a WRITE could not be posted"};
  return {};
}

// Everybody once. True if anything moved.
Result<bool> Dumbbell::turn() {
  bool moved = hosts_->turn(*switch_, base::wall_now());
  for (size_t i = 0; i <= kReceiver; ++i) {
    Completion done[8];
    const size_t n = devices_[i]->cq.poll(done);
    moved |= n != 0;
    for (size_t k = 0; k < n; ++k) {
      if (done[k].status != Status::success)
        return Error{Code::io_error, "a WRITE failed: " + std::string(name(done[k].status))};
      if (const Result<void> ok = post(i); !ok) return ok.error();
    }
  }
  return moved;
}

Dumbbell::Totals Dumbbell::totals() const {
  const sim::Switch::Counters& c = switch_->counters();
  Totals t{.at = base::wall_now(),
           .sent = switch_->sent_bytes(kReceiver),
           .from = {hosts_->bytes_from(0), hosts_->bytes_from(1)},
           .marked = c.marked,
           .dropped = c.dropped};
  for (size_t i = 0; i < kReceiver; ++i)
    t.retransmitted += counter(devices_[i]->device, "tx_retransmits");
  return t;
}

Result<void> Dumbbell::poll_until(Instant end, const Show& show, std::vector<uint32_t>& queue) {
  constexpr useconds_t kNap = 20;  // us; a frame of this network takes ten times as long
  constexpr Duration kSample = Duration::from_us(100), kMoment = Duration::from_ms(100);
  Instant last = base::wall_now(), sampled = last, told = last;
  std::array<uint64_t, 2> shown{hosts_->bytes_from(0), hosts_->bytes_from(1)};
  seen_.longest_gap_us = 0;
  for (Instant at = last; at < end; at = base::wall_now()) {
    const Result<bool> moved = turn();
    if (!moved) return moved.error();
    // A thread that sleeps now and then is woken sooner, on a busy machine, than one that spins.
    if (!*moved) ::usleep(kNap);
    const double gap_us = static_cast<double>((at - last).ps) / 1e6;
    seen_.longest_gap_us = std::max(seen_.longest_gap_us, gap_us);
    last = at;
    if (at - sampled >= kSample) {
      sampled = at;
      queue.push_back(switch_->queue_bytes(kReceiver));
    }
    if (at - told < kMoment) continue;
    Moment moment{.queue = switch_->queue_bytes(kReceiver), .marked = switch_->counters().marked};
    for (size_t i = 0; i < kReceiver; ++i) {
      const uint64_t bytes = hosts_->bytes_from(i) - std::exchange(shown[i], hosts_->bytes_from(i));
      moment.mbps[i] = static_cast<double>(bytes) * 8e6 / static_cast<double>((at - told).ps);
    }
    told = at;
    show(moment);
  }
  return {};
}

Result<Seen> Dumbbell::run(double warm_up_s, double measured_s, const Show& show) {
  for (size_t sender = 0; sender < kReceiver; ++sender)
    for (uint32_t i = 0; i < kPosted; ++i)
      if (const Result<void> ok = post(sender); !ok) return ok.error();
  std::vector<uint32_t> queue;
  const Instant begin = base::wall_now() + seconds(warm_up_s);
  if (const Result<void> ok = poll_until(begin, show, queue); !ok) return ok.error();
  queue.clear();
  const Totals before = totals();
  if (const Result<void> ok = poll_until(begin + seconds(measured_s), show, queue); !ok)
    return ok.error();
  if (queue.empty()) return Error{Code::timed_out, "the machine gave no time for one sample"};
  summarize(before, totals(), queue);
  return seen_;
}

void Dumbbell::summarize(const Totals& before, const Totals& after, std::vector<uint32_t>& queue) {
  const double took_us = static_cast<double>((after.at - before.at).ps) / 1e6;
  const auto sent = static_cast<double>(after.sent - before.sent);
  seen_.utilisation = sent * 8 / (took_us * switch_->mbps(kReceiver));
  std::sort(queue.begin(), queue.end());
  seen_.mean_queue = 0;
  for (const uint32_t bytes : queue) seen_.mean_queue += bytes / static_cast<double>(queue.size());
  seen_.p50_queue = queue[queue.size() / 2];
  seen_.p95_queue = queue[queue.size() * 95 / 100];
  seen_.most_queue = queue.back();
  const auto a = static_cast<double>(after.from[0] - before.from[0]);
  const auto b = static_cast<double>(after.from[1] - before.from[1]);
  seen_.fairness = (a + b) * (a + b) / (2 * (a * a + b * b));
  seen_.marked = after.marked - before.marked;
  seen_.dropped = after.dropped - before.dropped;
  seen_.retransmitted = after.retransmitted - before.retransmitted;
}

}  // namespace weft::bench
