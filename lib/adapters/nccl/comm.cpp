// SPDX-License-Identifier: BSD-3-Clause
// See comm.hpp.
#include "lib/adapters/nccl/comm.hpp"

#include <time.h>

#include <algorithm>
#include <climits>

#include "lib/adapters/nccl/log.hpp"
#include "lib/base/check.hpp"

namespace weft::nccl {
namespace {

constexpr int64_t kLookEveryMs = 10;
// After the peer has closed or ended, completions of what it sent before may still be on their way
// from the device to us.
constexpr int64_t kDrainMs = 100;
// After a transfer has failed, the peer's goodbye may show that it was executed before.
constexpr int64_t kGoodbyeMs = 50;
constexpr size_t kBatch = 16;
// Without TCP: how often an empty WRITE asks whether the peer is there, and its id.
constexpr int64_t kBeatMs = 500;
constexpr uint64_t kBeat = UINT64_MAX;

Outcome outcome_of(Status status) {
  switch (status) {
    case Status::local_length_error:
    case Status::local_qp_operation_error:
    case Status::local_protection_error:
    case Status::local_access_error:
    case Status::fatal:
      return Outcome::system_error;
    default:
      return Outcome::remote_error;
  }
}

const char* advice(Status status) {
  switch (status) {
    case Status::retry_exceeded:
      return " (no answer: its process or host has ended, or the network between has failed)";
    case Status::remote_access_error:
    case Status::remote_invalid_request:
      return " (memory was deregistered while a transfer to it was in flight)";
    case Status::local_protection_error:
      return " (registered memory was unmapped, or lies in another device's domain)";
    default:
      return "";
  }
}

}  // namespace

int64_t coarse_ms() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

bool Memory::contains(const void* data, size_t length) const {
  const auto start = reinterpret_cast<uintptr_t>(address), at = reinterpret_cast<uintptr_t>(data);
  return at >= start && length <= size && at - start <= size - length;
}

Comm::Comm(const NetDevice& device, std::vector<Lane> lanes, size_t requests)
    : device_(device), lanes_(std::move(lanes)), requests_(requests) {
  for (Request& request : requests_) {
    request.comm = this;
    release(request);
  }
}

Result<Memory*> Comm::register_memory(void* data, size_t size, Access access) const {
  auto memory = std::make_unique<Memory>();
  memory->address = data;
  memory->size = size;
  for (const std::shared_ptr<OpenDevice>& each : device_.devices) {
    Result<MemoryRegion> region = each->domain.register_memory(data, size, access);
    if (!region) return region.error();
    memory->regions.push_back(std::move(*region));
  }
  return memory.release();
}

Result<Memory*> Comm::register_dmabuf(void* data, size_t size, uint64_t offset, int fd,
                                      Access access) const {
  auto memory = std::make_unique<Memory>();
  memory->address = data;
  memory->size = size;
  for (const std::shared_ptr<OpenDevice>& each : device_.devices) {
    Result<MemoryRegion> region = each->domain.register_dmabuf(fd, offset, size, access, data);
    if (!region) return region.error();
    memory->regions.push_back(std::move(*region));
  }
  return memory.release();
}

Request* Comm::take_request() {
  Request* const request = free_;
  if (request == nullptr) return nullptr;
  free_ = request->next_free;
  request->done = false;
  request->count = 1;
  request->parts_left = 0;
  request->sizes = {};
  return request;
}

void Comm::release(Request& request) {
  request.next_free = free_;
  free_ = &request;
}

Outcome Comm::fail(Outcome outcome, const std::string& text) {
  if (outcome_ == Outcome::success) {
    outcome_ = outcome;
    log_warning(peer_ + ": " + text);
    if (gone_ms_ == 0) control_.send(emit_reject("its end has failed: " + text));
  }
  return outcome_;
}

Outcome Comm::fail_post(const PostStatus& status) {
  return fail(Outcome::system_error, std::string("the device refused a request: ") + status.reason);
}

void Comm::poll(Lane& lane) {
  std::array<Completion, kBatch> completions;
  size_t count = 0;
  do {
    count = lane.cq.poll(completions);
    for (const Completion& each : std::span(completions).first(count)) on_completion(lane, each);
  } while (count == kBatch);
}

void Comm::on_completion(Lane& lane, const Completion& completion) {
  const bool received =
      completion.type == WorkType::recv || completion.type == WorkType::recv_with_imm;
  uint32_t& queued = received ? lane.posted : lane.sending;
  WEFT_DCHECK(queued != 0);
  --queued;
  if (completion.status != Status::success) {
    if (!failure_) failure_ = Failure{completion.status, coarse_ms()};
    next_look_ms_ = 0;
  } else if (received) {
    on_receive(lane, completion);
  } else if (completion.id != kBeat) {
    on_executed(completion);
  }
}

// A message of anyone else has taken a receive from the peer, no more.
void Comm::on_receive(Lane& lane, const Completion& received) {
  if (!lane.is_from_peer(received)) {
    if (!saw_other_sender_)
      log_warning(peer_ + ": messages of other senders to its queue pair are dropped");
    saw_other_sender_ = true;
  } else if (has(received.flags, CompletionFlags::rdma_write)) {
    on_arrival(received);
  } else {
    fail(Outcome::remote_error, "it sent a message that is not of the plug-in");
  }
  if (outcome_ != Outcome::success) return;
  if (const Result<void> posted = top_up(lane); !posted)
    fail(Outcome::system_error, posted.error().message);
}

Outcome Comm::progress() {
  if (outcome_ != Outcome::success) return outcome_;
  for (Lane& lane : lanes_) poll(lane);
  look_at_peer();
  return outcome_;
}

void Comm::look_at_peer() {
  const int64_t now = coarse_ms();
  if (now < next_look_ms_) return;
  next_look_ms_ = now + kLookEveryMs;
  for (const Lane& lane : lanes_) lane.device->log_events();
  if (gone_ms_ == 0 && has_control_) receive_from_peer();
  if (gone_ms_ == 0 && !has_control_ && now >= next_beat_ms_) beat();
  if (gone_ms_ != 0) {
    if (now >= gone_ms_ + kDrainMs)
      fail(Outcome::remote_error, gone_why_ + " with transfers in flight or to come");
  } else if (failure_ && now >= failure_->since_ms + kGoodbyeMs) {
    const Status status = failure_->status;
    fail(outcome_of(status),
         "a transfer to it failed: " + std::string(name(status)) + advice(status));
  }
}

void Comm::receive_from_peer() {
  Result<std::optional<Control::Incoming>> message = control_.receive();
  if (!message) {
    const auto& [code, text] = message.error();
    const bool has_paths = !lanes_.front().device->device.attributes().further_gids.empty();
    const bool may_live = code == Code::timed_out || code == Code::peer_failed;
    if (may_live && has_paths) return lose_control(text);
    return peer_is_gone(
        (code == Code::timed_out ? "its host does not answer (" : "its process has ended (") +
        text + ")");
  }
  if (!*message) return;
  if ((*message)->kind == Message::goodbye) {
    on_goodbye(parse_goodbye((*message)->body));
    peer_is_gone("it has closed the connection");
  } else if ((*message)->kind == Message::reject) {
    peer_is_gone(parse_reject((*message)->body));
  } else {
    fail(Outcome::remote_error, "it sent a message out of order over TCP");
  }
}

// TCP has one path, the device others.
void Comm::lose_control(const std::string& why) {
  log_warning(peer_ + ": TCP to it is lost (" + why +
              "); over the other addresses of the device it is asked whether it lives");
  has_control_ = false;
}

// What is in flight shows as well whether the peer is there.
void Comm::beat() {
  next_beat_ms_ = coarse_ms() + kBeatMs;
  Lane& lane = lanes_.front();
  if (lane.sending != 0) return;
  if (const PostStatus posted = lane.qp.post_send({.id = kBeat, .opcode = Opcode::write}); !posted)
    fail_post(posted);
  else
    ++lane.sending;
}

void Comm::peer_is_gone(const std::string& why) {
  gone_ms_ = coarse_ms();
  gone_why_ = why;
}

Outcome Comm::test(Request& request, int* done, int* sizes) {
  *done = 0;
  if (!request.done) {
    const Outcome outcome = progress();
    if (!request.done) return outcome;
  }
  *done = 1;
  if (sizes != nullptr)
    for (int i = 0; i < request.count; ++i)
      sizes[i] = static_cast<int>(std::min<uint64_t>(request.sizes[i], INT_MAX));
  release(request);
  return Outcome::success;
}

void Comm::say_goodbye() { control_.send(emit_goodbye(completed())); }

}  // namespace weft::nccl
