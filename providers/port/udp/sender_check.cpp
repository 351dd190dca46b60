// SPDX-License-Identifier: BSD-3-Clause
// See sender_check.hpp.
#include "providers/port/udp/sender_check.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/gid_hash.hpp"
#include "lib/base/interface.hpp"
#include "lib/base/kernel/socket.hpp"
#include "lib/base/socket_gid.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {
namespace {

constexpr Duration kBetweenLooks = Duration::from_ms(10);
constexpr uint32_t kLookupsOfOneCall = 8;
constexpr uint32_t kRoot = 0;

// Ports of peers that we hold at most: each costs a descriptor.
uint32_t most_held() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 64;
  return static_cast<uint32_t>(std::clamp<rlim_t>(files.rlim_cur / 16, 16, 1024));
}

// Readable when an address of this host comes or goes.
Descriptor open_address_watch() noexcept {
  Descriptor watch(
      base::kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!watch || ::bind(watch.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    return {};
  return watch;
}

}  // namespace

SenderCheck::SenderCheck(const LocalAddress& local, uint32_t user)
    : local_(local),
      all_of_this_host_(base::is_loopback(local.gid)),
      user_(user),
      users_(local.ipv4()),
      entries_(static_cast<Entry*>(std::calloc(kSourcePorts, sizeof(Entry)))) {
  held_.reserve(most_held());
}

Result<std::unique_ptr<SenderCheck>> SenderCheck::open(const LocalAddress& local, int receives) {
  WEFT_DCHECK(receives >= 0);
  const std::string what = "udp.check_senders=1 on " + text_of(local.gid) + ": ";
  struct stat socket {};
  if (::fstat(receives, &socket) != 0)
    return Error{Code::io_error, what + "fstat: " + std::strerror(errno)};
  std::unique_ptr<SenderCheck> check(new SenderCheck(local, socket.st_uid));
  if (check->entries_ == nullptr)
    return Error{Code::no_memory, what + "no memory for the source ports of peers"};
  const auto port = static_cast<uint16_t>(local.port + local.shift);
  if (check->users_.user_of(local.gid, port, local.scope) != check->user_)
    return Error{Code::not_supported,
                 what +
                     "the kernel does not say whose UDP sockets are (sock_diag): load its module "
                     "udp_diag, or leave the key out, then any process of this host may forge "
                     "packets"};
  if (check->all_of_this_host_) return check;
  check->changes_ = open_address_watch();
  check->here_ = base::addresses_of_host();
  if (!check->changes_ || check->here_.empty())
    return Error{Code::io_error, what +
                                     "the kernel does not list the addresses of this host "
                                     "(rtnetlink): permit it, or leave the key out"};
  return check;
}

bool SenderCheck::have_addresses_changed() noexcept {
  bool changed = false;
  char message[4096];
  for (;;) {
    const ssize_t n = ::recv(changes_.fd(), message, sizeof message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ENOBUFS) return changed;
    changed = true;  // ENOBUFS: more than the socket held
  }
}

// A list that cannot be had leaves the last one: an address in it is one of this host.
void SenderCheck::look_at_addresses() {
  if (all_of_this_host_) return;
  const Instant now = base::wall_now();
  if (looked_ && now - *looked_ < kBetweenLooks) return;
  looked_ = now;
  stale_ = have_addresses_changed() || stale_;
  if (!stale_) return;
  std::vector<Gid> found = base::addresses_of_host();
  if (found.empty()) return;
  here_ = std::move(found);
  stale_ = false;
  elsewhere_ = {};
}

bool SenderCheck::is_listed(const Gid& source) noexcept {
  if (base::is_loopback(source) || std::find(here_.begin(), here_.end(), source) != here_.end())
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

void SenderCheck::Queue::refill(Instant now, uint32_t per_second) noexcept {
  const Duration period = Duration::from_us(1'000'000 / per_second);
  const int64_t periods = (now - refilled).ps / period.ps;
  if (periods <= 0) return;
  refilled = now;
  tokens = static_cast<uint32_t>(std::min<int64_t>(kBurst, tokens + periods));
}

void SenderCheck::serve(Queue& queue, Instant now) noexcept {
  queue.refill(now, &queue == &again_ ? kRenewalsPerSecond : kLookupsPerSecond);
  for (uint32_t i = 0; i < kLookupsOfOneCall && queue.count != 0 && queue.tokens != 0; ++i) {
    --queue.tokens;
    resolve(queue.take(), now);
  }
}

// ---- verdicts

bool SenderCheck::look(const Gid& source, uint16_t port) noexcept {
  if (port < kFirstSourcePort) return refuse();
  const uint32_t index = port - kFirstSourcePort;
  WEFT_DCHECK(index < kSourcePorts && !is_held_[index]);
  Entry& entry = entries_[index];
  const Instant now = base::wall_now();
  const auto is_lent = [&] {
    const Entry::Lease* const lease = entry.find(source);
    return lease != nullptr && now < lease->until;
  };
  if (is_lent()) return true;
  const bool was_lent = entry.find(source) != nullptr;
  if (was_lent || now >= entry.refused_until) {
    Queue& queue = was_lent ? again_ : first_;
    entry.wanted = source;
    queue.add(index);
    serve(queue, now);
  }
  return is_held_[index] || is_lent() || refuse();
}

void SenderCheck::resolve(uint32_t index, Instant now) noexcept {
  WEFT_DCHECK(index < kSourcePorts);
  if (is_held_[index]) return;
  ++counters_.lookups;
  const auto port = static_cast<uint16_t>(kFirstSourcePort + index);
  Entry& entry = entries_[index];
  const std::optional<uint32_t> user = users_.user_everywhere(port);
  const bool any_source = user == user_ || user == kRoot;
  if (user == user_) note_ours(entry.wanted);
  if (user == user_ && hold(port)) {
    is_held_[index] = true;
  } else if (any_source || (user && may_send_for(*user, entry.wanted))) {
    entry.lend(entry.wanted, any_source, now + kLent);
  } else {
    if (Entry::Lease* const lease = entry.find(entry.wanted)) *lease = {};
    entry.refused_until = now + kRefused;
  }
}

SenderCheck::Entry::Lease* SenderCheck::Entry::find(const Gid& source) noexcept {
  for (Lease& lease : leases)
    if (lease.used && (lease.any_source || lease.source == source)) return &lease;
  return nullptr;
}

void SenderCheck::Entry::lend(const Gid& source, bool any_source, Instant until) noexcept {
  Lease* place = find(source);
  if (place == nullptr)
    place = std::min_element(leases.begin(), leases.end(),
                             [](const Lease& a, const Lease& b) { return a.until < b.until; });
  *place = {source, until, any_source, true};
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
