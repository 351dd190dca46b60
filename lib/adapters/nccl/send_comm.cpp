// SPDX-License-Identifier: BSD-3-Clause
// See send_comm.hpp, and announcement.hpp for the protocol.
#include "lib/adapters/nccl/send_comm.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::nccl {
namespace {

// 32 requests for each of 8 grouped receives, and as many WRITEs.
constexpr uint32_t kSendRequests = kMaxRequests * kMaxReceives, kSendQueue = 2 * kSendRequests;
constexpr uint32_t kAnnouncementReceives = 2 * kRingSize;
// Sends of this size and more are divided over the lanes, in multiples of a cache line pair.
constexpr size_t kDivided = 128 * 1024, kGrain = 128;

}  // namespace

Result<std::unique_ptr<SendComm>> SendComm::create(const NetDevice& device) {
  Result<std::vector<Lane>> lanes = create_lanes(device, {kSendQueue, kAnnouncementReceives});
  if (!lanes) return lanes.error();
  auto ring = std::make_unique<Ring>();
  Lane& first = lanes->front();
  Result<MemoryRegion> region = first.device->domain.register_memory(
      ring.get(), sizeof(Ring), Access::local_write | Access::remote_write);
  if (!region) return region.error();
  first.needed = kAnnouncementReceives;
  if (const Result<void> posted = top_up(first); !posted) return posted.error();
  return std::unique_ptr<SendComm>(
      new SendComm(device, std::move(*lanes), std::move(ring), std::move(*region)));
}

SendComm::SendComm(const NetDevice& device, std::vector<Lane> lanes, std::unique_ptr<Ring> ring,
                   MemoryRegion region)
    : Comm(device, std::move(lanes), kSendRequests),
      ring_(std::move(ring)),
      ring_region_(std::move(region)) {}

// The id of each WRITE is the address of its request.
void SendComm::on_executed(const Completion& sent) {
  auto* const request = reinterpret_cast<Request*>(sent.id);
  WEFT_DCHECK(request != nullptr && request->comm == this && request->parts_left != 0);
  if (--request->parts_left != 0 || request->done) return;
  request->done = true;
  std::erase(sending_, request);
}

// Whether its sends can be divided into parts that PartName can name and the lanes have room for.
bool SendComm::is_possible(const Announcement& announcement) const {
  const std::span receives = announcement.receives;
  return std::all_of(receives.begin(), receives.begin() + announcement.count, [&](auto& each) {
    return each.size <= uint64_t{part_size_} * kMaxPartsOfReceive;
  });
}

void SendComm::on_arrival(const Completion& received) {
  const uint32_t sequence = received.imm_or_key;
  const Announcement& entry = ring_->entries[sequence % kRingSize];
  Arrival& arrival = arrivals_[sequence % kRingSize];
  const uint32_t count = entry.count;
  bool right = sequence - next_ < kRingSize && !arrival.arrived && entry.sequence == sequence &&
               count != 0 && count <= kMaxReceives;
  if (right) {
    std::memcpy(&arrival.announcement, &entry, announcement_bytes(count));
    arrival.announcement.count = count;
    right = is_possible(arrival.announcement);
  }
  if (!right) {
    fail(Outcome::remote_error, "it announced receives that cannot be: number " +
                                    std::to_string(sequence) + ", expected " +
                                    std::to_string(next_) + " or later");
    return;
  }
  arrival.arrived = true;
  arrival.matched = 0;
}

void SendComm::on_goodbye(uint32_t completed) {
  std::erase_if(sending_, [&](Request* request) {
    if (static_cast<int32_t>(request->sequence - completed) >= 0) return false;
    request->done = true;  // its WRITEs were executed, whatever their completions say
    return true;
  });
}

// The first receive with this tag that has no send yet, or -1.
int SendComm::receive_for(const Arrival& arrival, int tag) {
  for (uint32_t i = 0; i < arrival.announcement.count; ++i)
    if (arrival.announcement.receives[i].tag == tag && !(arrival.matched >> i & 1))
      return static_cast<int>(i);
  return -1;
}

// Sets parts_. False: the lanes have no room for them now.
bool SendComm::divide(size_t size) {
  parts_.clear();
  const size_t lanes = size >= kDivided ? lanes_.size() : 1;
  const size_t share =
      lanes == 1 ? size : ((size + lanes - 1) / lanes + kGrain - 1) / kGrain * kGrain;
  size_t offset = 0;
  do {
    const size_t lane = lanes == 1 ? next_lane_ % lanes_.size() : offset / share;
    const size_t end = lanes == 1 ? size : std::min(size, (lane + 1) * share);
    const size_t length = std::min<size_t>(end - offset, part_size_);
    parts_.push_back({lane, offset, static_cast<uint32_t>(length)});
    offset += length;
  } while (offset < size);
  std::array<uint32_t, kMaxLanes> more{};
  for (const Part& part : parts_)
    if (++more[part.lane] + lanes_[part.lane].sending > kSendQueue) return false;
  WEFT_DCHECK(parts_.size() <= kMaxParts);
  ++next_lane_;
  return true;
}

Outcome SendComm::write_parts(Request& request, const std::byte* data, const Memory* memory,
                              const AnnouncedReceive& to, uint32_t receive) {
  const PartName name{next_, receive, static_cast<uint32_t>(parts_.size())};
  request.parts_left = name.parts;
  for (const Part& part : parts_) {
    Sge sge{.address = const_cast<std::byte*>(data) + part.offset, .length = part.length};
    if (part.length != 0) sge.lkey = memory->regions[part.lane].lkey();
    SendRequest write{.id = reinterpret_cast<uint64_t>(&request),
                      .opcode = Opcode::write_with_imm,
                      .imm = name.imm(),
                      .remote_address = to.address + part.offset,
                      .rkey = {to.rkeys[part.lane]}};
    if (part.length != 0) write.sges = {&sge, 1};
    if (const PostStatus posted = lanes_[part.lane].qp.post_send(write); !posted)
      return fail_post(posted);
    ++lanes_[part.lane].sending;
  }
  return Outcome::success;
}

void SendComm::advance(uint32_t receive) {
  Arrival& arrival = oldest();
  arrival.matched |= 1u << receive;
  if (arrival.matched != (1u << arrival.announcement.count) - 1) return;
  arrival.arrived = false;
  ++next_;
}

Outcome SendComm::isend(const void* data, size_t size, int tag, const Memory* memory,
                        void** request) {
  *request = nullptr;
  if (!is_open() || !oldest().arrived)
    if (const Outcome outcome = progress(); outcome != Outcome::success) return outcome;
  if (!is_open() || !oldest().arrived) return Outcome::success;
  if (size != 0 && (memory == nullptr || !memory->contains(data, size)))
    return fail(Outcome::internal_error, "isend() of " + std::to_string(size) +
                                             " bytes that lie outside of the registered memory");
  const int receive = receive_for(oldest(), tag);
  if (receive < 0) return progress();
  const AnnouncedReceive& to = oldest().announcement.receives[static_cast<size_t>(receive)];
  if (size > to.size)
    return fail(Outcome::invalid_usage, "a send of " + std::to_string(size) +
                                            " bytes meets a receive of " + std::to_string(to.size) +
                                            " bytes with tag " + std::to_string(tag) +
                                            ": the ranks call collectives of different sizes");
  if (!divide(size)) return progress();
  Request* const made = take_request();
  if (made == nullptr) return progress();
  made->sequence = next_;
  made->sizes[0] = size;
  sending_.push_back(made);
  const Outcome written = write_parts(*made, static_cast<const std::byte*>(data), memory, to,
                                      static_cast<uint32_t>(receive));
  if (written != Outcome::success) return written;
  advance(static_cast<uint32_t>(receive));
  *request = made;
  return Outcome::success;
}

}  // namespace weft::nccl
