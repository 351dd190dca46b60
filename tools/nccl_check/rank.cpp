// SPDX-License-Identifier: BSD-3-Clause
// See rank.hpp.
#include "tools/nccl_check/rank.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

namespace weft::nccl_check {
namespace {

using nccl::Outcome;
using Clock = std::chrono::steady_clock;

constexpr size_t kGuard = 256, kPage = 4096;
constexpr std::byte kClear{0xA5};

// The same on all ranks; differs in each 8 bytes.
uint64_t word_of(uint64_t seed, size_t index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + index;
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 29);
}

}  // namespace

Buffer::Buffer(Rank& rank, void* comm, size_t size, size_t offset)
    : rank_(rank), comm_(comm), size_(size), bytes_(size + 2 * kPage + offset + kGuard) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes_.data());
  start_ = (begin + kGuard + kPage - 1) / kPage * kPage - begin + offset;
  clear();
  memory_ = rank.net().register_memory(comm, data(), std::max<size_t>(size, 1));
}

Buffer::~Buffer() {
  try {
    rank_.net().deregister(comm_, memory_);
  } catch (const Failure&) {  // has been shown by the rule about registration
  }
}

void Buffer::fill(uint64_t seed) {
  for (size_t at = 0; at < size_; at += 8) {
    const uint64_t word = word_of(seed, at / 8);
    std::memcpy(data() + at, &word, std::min<size_t>(8, size_ - at));
  }
}

void Buffer::clear() { std::fill(bytes_.begin(), bytes_.end(), kClear); }

void Buffer::expect(uint64_t seed, size_t length, const std::string& what) {
  for (size_t at = 0; at < length; at += 8) {
    const uint64_t word = word_of(seed, at / 8);
    if (std::memcmp(data() + at, &word, std::min<size_t>(8, length - at)) != 0)
      throw Failure{what + ": wrong data at byte " + std::to_string(at) + " of " +
                    std::to_string(length)};
  }
  const auto is_clear = [](std::byte each) { return each == kClear; };
  const std::byte* const begin = bytes_.data();
  if (!std::all_of(begin, begin + start_, is_clear))
    throw Failure{what + ": bytes before the buffer were overwritten"};
  if (!std::all_of(begin + start_ + length, begin + bytes_.size(), is_clear))
    throw Failure{what + ": bytes behind the " + std::to_string(length) +
                  " that were sent were overwritten"};
}

Transfer send_of(void* comm, Buffer& buffer, size_t size, int tag) {
  return {.sends = true,
          .comm = comm,
          .data = {buffer.data()},
          .sizes = {size},
          .tags = {tag},
          .memories = {buffer.memory()}};
}

Transfer receive_of(void* comm, Buffer& buffer, int tag) {
  return {.comm = comm,
          .data = {buffer.data()},
          .sizes = {buffer.size()},
          .tags = {tag},
          .memories = {buffer.memory()}};
}

Transfer part_of(Transfer whole, size_t offset, size_t size) {
  whole.data[0] = static_cast<std::byte*>(whole.data[0]) + offset;
  whole.sizes[0] = size;
  return whole;
}

Rank::Rank(const Settings& settings, Board& board, Net& net, int number)
    : settings_(settings),
      board_(board),
      net_(net),
      number_(number),
      device_(settings.device),
      generation_(board.generation),
      random_(settings.seed) {}

size_t Rank::random_size(size_t low, size_t high) {
  const double bits = std::uniform_real_distribution<double>(
      std::log2(static_cast<double>(low) + 1), std::log2(static_cast<double>(high) + 1))(random_);
  return std::clamp<size_t>(static_cast<size_t>(std::exp2(bits)) - 1, low, high);
}

void Rank::wait_until(const std::string& what, const std::function<bool()>& done,
                      uint32_t calls_per_yield) {
  ++record().waits;
  const auto deadline = Clock::now() + std::chrono::duration<double>(settings_.limit_s);
  for (uint32_t turn = 1; !done(); ++turn) {
    if (board_.stopped != 0) throw Stopped{};
    if (turn % calls_per_yield == 0) ::sched_yield();
    if (turn % 64 == 0 && Clock::now() > deadline)
      throw Failure{what + " within " + std::to_string(static_cast<int>(settings_.limit_s)) + " s"};
  }
}

void Rank::barrier() {
  const uint32_t mine = generation_++;
  if (board_.arrived.fetch_add(1) + 1 == static_cast<uint32_t>(ranks())) {
    board_.arrived = 0;
    board_.generation = mine + 1;
    return;
  }
  wait_until("other ranks do not come to the same place",
             [&] { return board_.generation != mine; });
}

void Rank::publish(int slot, const void* handle) {
  RankRecord& own = record();
  std::memcpy(own.handles[static_cast<size_t>(slot)].data(), handle, nccl::kHandleSize);
  ++own.published[static_cast<size_t>(slot)];
}

std::array<std::byte, nccl::kHandleSize> Rank::handle_of(int rank, int slot) {
  RankRecord& other = board_.ranks[static_cast<size_t>(rank)];
  wait_until("rank " + std::to_string(rank) + " does not listen",
             [&] { return other.published[static_cast<size_t>(slot)] != 0; });
  other.published[static_cast<size_t>(slot)] = 0;
  return other.handles[static_cast<size_t>(slot)];
}

Connections Rank::connect(int to, int from) {
  Connections made;
  alignas(16) std::array<std::byte, nccl::kHandleSize> own{};
  at("listen()");
  void* const listener = net_.listen(device_, own.data());
  publish(from, own.data());
  auto handle = handle_of(to, number_);
  at("connect() and accept()");
  wait_until("connect() and accept() do not give a connection", [&] {
    Outcome outcome = Outcome::success;
    if (made.send == nullptr) made.send = net_.connect(device_, handle.data(), outcome);
    if (outcome != Outcome::success) throw Failure{"connect() returns " + name_of(outcome)};
    if (made.receive == nullptr) made.receive = net_.accept(listener, outcome);
    if (outcome != Outcome::success) throw Failure{"accept() returns " + name_of(outcome)};
    return made.send != nullptr && made.receive != nullptr;
  });
  at("closeListen()");
  net_.close_listen(listener);
  at("");
  return made;
}

void Rank::close(const Connections& connections) {
  at("closeSend()");
  net_.close_send(connections.send);
  at("closeRecv()");
  net_.close_receive(connections.receive);
  at("");
}

bool Rank::post(Transfer& t) {
  Outcome outcome = Outcome::success;
  if (t.sends)
    t.request = net_.isend(t.comm, t.data[0], t.sizes[0], t.tags[0], t.memories[0], outcome);
  else
    t.request = net_.irecv(t.comm, static_cast<int>(t.data.size()), t.data.data(), t.sizes.data(),
                           t.tags.data(), t.memories.data(), t.optional, outcome);
  if (outcome != Outcome::success)
    throw Failure{std::string(t.sends ? "isend" : "irecv") + "() returns " + name_of(outcome)};
  return t.request != nullptr;
}

bool Rank::test(Transfer& t) {
  int done = 0;
  std::array<int, 64> sizes;
  sizes.fill(-1);
  const Outcome outcome = net_.test(t.request, &done, sizes.data());
  if (outcome != Outcome::success)
    throw Failure{std::string("test() of ") + (t.sends ? "a send" : "a receive") + " returns " +
                  name_of(outcome)};
  if (done == 0) return false;
  t.done = true;
  t.got.assign(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(t.data.size()));
  return true;
}

void Rank::run(std::vector<Transfer>& transfers, size_t depth) {
  struct Queue {
    std::vector<Transfer*> waiting, posted;
    size_t next = 0;
  };
  std::map<void*, Queue> queues;
  for (Transfer& each : transfers) queues[each.comm].waiting.push_back(&each);
  size_t left = transfers.size();
  wait_until("transfers are not done", [&] {
    for (auto& [comm, queue] : queues) {
      while (queue.next < queue.waiting.size() && queue.posted.size() < depth &&
             (queue.waiting[queue.next]->request != nullptr || post(*queue.waiting[queue.next])))
        queue.posted.push_back(queue.waiting[queue.next++]);
      left -= std::erase_if(queue.posted, [&](Transfer* each) { return test(*each); });
    }
    return left == 0;
  });
}

}  // namespace weft::nccl_check
