// SPDX-License-Identifier: BSD-3-Clause
// A record may be torn, cut or of any content: what is used is checked first.
#include "tools/postmortem/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

#include "lib/driver/record/record_folder.hpp"

namespace weft::postmortem {
namespace {

using driver::EventKind;
using driver::RecordedEvent;
using driver::RecordHeader;

Error cannot_read(const std::string& path, Code code, const std::string& reason) {
  return {code, path + ": " + reason};
}

// Nothing that a terminal would obey.
template <size_t N>
std::string text_of(const char (&field)[N]) {
  std::string text(field, strnlen(field, N));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return text;
}

bool is_packet(const RecordedEvent& event) noexcept {
  return event.kind() == EventKind::sent || event.kind() == EventKind::received;
}

uint32_t end_of(const Gid& gid) noexcept {
  uint32_t end;
  std::memcpy(&end, gid.bytes.data() + 12, sizeof end);
  return end;
}

std::set<uint32_t> peers_of(const Record& record) {
  std::set<uint32_t> peers;
  for (const RecordedEvent& event : record.events)
    if (is_packet(event)) peers.insert(event.peer);
  return peers;
}

bool is_number(const std::string& name, int32_t& number) noexcept {
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() && number > 0;
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

bool read_at(int fd, void* to, size_t size, size_t offset) noexcept {
  return ::pread(fd, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

}  // namespace

int64_t Record::wall_ns(const RecordedEvent& event) const noexcept {
  const driver::ClockPair& nearest = event.at_ps < clocks[1].own_ps ? clocks[0] : clocks[1];
  const auto apart = static_cast<int64_t>(static_cast<uint64_t>(event.at_ps) -
                                          static_cast<uint64_t>(nearest.own_ps));
  return static_cast<int64_t>(static_cast<uint64_t>(nearest.wall_ns) +
                              static_cast<uint64_t>(apart / 1000));
}

Result<Record> read_record(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return cannot_read(path, errno == EACCES ? Code::permission_denied : Code::not_found,
                       std::strerror(errno));
  // Its last member is atomic, which an aggregate that is read need not be.
  alignas(RecordHeader) std::byte bytes[sizeof(RecordHeader)];
  const auto& header = *reinterpret_cast<const RecordHeader*>(bytes);
  std::vector<RecordedEvent> ring(driver::kRecordedEvents);
  const size_t next_at = offsetof(RecordHeader, next);
  uint64_t before = 0, after = 0;
  if (!read_at(file.fd, bytes, sizeof bytes, 0) ||
      std::memcmp(header.magic, driver::kRecordMagic, sizeof header.magic) != 0)
    return cannot_read(path, Code::invalid_argument, "is no flight record");
  if (header.counters != transport::kCountEnd || header.capacity != driver::kRecordedEvents)
    return cannot_read(path, Code::invalid_argument,
                       "was written by another version of weft: use its weft_postmortem");
  // The ring of a running process is overwritten while it is read: what may have been is dropped.
  if (!read_at(file.fd, &before, sizeof before, next_at) ||
      !read_at(file.fd, ring.data(), ring.size() * sizeof ring[0], driver::kRecordHeaderSize) ||
      !read_at(file.fd, &after, sizeof after, next_at) || after < before)
    return cannot_read(path, Code::invalid_argument, "ends too early");
  Record record;
  record.path = path;
  record.program = text_of(header.program);
  record.device = text_of(header.device);
  record.process = header.process;
  record.running = header.process_space == driver::process_space() &&
                   header.process_started == driver::start_of_process(header.process);
  record.engine = header.engine;
  record.udp_port = header.udp_port;
  record.place_offset = header.place_offset;
  std::memcpy(record.address.bytes.data(), header.address, sizeof header.address);
  std::memcpy(record.clocks, header.clocks, sizeof record.clocks);
  record.missing = after < ring.size() ? 0 : after - ring.size() + 1;
  for (uint64_t i = std::min(record.missing, before); i < before; ++i)
    record.events.push_back(ring[i % ring.size()]);
  return record;
}

std::vector<Record> all_records() {
  std::vector<Record> records;
  const std::optional<std::string> folder = driver::record_folder();
  if (!folder) return records;
  for (const std::string& path : driver::records_in(*folder))
    if (Result<Record> record = read_record(path)) records.push_back(*std::move(record));
  return records;
}

Result<std::vector<Record>> find_records(const std::vector<std::string>& names) {
  std::vector<Record> found;
  const std::vector<Record> all = all_records();
  for (const std::string& name : names) {
    int32_t process = 0;
    if (!is_number(name, process)) {
      Result<Record> record = read_record(name);
      if (!record) return record.error();
      found.push_back(*std::move(record));
      continue;
    }
    const size_t others = found.size();
    for (const Record& record : all)
      if (record.process == process) found.push_back(record);
    if (found.size() == others)
      return Error{Code::not_found,
                   "process " + name + " has no flight record of this user in " +
                       driver::record_folder().value_or("any folder (WEFT_RECORDS=0)") +
                       ": it had no device open, closed it without a failed request, or wrote "
                       "elsewhere (WEFT_RECORDS); weft_postmortem lists what is there"};
  }
  return found;
}

void add_peers(std::vector<Record>& records) {
  std::set<std::string> known;
  for (const Record& record : records) known.insert(record.path);
  const size_t given = records.size();
  for (const Record& other : all_records()) {
    const std::set<uint32_t> theirs = peers_of(other);
    const bool met = std::any_of(records.begin(), records.begin() + static_cast<ptrdiff_t>(given),
                                 [&](const Record& record) {
                                   return record.udp_port == other.udp_port &&
                                          theirs.count(end_of(record.address)) != 0 &&
                                          peers_of(record).count(end_of(other.address)) != 0;
                                 });
    if (met && known.insert(other.path).second) records.push_back(other);
  }
}

}  // namespace weft::postmortem
