// SPDX-License-Identifier: BSD-3-Clause
// See cut.hpp.
#include "tools/srd_demo/cut.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::bench {

namespace {

constexpr size_t kPathByte = 3;  // of the SRD header (SRD.md): the index of the path

Duration seconds(double s) { return Duration{static_cast<int64_t>(s * 1e12)}; }
double us(Duration d) { return static_cast<double>(d.ps) / 1e6; }

// As if every switch port's hash gave each UDP source port the way of its own number.
size_t way_of(const transport::Frame& frame) { return static_cast<size_t>(frame.bytes[kPathByte]); }

// What byte `i` of message `number` is.
void fill(std::byte* at, size_t bytes, uint64_t number) {
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = number * 0x9E3779B97F4A7C15u + i;
    std::memcpy(at + i, &word, 8);
  }
}

}  // namespace

double round_trip_us(const CutOptions& o) {
  constexpr double kFrame = 4300;
  return 4 * o.delay_us + 2 * 8 * kFrame / o.mbps;
}

Result<QueuePair> Cut::make_ready(const Host& host) {
  Result<QueuePair> qp =
      host.pd.queue_pair({.type = QpType::srd, .send_cq = host.cq, .recv_cq = host.cq});
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    if (!qp) return qp;
    QueuePairAttributes change;
    change.state = state;
    if (state == QpState::init) change.access = Access::all;
    if (const Result<void> ok = qp->modify(change); !ok) return ok.error();
  }
  return qp;
}

Result<void> Cut::make_ways() {
  const double rtt_us = round_trip_us(o_);
  sim::SwitchOptions options;
  options.mbps.assign(o_.hosts.size(), o_.mbps);
  options.delay = Duration{static_cast<int64_t>(o_.delay_us * 1e6)};
  options.buffer = 256u << 10;
  options.kmin_us = rtt_us;  // a few frames
  options.kmax_us = 4 * rtt_us;
  options.pmax = 0.2;
  options.telemetry = false;
  for (uint32_t i = 0; i < o_.paths; ++i) {
    options.seed = i + 1;
    Result<std::unique_ptr<sim::Switch>> made = sim::Switch::make(options, hosts_->pool(), begun_);
    if (!made) return made.error();
    ways_.push_back(std::move(*made));
    all_ways_.push_back(ways_.back().get());
  }
  return {};
}

Result<std::unique_ptr<Cut>> Cut::open(const CutOptions& options) {
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; else a nap takes 50 us longer
  std::unique_ptr<Cut> all(new Cut);
  all->o_ = options;
  all->begun_ = base::wall_now();
  Result<std::unique_ptr<UdpHosts>> attached = UdpHosts::open(options.hosts, {wire::kSrdUdpPort});
  if (!attached) return attached.error();
  all->hosts_ = std::move(*attached);
  if (const Result<void> made = all->make_ways(); !made) return made.error();
  const std::string keys =
      ",udp.switched=1,udp.gso=0,single_thread=1,path_counters=1,paths=" +
      std::to_string(options.paths) +
      ",cc_line_mbps=" + std::to_string(options.paths * options.mbps) +
      ",cc_rtt_us=" + std::to_string(static_cast<uint32_t>(round_trip_us(options))) +
      (options.keys.empty() ? "" : "," + options.keys);
  for (const bool sender : {true, false}) {
    Result<std::unique_ptr<Host>> host = Host::open(
        "srd+udp:" + options.hosts[sender ? 0 : 1] + keys, size_t{kPosted} * options.message);
    if (!host) return host.error();
    Result<QueuePair> qp = make_ready(**host);
    if (!qp) return qp.error();
    (sender ? all->from_ : all->to_) = std::move(*host);
    (sender ? all->sending_ : all->receiving_) = std::move(*qp);
  }
  const uint32_t there = all->from_->device.attributes().paths;
  if (there != options.paths)
    return Error{Code::not_supported, "the port has " + std::to_string(there) +
                                          " UDP source ports: use --paths " +
                                          std::to_string(there) + " or udp.ports=N"};
  all->target_ = all->from_->pd.address_handle({.destination = all->to_->device.attributes().gid});
  all->sent_.assign(options.paths, 0);
  return all;
}

// Message `posted_` into slot `slot`, which nothing else uses until it is complete.
Result<void> Cut::post(uint64_t slot) {
  const size_t offset = slot * o_.message;
  fill(&from_->memory[offset], o_.message, ++posted_);
  const Sge sge = from_->region.sge(offset, o_.message);
  const PostStatus posted =
      sending_.post_send({.id = slot,
                          .opcode = Opcode::write,
                          .sges = {&sge, 1},
                          .remote_address = reinterpret_cast<uint64_t>(to_->memory.data()) + offset,
                          .rkey = to_->region.rkey(),
                          .to = &target_,
                          .remote_qpn = receiving_.number()});
  if (!posted) return Error{Code::io_error, std::string("post: ") + posted.reason};
  return {};
}

// A completion means that the data is there: it is compared at once.
void Cut::take(const Completion& done, Instant at) {
  const size_t offset = done.id * o_.message;
  if (done.status != Status::success) ++seen_.errors;
  for (size_t i = 0; i < o_.message; ++i)
    seen_.wrong_bytes += from_->memory[offset + i] != to_->memory[offset + i];
  ++seen_.messages;
  completed_bytes_ += o_.message;
  double& longest = cut_at_.is_never() ? seen_.longest_gap_us : seen_.longest_gap_cut_us;
  longest = std::max(longest, us(at - completed_at_));
  completed_at_ = at;
}

Result<void> Cut::turn(Instant at) {
  const bool moved = hosts_->turn(all_ways_, &way_of, at);
  Completion done[kPosted];
  const size_t n = from_->cq.poll(done);
  for (size_t i = 0; i < n; ++i) {
    take(done[i], at);
    if (const Result<void> ok = post(done[i].id); !ok) return ok;
  }
  to_->device.progress();
  if (!cut_at_.is_never()) {
    // Probes are empty and few; what the flow still sends there is data.
    const std::vector<PathReport> paths =
        from_->device.paths(target_.path().destination, receiving_.number());
    if (!paths.empty() && paths[o_.cut].health == PathHealth::good &&
        paths[o_.cut].sent != into_cut_) {
      into_cut_ = paths[o_.cut].sent;
      seen_.reroute_us = us(at - cut_at_);
    }
  }
  if (!moved && n == 0) ::usleep(20);
  return {};
}

std::vector<PathMoment> Cut::look(double passed_s) {
  std::vector<PathMoment> moments;
  const std::vector<PathReport> paths =
      from_->device.paths(target_.path().destination, receiving_.number());
  for (size_t i = 0; i < paths.size(); ++i) {
    const uint64_t sent = paths[i].sent - std::min(paths[i].sent, sent_[i]);
    sent_[i] = paths[i].sent;
    moments.push_back({paths[i].health, static_cast<double>(paths[i].rtt.ns()) / 1e3,
                       static_cast<double>(sent) / passed_s});
  }
  return moments;
}

Result<void> Cut::poll_until(Instant end, const Show& show) {
  constexpr Duration kMoment = Duration::from_ms(100);
  Instant last = base::wall_now(), told = last;
  uint64_t bytes = completed_bytes_;
  for (Instant at = last; at < end; at = base::wall_now()) {
    seen_.longest_away_us = std::max(seen_.longest_away_us, us(at - last));
    last = at;
    if (const Result<void> ok = turn(at); !ok) return ok;
    if (at - told < kMoment) continue;
    const double passed_s = us(at - told) / 1e6;
    Moment moment{.at_s = us(at - begun_) / 1e6, .cut = !cut_at_.is_never()};
    moment.mbps = static_cast<double>(completed_bytes_ - bytes) * 8 / passed_s / 1e6;
    moment.paths = look(passed_s);
    bytes = completed_bytes_;
    told = at;
    show(moment);
  }
  return {};
}

void Cut::cut(Instant at) {
  const sim::SwitchFault dark{.blackhole = true};
  for (uint32_t host = 0; host < o_.hosts.size(); ++host) ways_[o_.cut]->set_fault(host, dark);
  cut_at_ = at;
}

Result<Seen> Cut::run(const Show& show) {
  begun_ = completed_at_ = base::wall_now();
  for (uint64_t slot = 0; slot < kPosted; ++slot)
    if (const Result<void> ok = post(slot); !ok) return ok.error();
  const auto phase = [&](double s) -> Result<double> {
    const Instant begin = base::wall_now();
    const uint64_t bytes = completed_bytes_;
    if (const Result<void> ok = poll_until(begin + seconds(s), show); !ok) return ok.error();
    return static_cast<double>(completed_bytes_ - bytes) * 8 / us(base::wall_now() - begin);
  };
  if (const Result<double> warm = phase(o_.warm_up_s); !warm) return warm.error();
  seen_.longest_gap_us = seen_.longest_away_us = 0;
  const Result<double> before = phase(o_.before_s);
  if (!before) return before.error();
  cut(base::wall_now());
  if (const Result<double> settled = phase(o_.settle_s); !settled) return settled.error();
  const Result<double> after = phase(o_.after_s);
  if (!after) return after.error();
  seen_.before_mbps = *before;
  seen_.after_mbps = *after;
  seen_.bytes = completed_bytes_;
  seen_.lost_in_cut = ways_[o_.cut]->counters().faulted;
  seen_.paths = look(1);
  return seen_;
}

}  // namespace weft::bench
