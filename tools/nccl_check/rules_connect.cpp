// SPDX-License-Identifier: BSD-3-Clause
// Rules about devices, and about how connections begin and end.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <set>

#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {
namespace {

using nccl::Outcome;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A message each way.
void exchange(Rank& rank, const Connections& connections, uint64_t seed, const std::string& what) {
  Buffer out(rank, connections.send, 10'000), in(rank, connections.receive, 10'000);
  out.fill(seed);
  std::vector<Transfer> transfers = {send_of(connections.send, out, 10'000),
                                     receive_of(connections.receive, in)};
  rank.run(transfers);
  in.expect(seed, 10'000, what);
}

// listen() into a handle of the version's size, with guard bytes behind it.
void* listen_within(Rank& rank, std::span<std::byte> handle) {
  constexpr std::byte kGuard{0xA5};
  const size_t size = rank.net().version == 4 ? nccl::kHandleSizeV4 : nccl::kHandleSize;
  std::fill(handle.begin(), handle.end(), kGuard);
  void* const listener = rank.net().listen(rank.device(), handle.data());
  if (std::any_of(handle.begin() + static_cast<ptrdiff_t>(size), handle.end(),
                  [](std::byte each) { return each != kGuard; }))
    throw Failure{"listen() writes behind the " + std::to_string(size) + " bytes of a handle"};
  return listener;
}

}  // namespace

void check_devices(Rank& rank) {
  const int count = rank.net().devices();
  std::set<std::string> names;
  for (int device = 0; device < count; ++device) {
    const std::string which = "device " + std::to_string(device) + " has ";
    const Facts f = rank.net().facts(device);
    if (f.name.empty()) throw Failure{which + "no name"};
    if (!names.insert(f.name).second)
      throw Failure{which + "the name of another, by which NCCL finds it: " + f.name};
    if ((f.pointer_support & nccl::kPointerHost) == 0) throw Failure{which + "no host pointers"};
    if (f.speed_mbps <= 0) throw Failure{which + "speed " + std::to_string(f.speed_mbps)};
    if (f.max_comms < 1) throw Failure{which + "maxComms " + std::to_string(f.max_comms)};
    if (f.max_receives < 1 || f.max_receives > 64)
      throw Failure{which + "maxRecvs " + std::to_string(f.max_receives)};
    if (f.members < 1) throw Failure{which + "no member, not even itself"};
    if (rank.net().version >= 9 && (f.max_bytes == 0 || f.max_bytes > uint64_t{1} << 40))
      throw Failure{which + "maxP2pBytes " + std::to_string(f.max_bytes)};
  }
}

// Accepting before a peer connects, and connecting before the peer accepts: both must return.
void check_connect(Rank& rank) {
  constexpr size_t kConnecting = 0;
  alignas(16) std::array<std::byte, nccl::kHandleSize + 64> own{};
  Net& net = rank.net();
  Outcome outcome = Outcome::success;
  void* const listener = listen_within(rank, own);
  rank.at("accept() before a peer connects");
  if (net.accept(listener, outcome) != nullptr || outcome != Outcome::success)
    throw Failure{"accept() without a peer does not return success and a null pointer"};
  rank.publish(rank.previous(), own.data());
  auto handle = rank.handle_of(rank.next(), rank.number());
  rank.at("connect() before the peer calls accept()");
  Connections made;
  for (int i = 0; i < 100 && made.send == nullptr; ++i) {
    made.send = net.connect(rank.device(), handle.data(), outcome);
    if (outcome != Outcome::success)
      throw Failure{"connect() before accept() returns " + name_of(outcome)};
  }
  rank.record().flags[kConnecting] = 1;
  rank.wait_until("connect() does not return before the peer calls accept(): it returned", [&] {
    return rank.board().ranks[static_cast<size_t>(rank.previous())].flags[kConnecting] != 0;
  });
  rank.at("late accept()");
  rank.wait_until("late accept() gives no connection", [&] {
    if (made.send == nullptr) made.send = net.connect(rank.device(), handle.data(), outcome);
    if (made.receive == nullptr && outcome == Outcome::success)
      made.receive = net.accept(listener, outcome);
    if (outcome != Outcome::success)
      throw Failure{"connect() or accept() returns " + name_of(outcome)};
    return made.send != nullptr && made.receive != nullptr;
  });
  net.close_listen(listener);
  exchange(rank, made, 1, "after a late accept()");
  rank.close(made);
}

void check_connections(Rank& rank) {
  constexpr size_t kConnections = 4, kMessages = 8, kSize = 3000;
  std::vector<Connections> made;
  for (size_t i = 0; i < kConnections; ++i) made.push_back(rank.connect_ring());
  {
    // The first one has a receive posted, and no send yet.
    Buffer blocked(rank, made[0].receive, kSize), late(rank, made[0].send, kSize);
    std::vector<Transfer> first = {receive_of(made[0].receive, blocked)};
    rank.wait_until("irecv() gives no request", [&] { return rank.post(first[0]); });
    std::deque<Buffer> buffers;
    std::vector<Transfer> transfers;
    for (size_t i = 0; i < kMessages; ++i)
      for (size_t c = 1; c < kConnections; ++c) {
        Buffer& in = buffers.emplace_back(rank, made[c].receive, kSize);
        transfers.push_back(receive_of(made[c].receive, in));
        Buffer& out = buffers.emplace_back(rank, made[c].send, kSize);
        out.fill(c * 100 + i);
        transfers.push_back(send_of(made[c].send, out, kSize));
      }
    rank.run(transfers);
    for (size_t i = 0; i < transfers.size(); i += 2)
      buffers[i].expect(i / 2 % (kConnections - 1) * 100 + 100 + i / 2 / (kConnections - 1), kSize,
                        "connection " + std::to_string(i / 2 % (kConnections - 1) + 1) + " of " +
                            std::to_string(kConnections));
    late.fill(7);
    first.push_back(send_of(made[0].send, late, kSize));
    rank.run(first);
    blocked.expect(7, kSize, "connection 0, used last");
  }
  for (const Connections& each : made) rank.close(each);
}

void check_virtual(Rank& rank) {
  if (rank.net().devices() < 2) throw NotApplicable{"needs two devices"};
  const int merged = rank.net().make_virtual({0, 1});
  if (merged < 0) throw NotApplicable{"there is no makeVDevice()"};
  const Facts first = rank.net().facts(0), both = rank.net().facts(merged);
  if (both.members != 2)
    throw Failure{"a virtual device of two has " + std::to_string(both.members) + " members"};
  if (both.speed_mbps <= first.speed_mbps)
    throw Failure{"a virtual device is not faster than a member: " +
                  std::to_string(both.speed_mbps) + " Mb/s"};
  rank.use_device(merged);
  const Connections made = rank.connect_ring();
  rank.use_device(rank.settings().device);
  {
    std::deque<Buffer> in, out;
    std::vector<Transfer> transfers;
    for (const size_t size : {0, 1, 5000, 100'000, 131'072, 131'073, 300'001, 1'000'000, 77}) {
      in.emplace_back(rank, made.receive, size + 100);
      out.emplace_back(rank, made.send, size).fill(size);
      transfers.push_back(receive_of(made.receive, in.back()));
      transfers.push_back(send_of(made.send, out.back(), size));
    }
    rank.run(transfers);
    for (size_t i = 0; i < in.size(); ++i)
      in[i].expect(out[i].size(), out[i].size(), "over a virtual device");
  }
  rank.barrier();
  rank.close(made);
}

// As NCCL does after an abort: memory is deregistered first, then the connections are closed.
void check_close(Rank& rank) {
  constexpr size_t kSize = 1 << 20, kCount = 4;
  const Connections made = rank.connect_ring();
  {
    Buffer in(rank, made.receive, kSize), out(rank, made.send, kSize);
    std::vector<Transfer> transfers;
    for (size_t i = 0; i < 2 * kCount; ++i) transfers.push_back(receive_of(made.receive, in));
    for (size_t i = 0; i < kCount; ++i) transfers.push_back(send_of(made.send, out, kSize));
    size_t next = 0;
    rank.wait_until("irecv() gives no request", [&] {
      while (next < 2 * kCount && rank.post(transfers[next])) ++next;
      return next >= kCount;
    });
    rank.barrier();
    try {
      size_t at = 2 * kCount;
      for (int i = 0; i < 1000 && at < transfers.size(); ++i) at += rank.post(transfers[at]);
    } catch (const Failure&) {  // the peer may have closed already
    }
    rank.at("deregMr() with requests in flight");
  }
  rank.close(made);
  rank.barrier();
  const Connections again = rank.connect_ring();
  exchange(rank, again, 2, "on a new connection");
  rank.barrier();
  rank.close(again);
}

void check_death(Rank& rank) {
  const bool dies = rank.number() == rank.ranks() - 1;
  const Connections made = rank.connect_ring();
  exchange(rank, made, 3, "before the peer dies");
  Buffer in(rank, made.receive, 100), out(rank, made.send, 100);
  Transfer receive = receive_of(made.receive, in), send = send_of(made.send, out, 100);
  rank.wait_until("irecv() gives no request", [&] { return rank.post(receive); });
  rank.barrier();
  if (dies) (void)::kill(::getpid(), SIGKILL);
  const auto start = Clock::now();
  rank.at("requests to a peer that was killed");
  const auto ends_in_error = [&](Transfer& transfer, size_t figure) {
    rank.wait_until(std::string(transfer.sends ? "a send to" : "a receive from") +
                        " a killed peer does not end in an error",
                    [&] {
                      try {
                        if (transfer.request == nullptr && !rank.post(transfer)) return false;
                        if (!rank.test(transfer)) return false;
                        transfer.request = nullptr;  // it was sent before: again
                        return false;
                      } catch (const Failure&) {
                        rank.record().figures[figure] = ms_since(start);
                        return true;
                      }
                    });
  };
  if (rank.previous() == rank.ranks() - 1) ends_in_error(receive, 0);
  if (rank.next() == rank.ranks() - 1) ends_in_error(send, 1);
}

}  // namespace weft::nccl_check
