// SPDX-License-Identifier: BSD-3-Clause
// See group.hpp.
#include "providers/port/udp/group.hpp"

#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {
namespace {

constexpr uint32_t kMagic = 0x77750001;

// Precedes the bytes of a forwarded message.
struct ForwardHeader {
  uint32_t magic = kMagic;
  uint32_t segment = 0;
  uint16_t first_id = 0;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  Gid source;
};

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

UnixAddress slot_address(const std::string& prefix, Slot slot) noexcept {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  const int n = std::snprintf(result.address.sun_path + 1, sizeof result.address.sun_path - 1,
                              "%s%u", prefix.c_str(), slot);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                         static_cast<size_t>(std::max(n, 0)));
  return result;
}

// True if the message came from a process of our user.
bool from_our_user(msghdr& header) noexcept {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender;
    std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
    return sender.uid == ::geteuid();
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<AddressGroup>> AddressGroup::join(const LocalAddress& local, Slot first,
                                                         Slot last) {
  std::unique_ptr<AddressGroup> group(new AddressGroup);
  Result<std::unique_ptr<GroupTable>> table = GroupTable::open_locked(local);
  if (!table) return table.error();
  group->table_ = std::move(*table);
  GroupTable& members = *group->table_;
  group->prefix_ = "weft-udp/" + std::to_string(::geteuid()) + "/" + text_of(local.gid) + "/" +
                   std::to_string(local.port) + "/";
  group->socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = group->fd();
  if (fd < 0)
    return Error{Code::io_error,
                 std::string("cannot create a unix socket: ") + std::strerror(errno)};
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const int buffer = 1 << 20;
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  for (uint32_t slot = std::max(first, kFirstSlot); slot <= std::min(last, kLastSlot); ++slot) {
    const UnixAddress address = slot_address(group->prefix_, static_cast<Slot>(slot));
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address.address), address.length) == 0) {
      group->slot_ = static_cast<Slot>(slot);
      group->forwarded_ = &members.forwarded(group->slot_);
      group->generation_ = &members.generations();
      members.remove_member(group->slot_);  // that of a process that was killed
      (void)group->remove_dead();
      const bool lone = !members.has_members();
      const bool for_others = local.claim == Claim::shared && members.is_exclusive();
      if (!lone && (local.claim == Claim::exclusive || for_others)) {
        LocalAddress taken = local;
        taken.claim = Claim::exclusive;
        return in_use(taken);
      }
      if (lone) members.set_exclusive(local.claim == Claim::exclusive);
      members.add_member(group->slot_);
      group->joined_ = true;
      return group;
    }
    if (errno != EADDRINUSE)
      return Error{Code::io_error,
                   "cannot claim a slot of " + text_of(local.gid) + ": " + std::strerror(errno)};
  }
  return Error{Code::no_memory,
               "all slots of " + text_of(local.gid) +
                   " that this device may have are taken: use another address or close a device"};
}

void AddressGroup::enter(int udp) {
  WEFT_DCHECK(udp_ < 0);
  const base::Undo unlock([&] { table_->unlock(); });
  udp_ = udp;
  table_->append_socket(slot_);
  steer();
}

void AddressGroup::leave(Descriptor udp) noexcept {
  if (fork_.passed()) return;  // the parent is still a member
  const bool locked = table_->lock();
  if (locked) (void)remove_dead();
  const std::unique_ptr<GroupTable> table = std::move(table_);
  { const Descriptor closed = std::move(udp), freed = std::move(socket_); }
  if (!locked) return;  // the others find out as after a kill
  table->remove_member(slot_);
  if (table->has_members())
    table->set_stale();
  else
    table->remove_file();
  table->unlock();
}

AddressGroup::~AddressGroup() {
  if (fork_.passed() || table_ == nullptr) return;
  if (udp_ >= 0) {
    leave({});
    return;
  }
  if (joined_) table_->remove_member(slot_);
  if (!table_->has_members()) table_->remove_file();
}

bool AddressGroup::is_alive(Slot slot) const noexcept {
  const Descriptor probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UnixAddress to = slot_address(prefix_, slot);
  return ::connect(probe.fd(), reinterpret_cast<const sockaddr*>(&to.address), to.length) == 0 ||
         errno != ECONNREFUSED;
}

// Needs the lock. True: the order of sockets has changed.
bool AddressGroup::remove_dead() noexcept {
  bool changed = false;
  for (uint32_t at = kFirstSlot; at <= kLastSlot; ++at) {
    const auto slot = static_cast<Slot>(at);
    if (table_->process_of(slot) == 0 || slot == slot_ || is_alive(slot)) continue;
    changed |= table_->socket_of(slot).has_value();
    table_->remove_member(slot);
  }
  return changed;
}

// Needs the lock.
void AddressGroup::steer() {
  if (!steers_) return;
  steers_ = attach_steering(udp_, *table_);
  if (!steers_) return;
  ++counters_.programs;
  table_->program_attached();
}

// `evidence`: we are the socket that the program has for this slot; 0: a member may be dead.
void AddressGroup::repair(Slot evidence) noexcept {
  if (!table_->try_lock()) return;
  const base::Undo unlock([&] { table_->unlock(); });
  bool changed = table_->stale();
  changed |= remove_dead();
  if (!changed && evidence != 0 && empty_since_ == table_->generation()) {
    table_->swap_sockets(evidence, slot_);
    changed = true;
  }
  if (changed) (void)base::memory_permitting([&] { steer(); });
}

void AddressGroup::on_foreign_frame(Slot slot) noexcept {
  if (!steers_) return;
  const bool evidence = table_->process_of(slot) != 0 && empty_since_ == table_->generation();
  if (evidence || table_->stale()) repair(evidence ? slot : Slot{0});
}

void AddressGroup::look_whether_empty() noexcept {
  if (empty_since_ == table_->generation()) return;
  if (::recv(udp_, nullptr, 0, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) on_empty();
}

bool AddressGroup::forward(Slot slot, const Message& message, uint32_t length) noexcept {
  constexpr int kAttempts = 3;
  const uint64_t frames = (length + message.segment - 1) / message.segment;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Slot to = table_->process_of(slot) != 0 ? slot : table_->default_member();
    if (to == slot_ || to == 0) return false;
    const Sent sent = send_to(to, message, length);
    if (sent == Sent::yes) counters_.forwarded += frames;
    if (sent == Sent::dropped) counters_.forward_drops += frames;
    if (sent != Sent::no_such_slot) return true;
    repair(0);
  }
  return false;
}

// ---- queue pair 1

// Changes the table and the program with it.
template <class Change>
void AddressGroup::change(Change change) {
  if (!table_->lock()) return;
  const base::Undo unlock([&] { table_->unlock(); });
  change();
  steer();
}

void AddressGroup::open_general_services() {
  change([&] { table_->set_manages(slot_); });
}

Result<void> AddressGroup::claim_service(uint64_t service) {
  if (!table_->lock())
    return Error{Code::busy, "another process holds the table of listeners: is it stopped?"};
  const base::Undo unlock([&] { table_->unlock(); });
  const Slot holder = table_->listener_of(service);
  if (holder != 0 && table_->listens(holder, service) && is_alive(holder))
    return Error{Code::address_in_use,
                 "process " + std::to_string(table_->process_of(holder)) + " listens there"};
  if (!table_->set_listener(service, slot_))
    return Error{Code::no_memory, "the devices of this address have all their listeners in use"};
  steer();
  return {};
}

void AddressGroup::release_service(uint64_t service) {
  change([&] { table_->remove_listener(service, slot_); });
}

// ---- forwarded messages

AddressGroup::Sent AddressGroup::send_to(Slot slot, const Message& message,
                                         uint32_t length) noexcept {
  ForwardHeader head;
  head.segment = message.segment;
  head.first_id = message.next_id;
  head.source_port = message.path.source_port;
  head.traffic_class = message.path.traffic_class;
  head.source = message.path.source;
  iovec pieces[2] = {{&head, sizeof head}, {message.bytes + message.offset, length}};
  UnixAddress to = slot_address(prefix_, slot);
  msghdr header{};
  header.msg_name = &to.address;
  header.msg_namelen = to.length;
  header.msg_iov = pieces;
  header.msg_iovlen = 2;
  if (::sendmsg(fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
    table_->count_forwarded(slot);
    return Sent::yes;
  }
  return errno == ECONNREFUSED || errno == ENOENT ? Sent::no_such_slot : Sent::dropped;
}

bool AddressGroup::receive(Message& message, size_t capacity) noexcept {
  ForwardHeader head;
  iovec pieces[2] = {{&head, sizeof head}, {message.bytes, capacity}};
  // Room for the sender's credentials alone: attached descriptors are not installed.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = 2;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const uint32_t expected = forwarded_->load(std::memory_order_acquire);
  const ssize_t n = ::recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) {
    received_ = expected;  // a message that is counted now comes with the next change
    return false;
  }
  message.length = message.offset = 0;
  const bool whole = n > static_cast<ssize_t>(sizeof head) && (header.msg_flags & MSG_TRUNC) == 0;
  if (!whole || !from_our_user(header) || head.magic != kMagic || head.segment == 0) {
    ++counters_.forward_refused;
    return true;
  }
  ++counters_.forward_received;
  message.length = static_cast<uint32_t>(n) - static_cast<uint32_t>(sizeof head);
  message.ours_until = message.length;  // never forwarded twice
  message.segment = head.segment;
  message.next_id = head.first_id;
  message.path.source = head.source;
  message.path.source_port = head.source_port;
  message.path.traffic_class = head.traffic_class;
  return true;
}

}  // namespace weft::port::udp
