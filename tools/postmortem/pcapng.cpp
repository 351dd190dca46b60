// SPDX-License-Identifier: BSD-3-Clause
// The format: draft-ietf-opsawg-pcapng, in host byte order. Section header, interfaces, packets.
#include <algorithm>
#include <cstring>

#include "lib/base/private_file.hpp"
#include "lib/wire/encapsulation.hpp"
#include "tools/postmortem/describe.hpp"
#include "tools/postmortem/export.hpp"

namespace weft::postmortem {
namespace {

using driver::EventKind;
using driver::RecordedEvent;

constexpr uint32_t kSectionHeader = 0x0A0D0D0A, kInterface = 1, kEnhancedPacket = 6;
constexpr uint16_t kEndOfOptions = 0, kComment = 1, kInterfaceName = 2, kPacketFlags = 2,
                   kTimeResolution = 9;
constexpr uint16_t kEthernet = 1;
constexpr uint32_t kInbound = 1, kOutbound = 2;

// A block of the file: its body, to which options may be added at the end.
class Block {
 public:
  explicit Block(uint32_t type) : type_(type) {}

  template <class Number>
  Block& number(Number value) {
    return add(&value, sizeof value);
  }
  Block& padded(const void* data, size_t size) {
    add(data, size);
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
    return *this;
  }
  Block& option(uint16_t code, const void* data, size_t size) {
    number(code).number(static_cast<uint16_t>(size));
    return padded(data, size);
  }
  Block& text(uint16_t code, const std::string& text) {
    return option(code, text.data(), std::min<size_t>(text.size(), UINT16_MAX));
  }
  bool write(std::FILE* file) {
    option(kEndOfOptions, nullptr, 0);
    const auto length = static_cast<uint32_t>(bytes_.size() + 3 * sizeof(uint32_t));
    const uint32_t head[] = {type_, length};
    return std::fwrite(head, sizeof head, 1, file) == 1 &&
           std::fwrite(bytes_.data(), bytes_.size(), 1, file) == 1 &&
           std::fwrite(&length, sizeof length, 1, file) == 1;
  }

 private:
  Block& add(const void* data, size_t size) {
    const auto* const from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
    return *this;
  }
  uint32_t type_;
  std::vector<std::byte> bytes_;
};

Block section_header() {
  Block block(kSectionHeader);
  block.number(uint32_t{0x1A2B3C4D}).number(uint16_t{1}).number(uint16_t{0});
  block.number(int64_t{-1});  // length of the section: not said
  return block;
}

Block interface_of(const Record& record) {
  Block block(kInterface);
  block.number(kEthernet).number(uint16_t{0}).number(uint32_t{0});
  block.text(kInterfaceName,
             record.program + " " + std::to_string(record.process) + " " + record.device);
  const uint8_t nanoseconds = 9;
  block.option(kTimeResolution, &nanoseconds, sizeof nanoseconds);
  return block;
}

Block packet_of(const Record& record, const RecordedEvent& event, uint32_t interface,
                const std::string& comments) {
  const bool sent = event.kind() == EventKind::sent;
  const Gid peer = peer_of(record, event);
  wire::Outer outer{.source = sent ? record.address : peer,
                    .destination = sent ? peer : record.address,
                    .destination_port = record.udp_port};
  outer.mac_source = wire::mac_of(outer.source);
  outer.mac_destination = wire::mac_of(outer.destination);
  outer.traffic_class = event.ecn();
  std::byte bytes[wire::kMaxOuterLength + 64] = {};
  const uint32_t length = std::min(event.length(), wire::kMaxTransportLength);
  const uint32_t headers = wire::emit_outer(bytes, outer, length);
  const uint32_t place = std::min<uint32_t>(record.place_offset, 64 - sizeof event.place);
  std::memcpy(bytes + headers, &event.head, sizeof event.head);
  std::memcpy(bytes + headers + place, &event.place, sizeof event.place);
  const uint32_t kept = headers + std::min<uint32_t>(length, place + sizeof event.place);
  const auto time = static_cast<uint64_t>(record.wall_ns(event));
  Block block(kEnhancedPacket);
  block.number(interface).number(static_cast<uint32_t>(time >> 32));
  block.number(static_cast<uint32_t>(time)).number(kept).number(headers + length);
  block.padded(bytes, kept);
  const uint32_t flags = sent ? kOutbound : kInbound;
  block.option(kPacketFlags, &flags, sizeof flags);
  if (!comments.empty()) block.text(kComment, comments);
  return block;
}

}  // namespace

Result<void> write_pcapng(const std::vector<Record>& records, const std::string& path) {
  Result<base::File> file = base::create_private_file(path, "capture file");
  if (!file) return file.error();
  bool good = section_header().write(file->get());
  std::vector<std::pair<int64_t, Block>> packets;
  for (uint32_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    good = good && interface_of(record).write(file->get());
    std::string comments;
    for (const RecordedEvent& event : record.events) {
      if (event.kind() != EventKind::sent && event.kind() != EventKind::received) {
        comments += (comments.empty() ? "" : "\n") + describe(record, event);
        continue;
      }
      packets.emplace_back(record.wall_ns(event), packet_of(record, event, i, comments));
      comments.clear();
    }
  }
  std::stable_sort(packets.begin(), packets.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [time, packet] : packets) good = good && packet.write(file->get());
  if (good && std::fflush(file->get()) == 0) return {};
  return Error{Code::io_error, "cannot write " + path + ": is the disk full?"};
}

}  // namespace weft::postmortem
