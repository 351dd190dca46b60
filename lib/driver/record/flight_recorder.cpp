// SPDX-License-Identifier: BSD-3-Clause
// The file is written through a mapping: what was stored is there whatever ends the process.
#include "lib/driver/record/flight_recorder.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <new>

#include "lib/base/clock.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/driver/record/record_folder.hpp"

namespace weft::driver {
namespace {

constexpr size_t kKeptRecords = 16;  // of processes that crashed
constexpr Duration kClockPeriod = Duration::from_s(1);

int64_t wall_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) noexcept {
  const size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// Processes of several namespaces may share the folder, so a process number is not enough.
std::string new_name(const std::string& folder) {
  uint32_t random = 0;
  (void)::getrandom(&random, sizeof random, GRND_NONBLOCK);
  char name[48];
  std::snprintf(name, sizeof name, "/%d-%08x.record", ::getpid(), random);
  return folder + name;
}

}  // namespace

FlightRecorder::~FlightRecorder() {
  if (header_ == nullptr) return;
  if (!kept_) (void)::unlink(path_.c_str());
  (void)::munmap(header_, kRecordSize);
}

void FlightRecorder::abandon() noexcept {
  // The mapping is not in the child (MADV_DONTFORK).
  header_ = nullptr;
  events_ = nullptr;
}

void FlightRecorder::open(const RecordIdentity& identity, Instant now) noexcept {
  WEFT_DCHECK(header_ == nullptr && packets_.place_offset >= sizeof(RecordedEvent::head) &&
              packets_.place_length <= sizeof(RecordedEvent::place));
  (void)base::memory_permitting([&] {
    before_ = std::make_unique<transport::Counters>();
    if (make_file(identity, now))
      events_ = reinterpret_cast<RecordedEvent*>(reinterpret_cast<std::byte*>(header_) +
                                                 kRecordHeaderSize);
  });
}

// False: why_ is set.
bool FlightRecorder::make_file(const RecordIdentity& identity, Instant now) {
  WEFT_DCHECK(header_ == nullptr && path_.empty());
  const Result<std::string> folder = make_record_folder();
  if (!folder) return why_ = folder.error().message, false;
  remove_old_records(*folder, kKeptRecords);
  std::string path = new_name(*folder);
  const int file =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return why_ = path + ": " + std::strerror(errno), false;
  // Allocated now: a store into a file system that has become full would be a SIGBUS.
  const int full = ::posix_fallocate(file, 0, kRecordSize);
  void* const memory = full != 0 ? MAP_FAILED
                                 : ::mmap(nullptr, kRecordSize, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_POPULATE, file, 0);
  const int reason = full != 0 ? full : errno;
  ::close(file);
  if (memory == MAP_FAILED || ::madvise(memory, kRecordSize, MADV_DONTFORK) != 0) {
    why_ = path + ": " + std::strerror(reason);
    if (memory != MAP_FAILED) (void)::munmap(memory, kRecordSize);
    (void)::unlink(path.c_str());
    return false;
  }
  header_ = new (memory) RecordHeader{};
  path_ = std::move(path);
  std::memset(&place_mask_, 0xFF, packets_.place_length);
  header_->counters = transport::kCountEnd;
  header_->capacity = kRecordedEvents;
  header_->process = ::getpid();
  header_->engine = identity.engine;
  header_->process_space = process_space();
  header_->process_started = start_of_process(::getpid());
  header_->udp_port = packets_.udp_port;
  header_->place_offset = packets_.place_offset;
  std::memcpy(header_->address, identity.address.bytes.data(), sizeof header_->address);
  copy_text(header_->program, program_invocation_short_name);
  copy_text(header_->device, identity.device);
  update_clocks(now);
  header_->clocks[0] = header_->clocks[1];
  std::memcpy(header_->magic, kRecordMagic, sizeof kRecordMagic);
  return true;
}

void FlightRecorder::update_clocks(Instant now) noexcept {
  WEFT_DCHECK(header_ != nullptr);
  header_->clocks[0] = header_->clocks[1];
  // `now` may be old: the two clocks are read together.
  header_->clocks[1] = {base::wall_now().ps, wall_ns()};
  clocks_until_ = now + kClockPeriod;
}

void FlightRecorder::note_short(RecordedEvent& event, const std::byte* bytes,
                                uint32_t here) const noexcept {
  WEFT_DCHECK(bytes != nullptr || here == 0);
  event.head = event.place = 0;
  if (here == 0) return;
  std::memcpy(&event.head, bytes, std::min<size_t>(here, sizeof event.head));
  if (here > packets_.place_offset)
    std::memcpy(&event.place, bytes + packets_.place_offset, here - packets_.place_offset);
  event.place &= place_mask_;
}

void FlightRecorder::note(EventKind kind, uint64_t head, uint64_t place, Instant now) noexcept {
  if (events_ == nullptr) return;
  WEFT_DCHECK(header_ != nullptr);
  events_[written_ % kRecordedEvents] = {.at_ps = now.ps,
                                         .head = head,
                                         .place = place,
                                         .peer = 0,
                                         .about = RecordedEvent::about_of(kind, 0, 0)};
  publish();
  if (now >= clocks_until_) update_clocks(now);
}

void FlightRecorder::counted(const transport::Counters& counters, Instant now) noexcept {
  if (events_ == nullptr) return;
  for (size_t i = 0; i < transport::kCountEnd; ++i) {
    const auto count = static_cast<transport::Count>(i);
    if (transport::is_traffic(count) || counters[count] == (*before_)[count]) continue;
    note(EventKind::counted, i, counters[count] - (*before_)[count], now);
  }
  *before_ = counters;
}

void FlightRecorder::happened(const transport::Incident& incident, Instant now) noexcept {
  kept_ = kept_ || (incident.status != Status::success && incident.status != Status::flushed);
  if (incident.status != Status::success)
    note(EventKind::failed, incident.qp.value, static_cast<uint64_t>(incident.status), now);
  else
    note(EventKind::raised, incident.event.qp.value, static_cast<uint64_t>(incident.event.type),
         now);
}

void FlightRecorder::changed_state(QpNum qp, QpState state, Instant now) noexcept {
  note(EventKind::state, qp.value, static_cast<uint64_t>(state), now);
}

void FlightRecorder::destroyed(QpNum qp, Instant now) noexcept {
  note(EventKind::state, qp.value, kDestroyed, now);
}

}  // namespace weft::driver
