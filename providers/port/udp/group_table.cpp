// SPDX-License-Identifier: BSD-3-Clause
// See group_table.hpp.
#include "providers/port/udp/group_table.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::port::udp {
namespace {

constexpr int kLockAttempts = 5000;  // a millisecond apart

// False: the file was removed after we opened it.
bool is_at(const std::string& path, int file) noexcept {
  struct stat ours {
  }, there{};
  return ::fstat(file, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

// Folders that processes of one user share. A read-only root without /dev/shm still has /run.
constexpr const char* kFolders[] = {"/dev/shm", "/tmp", "/run"};

const char* folder() noexcept {
  for (const char* const one : kFolders)
    if (::access(one, W_OK | X_OK) == 0) return one;
  return kFolders[0];
}

std::string prefix_of_files() { return "weft-udp-" + std::to_string(::geteuid()) + "-"; }

// The address means nothing outside its network namespace, and containers may share /dev/shm.
std::string path_of(const LocalAddress& local) {
  struct stat space {};
  (void)::stat("/proc/thread-self/ns/net", &space);
  return std::string(folder()) + "/" + prefix_of_files() + std::to_string(space.st_ino) + "-" +
         text_of(local.gid) + "-" + std::to_string(local.port);
}

Error failed(const std::string& path, const char* step) {
  const int error = errno;
  return {error == EACCES || error == EPERM ? Code::permission_denied : Code::io_error,
          "cannot " + std::string(step) + " " + path + ", in which the devices of an address " +
              "know of each other: " + std::strerror(error) +
              "; one of /dev/shm, /tmp and /run must be writable"};
}

// Removes the file unless it has a member or a process is joining.
void remove_unused(const std::string& path) noexcept {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file || ::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) return;
  struct flock members {};
  members.l_type = F_WRLCK;
  members.l_whence = SEEK_SET;
  if (::fcntl(file.fd(), F_OFD_GETLK, &members) == 0 && members.l_type == F_UNLCK &&
      is_at(path, file.fd()))
    (void)::unlink(path.c_str());
}

// Files whose last member was killed, of whichever address and network namespace.
void remove_unused_files() {
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(folder()), &::closedir);
  const std::string prefix = prefix_of_files();
  while (const dirent* entry = list != nullptr ? ::readdir(list.get()) : nullptr)
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0)
      remove_unused(std::string(folder()) + "/" + entry->d_name);
}

}  // namespace

bool GroupTable::exists(const LocalAddress& local) noexcept {
  struct stat file {};
  return ::lstat(path_of(local).c_str(), &file) == 0 && file.st_uid == ::geteuid();
}

Result<std::unique_ptr<GroupTable>> GroupTable::open_locked(const LocalAddress& local) {
  std::unique_ptr<GroupTable> table(new GroupTable(path_of(local)));
  const std::string& path = table->path_;
  remove_unused_files();
  for (;;) {
    table->file_ = Descriptor(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!table->file_) return failed(path, "open");
    if (const Result<void> ok = table->map_and_lock(); !ok) return ok.error();
    if (is_at(path, table->file_.fd())) return table;
    table->unlock();  // the file was removed meanwhile
    ::munmap(std::exchange(table->layout_, nullptr), sizeof(Layout));
  }
}

// Opened anew: a descriptor that was handed over shares its locks with the member that did so.
Result<std::unique_ptr<GroupTable>> GroupTable::adopt_locked(const Descriptor& handed) {
  std::unique_ptr<GroupTable> table(
      new GroupTable("/proc/thread-self/fd/" + std::to_string(handed.fd())));
  table->file_ = Descriptor(::open(table->path_.c_str(), O_RDWR | O_CLOEXEC));
  if (!table->file_) return failed(table->path_, "open");
  if (const Result<void> ok = table->map_and_lock(); !ok) return ok.error();
  return table;
}

Result<void> GroupTable::map_and_lock() {
  WEFT_DCHECK(file_ && layout_ == nullptr);
  if (Result<void> ok = map(); !ok) return ok;
  if (lock()) return {};
  return Error{Code::busy, "process " + std::to_string(layout_->lock_holder.load()) +
                               " holds the lock of " + path_ + ": is it stopped?"};
}

// The kernel fills a new file with zeros.
Result<void> GroupTable::map() {
  struct stat file {};
  if (::fstat(file_.fd(), &file) != 0) return failed(path_, "read");
  if (file.st_uid != ::geteuid() || !S_ISREG(file.st_mode))
    return Error{Code::permission_denied,
                 path_ + " belongs to user " + std::to_string(file.st_uid) + ": remove it"};
  if (file.st_size < static_cast<off_t>(sizeof(Layout)) &&
      ::ftruncate(file_.fd(), sizeof(Layout)) != 0)
    return failed(path_, "extend");
  void* const memory =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (memory == MAP_FAILED) return failed(path_, "map");
  layout_ = static_cast<Layout*>(memory);
  uint32_t fresh = 0;
  if (layout_->magic.compare_exchange_strong(fresh, kMagic) || fresh == kMagic) return {};
  return Error{Code::mismatch, path_ + " is of another version of weft: close its programs"};
}

GroupTable::~GroupTable() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
}

void GroupTable::remove_file() noexcept {
  WEFT_DCHECK(!has_members());
  if (is_at(path_, file_.fd())) (void)::unlink(path_.c_str());
}

// ---- lock

bool GroupTable::try_lock() noexcept {
  WEFT_DCHECK(!locked_ && layout_ != nullptr);
  if (::flock(file_.fd(), LOCK_EX | LOCK_NB) != 0) return false;
  layout_->lock_holder.store(static_cast<uint32_t>(::getpid()), kRelaxed);
  return locked_ = true;
}

bool GroupTable::lock() noexcept {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (try_lock()) return true;
    ::usleep(1000);
  }
  return false;
}

void GroupTable::unlock() noexcept {
  WEFT_DCHECK(locked_);
  locked_ = false;
  layout_->lock_holder.store(0, kRelaxed);
  (void)::flock(file_.fd(), LOCK_UN);
}

// ---- members

void GroupTable::add_member(Slot slot) noexcept {
  WEFT_DCHECK(locked_ && slot >= kFirstSlot && slot <= kLastSlot);
  WEFT_DCHECK(process_of(slot) == 0 && !socket_of(slot));
  struct flock lock {};  // released with the table or the process
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  (void)::fcntl(file_.fd(), F_OFD_SETLK, &lock);
  member(slot).process.store(static_cast<uint32_t>(::getpid()), kRelaxed);
}

void GroupTable::remove_services(Slot slot) noexcept {
  WEFT_DCHECK(locked_);
  for (uint32_t i = 0; i < service_count(); ++i) {
    std::atomic<uint32_t>& holder = layout_->services[i].holder;
    if (static_cast<Slot>(holder.load(kRelaxed)) == slot) holder.store(0, kRelaxed);
  }
  member(slot).manages.store(0, kRelaxed);
}

void GroupTable::remove_member(Slot slot) noexcept {
  WEFT_DCHECK(locked_ && slot >= kFirstSlot && slot <= kLastSlot);
  remove_socket(slot);
  remove_services(slot);
  member(slot).forwarded.store(0, kRelaxed);
  member(slot).process.store(0, kRelaxed);
}

bool GroupTable::has_members() const noexcept {
  return std::any_of(std::begin(layout_->members), std::end(layout_->members),
                     [](const Member& one) { return one.process.load(kRelaxed) != 0; });
}

// ---- order of sockets

uint32_t GroupTable::socket_count() const noexcept {
  return std::min<uint32_t>(layout_->sockets.load(kRelaxed), kLastSlot);
}

std::optional<uint32_t> GroupTable::socket_of(Slot slot) const noexcept {
  for (uint32_t i = 0; i < socket_count(); ++i)
    if (slot_at(i) == slot) return i;
  return std::nullopt;
}

void GroupTable::append_socket(Slot slot) noexcept {
  const uint32_t count = socket_count();
  WEFT_DCHECK(locked_ && is_member(slot) && !socket_of(slot));
  layout_->order[count].store(slot, kRelaxed);
  layout_->sockets.store(count + 1, kRelaxed);
}

void GroupTable::remove_socket(Slot slot) noexcept {
  WEFT_DCHECK(locked_);
  const std::optional<uint32_t> at = socket_of(slot);
  if (!at) return;
  const uint32_t last = socket_count() - 1;
  layout_->order[*at].store(slot_at(last), kRelaxed);
  layout_->sockets.store(last, kRelaxed);
}

void GroupTable::swap_sockets(Slot a, Slot b) noexcept {
  WEFT_DCHECK(locked_ && a != b);
  const std::optional<uint32_t> at_a = socket_of(a), at_b = socket_of(b);
  if (!at_a || !at_b) return;
  layout_->order[*at_a].store(b, kRelaxed);
  layout_->order[*at_b].store(a, kRelaxed);
}

// Half a swap leaves one slot twice and the other one nowhere; half a removal leaves one twice.
bool GroupTable::mend_order() noexcept {
  WEFT_DCHECK(locked_);
  bool changed = false;
  std::array<bool, 256> seen{};
  for (uint32_t i = 0; i < socket_count();) {
    const Slot slot = slot_at(i);
    if (is_member(slot) && !std::exchange(seen[slot], true)) {
      ++i;
      continue;
    }
    changed = true;
    uint32_t missing = kFirstSlot;
    while (missing <= kLastSlot &&
           (!is_member(static_cast<Slot>(missing)) || socket_of(static_cast<Slot>(missing))))
      ++missing;
    if (missing <= kLastSlot) {
      layout_->order[i].store(static_cast<Slot>(missing), kRelaxed);
      continue;
    }
    const uint32_t last = socket_count() - 1;
    layout_->order[i].store(slot_at(last), kRelaxed);
    layout_->sockets.store(last, kRelaxed);
  }
  return changed;
}

// ---- queue pair 1

Slot GroupTable::default_member() const noexcept {
  Slot first = 0;
  for (uint32_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    const Member& one = layout_->members[slot];
    if (one.process.load(kRelaxed) == 0) continue;
    if (one.manages.load(kRelaxed) != 0) return static_cast<Slot>(slot);
    if (first == 0) first = static_cast<Slot>(slot);
  }
  return first;
}

uint32_t GroupTable::service_count() const noexcept {
  return std::min(layout_->service_count.load(std::memory_order_acquire), kServices);
}

GroupTable::Service* GroupTable::find_service(uint64_t service) const noexcept {
  for (uint32_t i = 0; i < service_count(); ++i)
    if (layout_->services[i].id.load(std::memory_order_acquire) == service)
      return &layout_->services[i];
  return nullptr;
}

// An entry may be given to another service between the two reads.
Slot GroupTable::listener_of(uint64_t service) const noexcept {
  const Service* const entry = find_service(service);
  if (entry == nullptr) return 0;
  const auto slot = static_cast<Slot>(entry->holder.load(std::memory_order_acquire));
  return entry->id.load(std::memory_order_acquire) == service ? slot : Slot{0};
}

bool GroupTable::listens(Slot slot, uint64_t service) const noexcept {
  const Service* const entry = find_service(service);
  return entry != nullptr && entry->holder.load(kRelaxed) == (slot | kHeld);
}

bool GroupTable::set_listener(uint64_t service, Slot slot) noexcept {
  WEFT_DCHECK(locked_ && is_member(slot));
  Service* entry = find_service(service);
  for (uint32_t i = 0; i < service_count() && entry == nullptr; ++i)
    if ((layout_->services[i].holder.load(kRelaxed) & kHeld) == 0) entry = &layout_->services[i];
  if (entry == nullptr) {
    const uint32_t count = service_count();
    if (count == kServices) return false;
    entry = &layout_->services[count];
    layout_->service_count.store(count + 1, std::memory_order_release);
  }
  if (entry->id.load(kRelaxed) != service) entry->id.store(0, std::memory_order_release);
  entry->holder.store(slot | kHeld, std::memory_order_release);
  entry->id.store(service, std::memory_order_release);
  return true;
}

void GroupTable::remove_listener(uint64_t service, Slot slot) noexcept {
  WEFT_DCHECK(locked_);
  if (listens(slot, service)) find_service(service)->holder.store(slot, kRelaxed);
}

}  // namespace weft::port::udp
