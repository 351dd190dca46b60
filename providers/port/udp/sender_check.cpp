// SPDX-License-Identifier: BSD-3-Clause
// See sender_check.hpp.
#include "providers/port/udp/sender_check.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/gid_hash.hpp"
#include "lib/base/interface.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {
namespace {

constexpr Duration kListed = Duration::from_ms(10);
constexpr uint32_t kLookupsOfOneCall = 8;
constexpr uint32_t kRoot = 0;

// Ports of peers that we hold at most: each costs a descriptor.
uint32_t most_held() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 64;
  return static_cast<uint32_t>(std::clamp<rlim_t>(files.rlim_cur / 16, 16, 1024));
}

}  // namespace

SenderCheck::SenderCheck(const LocalAddress& local, int receives)
    : local_(local),
      all_of_this_host_(is_loopback(local.gid)),
      users_(local.ipv4()),
      elsewhere_(local.gid),
      entries_(static_cast<Entry*>(std::calloc(kSourcePorts, sizeof(Entry)))) {
  WEFT_DCHECK(receives >= 0);
  struct stat socket {};
  if (::fstat(receives, &socket) != 0 || entries_ == nullptr) return;
  user_ = socket.st_uid;
  const auto port = static_cast<uint16_t>(local.port + local.shift);
  works_ = users_.user_of(local.gid, port, local.scope) == user_;
  held_.reserve(most_held());
  elsewhere_ = {};
  if (!all_of_this_host_) look_at_addresses();
}

// Called when a path is made, which is before the packets of a local peer matter.
void SenderCheck::look_at_addresses() {
  const Instant now = base::wall_now();
  if (all_of_this_host_ || (!here_.empty() && now - listed_ < kListed)) return;
  here_ = base::addresses_of_host();
  listed_ = now;
  elsewhere_ = {};
}

bool SenderCheck::is_listed(const Gid& source) noexcept {
  if (is_loopback(source) || std::find(here_.begin(), here_.end(), source) != here_.end())
    return true;
  elsewhere_ = source;
  return false;
}

// ---- the budget

void SenderCheck::Queue::add(uint32_t index) noexcept {
  WEFT_DCHECK(index < kSourcePorts);
  const uint64_t bit = uint64_t{1} << (index % 64);
  count += (wanted[index / 64] & bit) == 0;
  wanted[index / 64] |= bit;
}

// The next one after the last, all around.
uint32_t SenderCheck::Queue::take() noexcept {
  WEFT_DCHECK(count != 0 && cursor < kSourcePorts);
  uint32_t word = cursor / 64;
  uint64_t bits = wanted[word] & (~uint64_t{0} << (cursor % 64));
  while (bits == 0) {
    word = (word + 1) % static_cast<uint32_t>(wanted.size());
    bits = wanted[word];
  }
  const uint32_t index = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  wanted[word] &= ~(uint64_t{1} << (index % 64));
  --count;
  cursor = (index + 1) % kSourcePorts;
  return index;
}

void SenderCheck::Queue::refill(Instant now) noexcept {
  constexpr Duration kPeriod = Duration::from_us(1'000'000 / kLookupsPerSecond);
  const int64_t periods = (now - refilled).ps / kPeriod.ps;
  if (periods <= 0) return;
  refilled = now;
  tokens = static_cast<uint32_t>(std::min<int64_t>(kBurst, tokens + periods));
}

void SenderCheck::serve(Queue& queue, Instant now) noexcept {
  queue.refill(now);
  for (uint32_t i = 0; i < kLookupsOfOneCall && queue.count != 0 && queue.tokens != 0; ++i) {
    --queue.tokens;
    resolve(queue.take(), now);
  }
}

// ---- verdicts

bool SenderCheck::look(const Gid& source, uint16_t port) noexcept {
  if (port < kFirstSourcePort) return refuse();
  const uint32_t index = port - kFirstSourcePort;
  WEFT_DCHECK(index < kSourcePorts && states_[index] != State::held);
  Entry& entry = entries_[index];
  const State& state = states_[index];
  const Instant now = base::wall_now();
  const bool lent = state == State::lent && (entry.any_source || entry.source == source);
  if (now >= entry.until || (state == State::lent && !lent)) {
    Queue& queue = lent ? again_ : first_;
    if (!lent) states_[index] = State::refused;
    entry.source = source;
    queue.add(index);
    serve(queue, now);
  }
  return state == State::held || state == State::lent || refuse();
}

void SenderCheck::resolve(uint32_t index, Instant now) noexcept {
  WEFT_DCHECK(index < kSourcePorts);
  if (states_[index] == State::held) return;
  ++counters_.lookups;
  const auto port = static_cast<uint16_t>(kFirstSourcePort + index);
  Entry& entry = entries_[index];
  const std::optional<uint32_t> user = users_.user_everywhere(port);
  entry.any_source = user == user_ || user == kRoot;
  State state = State::refused;
  if (user == user_ && hold(port))
    state = State::held;
  else if (entry.any_source || (user && may_send_for(*user, entry.source)))
    state = State::lent;
  if (user == user_) note_ours(entry.source);
  states_[index] = state;
  entry.until = now + (state == State::lent ? kLent : kRefused);
}

// A user who is neither ours nor root.
bool SenderCheck::may_send_for(uint32_t user, const Gid& source) noexcept {
  WEFT_DCHECK(user != user_ && user != kRoot);
  return users_.user_of(source, local_.port, local_.scope) == user &&
         !our_addresses_.has_another(source, user) && others_addresses_.note(source, user);
}

void SenderCheck::note_ours(const Gid& source) noexcept {
  ours_ = source;
  (void)our_addresses_.note(source, user_);
}

// ---- addresses

SenderCheck::Owners::Owners() : owners_(new Owner[kSize]()) {}

// Where the address is, or would be.
uint32_t SenderCheck::Owners::place_of(const Gid& address) const noexcept {
  auto at = static_cast<uint32_t>(base::GidHash{}(address)) % kSize;
  while (owners_[at].used && owners_[at].address != address) at = (at + 1) % kSize;
  return at;
}

bool SenderCheck::Owners::note(const Gid& address, uint32_t user) noexcept {
  Owner& owner = owners_[place_of(address)];
  if (owner.used) return owner.user == user;
  if (count_ == kMost) return true;
  owner = {address, user, true};
  ++count_;
  WEFT_DCHECK(count_ <= kMost);
  return true;
}

bool SenderCheck::Owners::has_another(const Gid& address, uint32_t user) const noexcept {
  const Owner& owner = owners_[place_of(address)];
  return owner.used && owner.user != user;
}

bool SenderCheck::hold(uint16_t port) noexcept {
  if (held_.size() == held_.capacity()) return false;
  Descriptor socket = hold_port(local_.ipv4(), port);
  if (!socket) return false;
  held_.push_back(std::move(socket));
  return true;
}

}  // namespace weft::port::udp
