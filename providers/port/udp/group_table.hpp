// SPDX-License-Identifier: BSD-3-Clause
// What the members of an address know together, in memory that they share: who they are, in which
// order the kernel has their sockets, and which of them listens for connection requests (services
// of queue pair 1). The memory is a file of this user in /dev/shm, or where that is not writable in
// /tmp or /run; the last member removes it. If the last one is killed, a file of 20 KiB remains
// until our user opens a device on any shared address: members hold a shared lock of their file
// (fcntl, which ends with the process), so that a file without members is known. A member that sees
// another /dev/shm than the first one maps the same file, which it was handed (slot_names.hpp).
//
// Members change the table with its lock held (flock, which the kernel releases with its process)
// and read it without: every field is atomic and may be outdated. A wrong order costs speed and
// nothing else. The file belongs to our user alone; what is read from it is checked for its range.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/check.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "providers/port/udp/slot_names.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

class GroupTable {
 public:
  // Opens or creates the table of the address and acquires its lock. Errors: permission_denied and
  // io_error name the file; busy names the process that holds the lock.
  static Result<std::unique_ptr<GroupTable>> open_locked(const LocalAddress& local);
  // Maps the table that another member has handed out, and acquires its lock. Errors: as above.
  static Result<std::unique_ptr<GroupTable>> adopt_locked(const Descriptor& table);
  ~GroupTable();
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;

  // True: our user has a member on the address, or had one that was killed.
  static bool exists(const LocalAddress& local) noexcept;

  // To hand out.
  int file() const noexcept { return file_.fd(); }

  // False: another member holds the lock now.
  bool try_lock() noexcept;
  // Waits for the lock for 5 s at most. False: it was not released.
  bool lock() noexcept;
  void unlock() noexcept;

  // ---- members; changes need the lock
  uint32_t process_of(Slot slot) const noexcept { return member(slot).process.load(kRelaxed); }
  void add_member(Slot slot) noexcept;
  // Also removes its socket and its services.
  void remove_member(Slot slot) noexcept;
  // Its listeners and its connection manager.
  void remove_services(Slot slot) noexcept;
  bool has_members() const noexcept;
  // All members are engines of one device. Set by the first member.
  bool is_exclusive() const noexcept { return layout_->exclusive.load(kRelaxed) != 0; }
  void set_exclusive(bool exclusive) noexcept {
    WEFT_DCHECK(locked_);
    layout_->exclusive.store(exclusive, kRelaxed);
  }
  // Removes the file if it is in our folder: the last member leaves.
  void remove_file() noexcept;

  // ---- the kernel's order of sockets; changes need the lock
  uint32_t socket_count() const noexcept;
  Slot slot_at(uint32_t socket) const noexcept {
    WEFT_DCHECK(socket < kLastSlot);
    return layout_->order[socket].load(kRelaxed);
  }
  std::optional<uint32_t> socket_of(Slot slot) const noexcept;
  void append_socket(Slot slot) noexcept;
  // As the kernel does: the last socket takes the place of the one that is closed.
  void remove_socket(Slot slot) noexcept;
  void swap_sockets(Slot a, Slot b) noexcept;
  // Mends what a member leaves that is killed while it changes the order: a slot that is there
  // twice, or without a member. True: the order has changed.
  bool mend_order() noexcept;

  // Increases with each program for another order.
  uint32_t generation() const noexcept { return generations().load(std::memory_order_acquire); }
  const std::atomic<uint32_t>& generations() const noexcept { return layout_->generation; }
  void program_attached() noexcept { layout_->generation.fetch_add(1, std::memory_order_release); }

  // ---- messages forwarded to a member, modulo 2^32
  void count_forwarded(Slot to) noexcept {
    WEFT_DCHECK(to >= kFirstSlot && to <= kLastSlot);
    member(to).forwarded.fetch_add(1, std::memory_order_release);
  }
  // Of the member with the slot; as long as the table.
  const std::atomic<uint32_t>& forwarded(Slot to) const noexcept { return member(to).forwarded; }

  // ---- queue pair 1
  // The member has a connection manager: it answers requests that no member listens for.
  void set_manages(Slot slot) noexcept { member(slot).manages.store(1, kRelaxed); }
  // The lowest member with a connection manager, or without one if there is none; 0: no member.
  Slot default_member() const noexcept;
  // The listener of a service, or the last one that it had; 0: none.
  Slot listener_of(uint64_t service) const noexcept;
  bool listens(Slot slot, uint64_t service) const noexcept;
  // Needs the lock. False: all entries are in use.
  bool set_listener(uint64_t service, Slot slot) noexcept;
  // Needs the lock. Requests of connections that are being made still go to `slot`.
  void remove_listener(uint64_t service, Slot slot) noexcept;
  // Calls visit(service, slot) for at most `most` services that have a listener.
  template <class Visit>
  void visit_listeners(uint32_t most, Visit visit) const {
    for (uint32_t i = 0; i < service_count() && most != 0; ++i) {
      const uint32_t holder = layout_->services[i].holder.load(kRelaxed);
      if ((holder & kHeld) == 0) continue;
      visit(layout_->services[i].id.load(kRelaxed), static_cast<Slot>(holder));
      --most;
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr uint32_t kServices = 1024;
  static constexpr uint32_t kHeld = 1u << 8;  // of Service::holder; the low 8 bits are the slot

  struct Member {
    std::atomic<uint32_t> process;  // 0: none
    std::atomic<uint32_t> forwarded;
    std::atomic<uint32_t> manages;
  };
  struct Service {
    std::atomic<uint64_t> id;
    std::atomic<uint32_t> holder;
  };
  // All zero at first.
  struct Layout {
    std::atomic<uint32_t> magic;
    std::atomic<uint32_t> generation;
    std::atomic<uint32_t> exclusive;
    std::atomic<uint32_t> lock_holder;  // process
    std::atomic<uint32_t> sockets;
    std::atomic<uint32_t> service_count;  // entries that are or were in use
    std::atomic<Slot> order[256];
    Member members[256];
    Service services[kServices];
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  static constexpr uint32_t kMagic = 0x77750101;

  explicit GroupTable(std::string path) : path_(std::move(path)) {}
  Result<void> map();
  Result<void> map_and_lock();
  uint32_t service_count() const noexcept;
  Service* find_service(uint64_t service) const noexcept;
  Member& member(Slot slot) const noexcept {
    WEFT_DCHECK(layout_ != nullptr);
    return layout_->members[slot];
  }
  bool is_member(Slot slot) const noexcept {
    return slot >= kFirstSlot && slot <= kLastSlot && process_of(slot) != 0;
  }

  std::string path_;
  Descriptor file_;
  Layout* layout_ = nullptr;
  bool locked_ = false;  // by us
};

}  // namespace weft::port::udp
