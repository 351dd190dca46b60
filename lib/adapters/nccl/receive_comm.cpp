// SPDX-License-Identifier: BSD-3-Clause
// See receive_comm.hpp, and announcement.hpp for the protocol.
#include "lib/adapters/nccl/receive_comm.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::nccl {
namespace {

constexpr uint32_t kReceiveRequests = kRingSize, kAnnouncementQueue = 2 * kRingSize;
constexpr uint32_t kPartReceives = kMaxReceives * kMaxPartsOfReceive;

}  // namespace

Result<std::unique_ptr<ReceiveComm>> ReceiveComm::create(const NetDevice& device) {
  Result<std::vector<Lane>> lanes = create_lanes(device, {kAnnouncementQueue, kPartReceives});
  if (!lanes) return lanes.error();
  auto staging = std::make_unique<Staging>();
  Result<MemoryRegion> region =
      lanes->front().device->domain.register_memory(staging.get(), sizeof(Staging), Access::none);
  if (!region) return region.error();
  return std::unique_ptr<ReceiveComm>(
      new ReceiveComm(device, std::move(*lanes), std::move(staging), std::move(*region)));
}

ReceiveComm::ReceiveComm(const NetDevice& device, std::vector<Lane> lanes,
                         std::unique_ptr<Staging> staging, MemoryRegion region)
    : Comm(device, std::move(lanes), kReceiveRequests),
      staging_(std::move(staging)),
      staging_region_(std::move(region)) {}

void ReceiveComm::on_executed(const Completion& sent) {
  WEFT_DCHECK(sent.id < kRingSize);
  Entry& entry = entries_[sent.id];
  WEFT_DCHECK(entry.used && !entry.written);
  entry.written = true;
  finish_if_complete(entry);
}

void ReceiveComm::on_arrival(const Completion& received) {
  const PartName part = PartName::of(received.imm_or_key);
  Entry& entry = entries_[part.sequence % kRingSize];
  Receive& receive = entry.receives[part.receive];
  const auto refuse = [&](const std::string& why) {
    fail(Outcome::remote_error,
         why + ": number " + std::to_string(part.sequence) + "." + std::to_string(part.receive));
  };
  const bool posted = entry.used && (entry.sequence & 0xFFFF) == part.sequence && receive.most != 0;
  if (!posted) return refuse("it wrote into a receive that is not posted");
  if (received.byte_count > receive.size - receive.bytes ||
      part.parts > receive.most * lanes_.size() ||
      (receive.parts != 0 && receive.parts != part.parts))
    return refuse("it wrote more than a receive of " + std::to_string(receive.size) +
                  " bytes takes: " + std::to_string(received.byte_count) + " behind " +
                  std::to_string(receive.bytes) + ", in " + std::to_string(part.parts) + " parts");
  receive.parts = part.parts;
  receive.bytes += received.byte_count;
  if (++receive.arrived != receive.parts) return;
  for (Lane& each : lanes_) {
    WEFT_DCHECK(each.needed >= receive.most);
    each.needed -= receive.most;
  }
  receive.most = 0;
  WEFT_DCHECK(entry.left != 0);
  --entry.left;
  finish_if_complete(entry);
}

// The entry is free, and the request done, when all data and the announcement's own completion are
// there: the staging memory is used again.
void ReceiveComm::finish_if_complete(Entry& entry) {
  if (entry.left == 0 && entry.request != nullptr) {
    for (int i = 0; i < entry.request->count; ++i)
      entry.request->sizes[static_cast<size_t>(i)] = entry.receives[static_cast<size_t>(i)].bytes;
    entry.request->done = true;
    entry.request = nullptr;
  }
  entry.used = entry.left != 0 || !entry.written;
}

uint32_t ReceiveComm::completed() const {
  uint32_t first = next_;
  for (const Entry& entry : entries_)
    if (entry.left != 0 && static_cast<int32_t>(entry.sequence - first) < 0) first = entry.sequence;
  return first;
}

Outcome ReceiveComm::check(int count, void* const* data, const size_t* sizes,
                           void* const* memories) {
  for (int i = 0; i < count; ++i) {
    const auto* const memory = static_cast<const Memory*>(memories[i]);
    if (sizes[i] != 0 && (memory == nullptr || !memory->contains(data[i], sizes[i])))
      return fail(Outcome::internal_error, "irecv() of " + std::to_string(sizes[i]) +
                                               " bytes that lie outside of the registered memory");
    if (sizes[i] > size_t{part_size_} * kMaxPartsOfReceive)
      return fail(Outcome::invalid_usage,
                  "irecv() of " + std::to_string(sizes[i]) + " bytes: the devices of both ends " +
                      "take at most " + std::to_string(size_t{part_size_} * kMaxPartsOfReceive));
  }
  return Outcome::success;
}

// Whether the lanes have room for the parts of the entry's receives.
bool ReceiveComm::fits(const Entry& entry, uint32_t count) const {
  uint32_t most = 0;
  for (uint32_t i = 0; i < count; ++i) most += entry.receives[i].most;
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return lane.needed + most <= kPartReceives; });
}

Outcome ReceiveComm::post(Entry& entry, const Announcement& announcement) {
  for (Lane& lane : lanes_) {
    for (uint32_t i = 0; i < announcement.count; ++i) lane.needed += entry.receives[i].most;
    if (const Result<void> posted = top_up(lane); !posted)
      return fail(Outcome::system_error, posted.error().message);
  }
  const uint32_t at = announcement.sequence % kRingSize;
  const Sge sge =
      staging_region_.sge(at * sizeof(Announcement), announcement_bytes(announcement.count));
  Lane& first = lanes_.front();
  const PostStatus posted =
      first.qp.post_send({.id = at,
                          .opcode = Opcode::write_with_imm,
                          .imm = announcement.sequence,
                          .sges = {&sge, 1},
                          .remote_address = ring_address_ + at * sizeof(Announcement),
                          .rkey = ring_rkey_});
  if (!posted) return fail_post(posted);
  ++first.sending;
  return Outcome::success;
}

Outcome ReceiveComm::irecv(int count, void* const* data, const size_t* sizes, const int* tags,
                           void* const* memories, void** request) {
  *request = nullptr;
  if (const Outcome outcome = progress(); outcome != Outcome::success) return outcome;
  if (const Outcome right = check(count, data, sizes, memories); right != Outcome::success)
    return right;
  Entry& entry = entries_[next_ % kRingSize];
  if (entry.used) return Outcome::success;
  entry = {.sequence = next_, .left = static_cast<uint32_t>(count)};
  Announcement& announcement = staging_->entries[next_ % kRingSize];
  announcement.sequence = next_;
  announcement.count = static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) {
    AnnouncedReceive& receive = announcement.receives[static_cast<size_t>(i)];
    receive = {.address = reinterpret_cast<uint64_t>(data[i]), .size = sizes[i], .tag = tags[i]};
    const auto* const memory = static_cast<const Memory*>(memories[i]);
    for (size_t lane = 0; memory != nullptr && lane < lanes_.size(); ++lane)
      receive.rkeys[lane] = memory->regions[lane].rkey().value;
    entry.receives[static_cast<size_t>(i)] = {
        .most =
            std::max<uint32_t>(1, static_cast<uint32_t>((sizes[i] + part_size_ - 1) / part_size_)),
        .size = sizes[i]};
  }
  Request* const made = fits(entry, announcement.count) ? take_request() : nullptr;
  if (made == nullptr) {
    entry = {};
    return Outcome::success;
  }
  made->count = count;
  entry.used = true;
  entry.request = made;
  if (const Outcome posted = post(entry, announcement); posted != Outcome::success) return posted;
  ++next_;
  *request = made;
  return Outcome::success;
}

}  // namespace weft::nccl
