// SPDX-License-Identifier: BSD-3-Clause
// See group.hpp.
#include "providers/port/udp/group.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/kernel/socket.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {
namespace {

constexpr uint32_t kMagic = 0x77750001;
constexpr int kAttempts = 3;  // while other members come and go

// Precedes the bytes of a forwarded message.
struct ForwardHeader {
  uint32_t magic = kMagic;
  uint32_t segment = 0;
  uint16_t first_id = 0;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  Gid source;
};

// What the member with the slot is sent when the program `generation` has been attached. Short and
// with the slot where a frame has it (steering.hpp).
struct Probe {
  static constexpr uint32_t kMagicOfProbes = 0x77750004;
  uint32_t magic = kMagicOfProbes;
  uint8_t zero = 0;
  Slot slot = 0;
  uint16_t reserved = 0;
  uint32_t generation = 0;
};
static_assert(sizeof(Probe) == AddressGroup::kProbeLength);
static_assert(offsetof(Probe, slot) == transport::kQpnTopByte);

}  // namespace

Result<std::unique_ptr<AddressGroup>> AddressGroup::join(const LocalAddress& local, Slot first,
                                                         Slot last) {
  std::unique_ptr<AddressGroup> group(new AddressGroup);
  Result<std::unique_ptr<GroupTable>> table = GroupTable::open_locked(local);
  if (!table) return table.error();
  group->table_ = std::move(*table);
  group->names_ = SlotNames(local);
  group->self_ = to_socket_address(local.gid, local.port, local.scope);
  if (const Result<void> ok = group->claim_slot(local, first, last); !ok) return ok.error();
  if (const Result<void> ok = group->find_table(local); !ok) return ok.error();
  GroupTable& members = *group->table_;
  group->forwarded_ = &members.forwarded(group->slot_);
  group->generation_ = &members.generations();
  const bool lone = !members.has_members();
  const bool for_others = local.claim == Claim::shared && members.is_exclusive();
  if (!lone && (local.claim == Claim::exclusive || for_others)) {
    LocalAddress taken = local;
    taken.claim = Claim::exclusive;
    return in_use(taken);
  }
  if (lone) members.set_exclusive(local.claim == Claim::exclusive);
  WEFT_DCHECK(members.process_of(group->slot_) == 0);
  members.add_member(group->slot_);
  group->joined_ = true;
  return group;
}

Result<void> AddressGroup::claim_slot(const LocalAddress& local, Slot first, Slot last) {
  socket_ = Descriptor(base::kernel_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket_)
    return Error{Code::io_error,
                 std::string("cannot create a unix socket: ") + std::strerror(errno)};
  const int on = 1;
  (void)::setsockopt(fd(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const int buffer = 1 << 20;
  (void)::setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  for (uint32_t slot = std::max(first, kFirstSlot); slot <= std::min(last, kLastSlot); ++slot) {
    const SlotNames::Name name = names_.of(static_cast<Slot>(slot));
    if (::bind(fd(), reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0) {
      slot_ = static_cast<Slot>(slot);
      return {};
    }
    if (errno != EADDRINUSE)
      return Error{Code::io_error,
                   "cannot claim a slot of " + text_of(local.gid) + ": " + std::strerror(errno)};
  }
  return Error{Code::no_memory,
               "all slots of " + text_of(local.gid) +
                   " that this device may have are taken: use another address or close a device"};
}

// Sees that our table is the one of the members that the kernel has, and that it has no dead ones.
Result<void> AddressGroup::find_table(const LocalAddress& local) {
  WEFT_DCHECK(slot_ != 0 && !joined_);
  table_->remove_member(slot_);  // that of a process that was killed
  (void)remove_dead();
  if (table_->has_members()) return {};
  Descriptor file;
  // Once more if those that we asked have ended meanwhile.
  for (int attempt = 0; attempt < kAttempts && !file; ++attempt) {
    alone_ = bind_alone(local);
    if (alone_) return {};
    Result<Descriptor> answer = names_.ask_for_table(slot_, fd());
    if (!answer) return answer.error();
    file = std::move(*answer);
  }
  if (!file) return {};  // no device has the UDP port: binding it says so
  Result<std::unique_ptr<GroupTable>> table = GroupTable::adopt_locked(file);
  if (!table) return table.error();
  table_->remove_file();
  table_ = std::move(*table);
  table_->remove_member(slot_);
  (void)remove_dead();
  return {};
}

void AddressGroup::enter(int udp) {
  WEFT_DCHECK(udp_ < 0 && joined_);
  const base::Undo unlock([&] { table_->unlock(); });
  alone_ = {};
  udp_ = udp;
  table_->append_socket(slot_);
  steer();
}

void AddressGroup::leave(Descriptor udp) noexcept {
  if (fork_.passed()) return;  // the parent is still a member
  WEFT_DCHECK(table_ != nullptr && joined_);
  const bool locked = table_->lock();
  if (locked) (void)remove_dead();
  const std::unique_ptr<GroupTable> table = std::move(table_);
  { const Descriptor freed = std::move(socket_); }
  if (!locked) return;  // the others find out as after a kill
  // A child of fork() that has our sockets keeps their places in the kernel, too.
  if (names_.is_alive(slot_)) {
    table->remove_services(slot_);
  } else {
    table->remove_member(slot_);
    bool attached = false;
    if (steers_ && udp && table->socket_count() != 0)
      (void)base::memory_permitting([&] { attached = attach_steering(udp.fd(), *table); });
    if (attached) table->program_attached();
  }
  { const Descriptor closed = std::move(udp); }
  if (!table->has_members()) table->remove_file();
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

// Needs the lock. True: the order of sockets has changed.
bool AddressGroup::remove_dead() noexcept {
  bool changed = false;
  for (uint32_t at = kFirstSlot; at <= kLastSlot; ++at) {
    const auto slot = static_cast<Slot>(at);
    if (table_->process_of(slot) == 0 || slot == slot_ || names_.is_alive(slot)) continue;
    changed |= table_->socket_of(slot).has_value();
    table_->remove_member(slot);
  }
  // Our own is there before its socket is: in find_table() and until enter().
  return table_->mend_order() || changed;
}

// Needs the lock.
void AddressGroup::attach() {
  WEFT_DCHECK(udp_ >= 0 && table_->socket_of(slot_));
  if (!steers_) return;
  steers_ = attach_steering(udp_, *table_);
  if (steers_) ++counters_.programs;
}

// Needs the lock. The order of sockets has changed.
void AddressGroup::steer() {
  attach();
  if (!steers_) return;
  table_->program_attached();
  send_probes();
}

// `evidence`: we are the socket that the program has for this slot; 0: a member may be dead.
void AddressGroup::repair(Slot evidence, uint32_t generation) noexcept {
  WEFT_DCHECK(udp_ >= 0 && evidence != slot_);
  if (!table_->try_lock()) return;
  const base::Undo unlock([&] { table_->unlock(); });
  bool changed = remove_dead();
  if (!changed && evidence != 0 && table_->process_of(evidence) != 0 &&
      generation == table_->generation()) {
    table_->swap_sockets(evidence, slot_);
    changed = true;
  }
  if (changed) (void)base::memory_permitting([&] { steer(); });
}

void AddressGroup::on_foreign_frame(Slot slot) noexcept {
  WEFT_DCHECK(slot != slot_);
  const uint32_t generation = table_->generation();
  if (steers_ && table_->process_of(slot) != 0 && empty_since_ == generation)
    repair(slot, generation);
}

void AddressGroup::look_whether_empty() noexcept {
  if (empty_since_ == table_->generation()) return;
  if (::recv(udp_, nullptr, 0, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) on_empty();
}

// The next one of the table: each is looked at in time, by any that polls.
void AddressGroup::look_at_a_member() noexcept {
  empty_reads_ = 0;
  swaps_left_ = std::min(swaps_left_ + 1, kMostSwaps);
  for (uint32_t i = 0; i < kLastSlot; ++i) {
    looked_at_ = looked_at_ == kLastSlot ? kFirstSlot : static_cast<Slot>(looked_at_ + 1);
    if (looked_at_ == slot_ || table_->process_of(looked_at_) == 0) continue;
    if (!names_.is_alive(looked_at_)) repair(0, 0);
    return;
  }
}

// ---- probes

// From our socket of the group: no other user can send from this port.
void AddressGroup::send_probes() noexcept {
  Probe probe;
  probe.generation = table_->generation();
  for (uint32_t i = 0; i < table_->socket_count(); ++i) {
    probe.slot = table_->slot_at(i);
    (void)::sendto(udp_, &probe, sizeof probe, MSG_DONTWAIT | MSG_NOSIGNAL, &self_.generic,
                   self_.length);
  }
}

bool AddressGroup::take_probe(const Message& message) noexcept {
  WEFT_DCHECK(message.length == sizeof(Probe));
  Probe probe;
  std::memcpy(&probe, message.bytes, sizeof probe);
  const transport::Path& path = message.path;
  if (probe.magic != Probe::kMagicOfProbes || path.source != path.destination ||
      path.source_port != path.destination_port)
    return false;
  ++counters_.probes;
  if (probe.slot != slot_ && probe.slot != 0 && probe.generation == table_->generation() &&
      swaps_left_ != 0) {
    --swaps_left_;
    repair(probe.slot, probe.generation);
  }
  return true;
}

// ---- forwarded messages

bool AddressGroup::forward(Slot slot, const Message& message, uint32_t length) noexcept {
  WEFT_DCHECK(length != 0 && message.offset + length <= message.length && message.segment != 0);
  const uint64_t frames = (length + message.segment - 1) / message.segment;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Slot to = table_->process_of(slot) != 0 ? slot : table_->default_member();
    if (to == slot_ || to == 0) return false;
    const Sent sent = send_to(to, message, length);
    if (sent == Sent::yes) counters_.forwarded += frames;
    if (sent == Sent::dropped) counters_.forward_drops += frames;
    if (sent != Sent::no_such_slot) return true;
    repair(0, 0);
  }
  return false;
}

// ---- queue pair 1

// Changes the table and the program with it; the order of sockets stays.
template <class Change>
void AddressGroup::change(Change change) {
  if (!table_->lock()) return;
  const base::Undo unlock([&] { table_->unlock(); });
  change();
  attach();
}

void AddressGroup::open_general_services() {
  change([&] { table_->set_manages(slot_); });
}

Result<void> AddressGroup::claim_service(uint64_t service) {
  if (!table_->lock())
    return Error{Code::busy, "another process holds the table of listeners: is it stopped?"};
  const base::Undo unlock([&] { table_->unlock(); });
  const Slot holder = table_->listener_of(service);
  if (holder != 0 && table_->listens(holder, service) && names_.is_alive(holder))
    return Error{Code::address_in_use,
                 "process " + std::to_string(table_->process_of(holder)) + " listens there"};
  if (!table_->set_listener(service, slot_))
    return Error{Code::no_memory, "the devices of this address have all their listeners in use"};
  attach();
  return {};
}

void AddressGroup::release_service(uint64_t service) {
  change([&] { table_->remove_listener(service, slot_); });
}

AddressGroup::Sent AddressGroup::send_to(Slot slot, const Message& message,
                                         uint32_t length) noexcept {
  ForwardHeader head;
  head.segment = message.segment;
  head.first_id = message.next_id;
  head.source_port = message.path.source_port;
  head.traffic_class = message.path.traffic_class;
  head.source = message.path.source;
  iovec pieces[2] = {{&head, sizeof head}, {message.bytes + message.offset, length}};
  SlotNames::Name to = names_.of(slot);
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
  WEFT_DCHECK(message.bytes != nullptr && table_ != nullptr);
  ForwardHeader head;
  iovec pieces[2] = {{&head, sizeof head}, {message.bytes, capacity}};
  Attached attached(pieces, 2);
  const uint32_t expected = forwarded_->load(std::memory_order_acquire);
  const ssize_t n = ::recvmsg(fd(), &attached.header(), MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) {
    received_ = expected;  // a message that is counted now comes with the next change
    return false;
  }
  attached.take();
  message.length = message.offset = 0;
  if (attached.from_our_user() && head.magic == SlotNames::kAskMagic && attached.descriptor()) {
    SlotNames::hand_out(table_->file(), attached.descriptor().fd());
    return true;
  }
  const bool whole =
      n > static_cast<ssize_t>(sizeof head) && (attached.header().msg_flags & MSG_TRUNC) == 0;
  if (!whole || !attached.from_our_user() || head.magic != kMagic || head.segment == 0) {
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
