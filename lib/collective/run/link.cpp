// SPDX-License-Identifier: BSD-3-Clause
// Links: slots, credits and control messages over one queue pair. Invited pieces: link_invite.cpp.
#include "lib/collective/run/link.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kInlineBytes = sizeof(ControlMessage);
constexpr uint32_t kSpareReceives = 8;  // for bursts of control messages

Sge sge_of(std::span<const std::byte> memory, LKey key) {
  return {const_cast<std::byte*>(memory.data()), static_cast<uint32_t>(memory.size()), key};
}

}  // namespace

void Link::Free::operator()(std::byte* memory) const { std::free(memory); }

Link::Memory Link::allocate(size_t bytes) {
  constexpr size_t kPage = 4096;
  return Memory(
      static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
}

Result<void> Link::check(const LinkShape& shape, uint32_t links, const DeviceAttributes& device) {
  const auto wrong = [](const std::string& text) { return Error{Code::invalid_argument, text}; };
  if (shape.slots < 2 || shape.slots > kMostSlots || shape.payload == 0 ||
      shape.payload % 64 != 0 || shape.payload > 1024 * 1024)
    return wrong("slots: 2 to 1024 of them, of a multiple of 64 bytes up to 1 MiB");
  const std::string slots = std::to_string(std::bit_ceil(shape.slots)) + " slots";
  if (const uint32_t receives = receives_of(std::bit_ceil(shape.slots));
      receives > device.max_qp_wr)
    return wrong(slots + " take " + std::to_string(receives) + " requests of a queue pair, and " +
                 device.spec + " has " + std::to_string(device.max_qp_wr) +
                 ": ask for fewer slots");
  if (const uint64_t all = uint64_t{links} * completions(shape); all > device.max_cqe)
    return wrong(slots + " to each peer in each traffic class take " + std::to_string(all) +
                 " completions, and " + device.spec + " has " + std::to_string(device.max_cqe) +
                 ": ask for fewer slots or classes");
  return {};
}

Result<std::unique_ptr<Link>> Link::create(const ProtectionDomain& pd, const CompletionQueue& cq,
                                           QpType type, const LinkShape& shape, uint32_t index) {
  std::unique_ptr<Link> link(new Link(type, shape, index));
  if (Result<void> prepared = link->prepare(pd, cq); !prepared) return prepared.error();
  return link;
}

Result<void> Link::prepare(const ProtectionDomain& pd, const CompletionQueue& cq) {
  const uint32_t receives = receives_of(shape_.slots);
  const size_t landing = shape_.slots * stride(), sending = shape_.slots * copy_stride();
  const size_t control = receives * sizeof(ControlMessage);
  landing_ = allocate(landing);
  sending_ = allocate(sending);
  control_ = allocate(control);
  if (!landing_ || !sending_ || !control_)
    return Error{Code::no_memory, "no memory for the landing slots of a peer: ask for fewer"};
  std::memset(landing_.get(), 0, landing);
  std::memset(control_.get(), 0, control);
  steps_.assign(shape_.slots, kNoStep);

  Result<MemoryRegion> region =
      pd.register_memory(landing_.get(), landing, Access::local_write | Access::remote_write);
  if (!region) return region.error();
  landing_region_ = std::move(*region);
  region = pd.register_memory(sending_.get(), sending, Access::none);
  if (!region) return region.error();
  sending_region_ = std::move(*region);
  region = pd.register_memory(control_.get(), control, Access::local_write);
  if (!region) return region.error();
  control_region_ = std::move(*region);

  Result<QueuePair> qp = pd.queue_pair({.type = type_,
                                        .send_cq = cq,
                                        .recv_cq = cq,
                                        .max_send_wr = shape_.slots + kControls,
                                        .max_recv_wr = receives,
                                        .max_send_sge = 2,
                                        .max_recv_sge = 1,
                                        .max_inline = kInlineBytes});
  if (!qp) return qp.error();
  qp_ = std::move(*qp);
  Result<void> init = qp_.modify({.state = QpState::init,
                                  .pkey_index = uint16_t{0},
                                  .port = uint8_t{1},
                                  .access = kPeerAccess});
  if (!init) return init;
  for (uint32_t i = 0; i < receives; ++i)
    if (!post_receives({&i, 1}))
      return Error{Code::bad_state, "cannot post receives on a new link"};
  return {};
}

// A few at a time: each post takes the device's lock.
void Link::give_back(uint32_t buffer) {
  returned_[returns_++] = buffer;
  if (returns_ < kReturned) return;
  // Refused by a queue pair that has failed: its completions say so.
  (void)post_receives(returned_);
  returns_ = 0;
}

bool Link::post_receives(std::span<const uint32_t> buffers) {
  Sge sges[kReturned];
  RecvRequest requests[kReturned];
  for (size_t i = 0; i < buffers.size(); ++i) {
    sges[i] = control_region_.sge(buffers[i] * sizeof(ControlMessage), sizeof(ControlMessage));
    requests[i] = {.id = id_of(IdKind::receive, buffers[i]), .sges = {&sges[i], 1}};
  }
  return static_cast<bool>(qp_.post_recv({requests, buffers.size()}));
}

LinkAddress Link::address() const {
  return {reinterpret_cast<uintptr_t>(landing_.get()), landing_region_.rkey().value};
}

void Link::set_peer(uint32_t rank, const LinkAddress& address) {
  peer_ = rank;
  remote_ = address;
}

bool Link::send(const Call& call, uint32_t pieces, std::span<const std::byte> payload,
                const LKey* key, uint32_t step) {
  WEFT_DCHECK(can_send() && payload.size() <= shape_.payload);
  const PieceHeader header{call, consumed_, static_cast<uint32_t>(payload.size()), pieces};
  const std::optional<uint32_t> like_last =
      keeps_order() ? bare(last_sent_, header) : std::optional<uint32_t>();
  const uint32_t head = like_last ? 0 : sizeof header;
  Piece piece{.slot = slot_of(posted_),
              .immediate = like_last.value_or(immediate_of(posted_)),
              .offset = sizeof header - head,
              .flags = key != nullptr || wants_word() ? SendFlags::signaled : SendFlags::none};
  Sge sges[2];
  size_t parts = 0;
  if (key == nullptr && head + payload.size() <= kInlineBytes) {  // then the post copies it
    piece.flags = piece.flags | SendFlags::inline_data;
    if (head > 0) sges[parts++] = {const_cast<PieceHeader*>(&header), head, {}};
    if (header.bytes > 0) sges[parts++] = sge_of(payload, {});
  } else {
    std::byte* const copy = sending_.get() + piece.slot * copy_stride();
    uint32_t kept = head;
    if (head > 0) std::memcpy(copy, &header, sizeof header);
    if (key == nullptr && header.bytes > 0) {
      std::memcpy(copy + sizeof header, payload.data(), header.bytes);
      kept += header.bytes;
    }
    if (kept > 0)
      sges[parts++] = sending_region_.sge(piece.slot * copy_stride() + piece.offset, kept);
    if (key != nullptr) sges[parts++] = sge_of(payload, *key);
  }
  if (!post_piece(piece, {sges, parts})) return false;
  steps_[piece.slot] = key != nullptr ? step : kNoStep;
  lent_ += key != nullptr;
  last_sent_ = header;
  told_ = consumed_;
  ++posted_;
  return true;
}

// Whether a completion is to say that the next piece is done, if nobody waits for that: where order
// is kept it speaks for those before it too, so one for each quarter of the ring does.
bool Link::wants_word() const {
  const uint32_t quarter = std::max(shape_.slots / kWords, 1U);  // a power of two, as the ring
  return !keeps_order() || ((posted_ + 1) & (quarter - 1)) == 0;
}

// Of a piece with a header. Where order is not kept, which piece it is.
uint32_t Link::immediate_of(uint64_t piece) const {
  return keeps_order() ? 0 : static_cast<uint32_t>(piece);
}

PostStatus Link::post_piece(const Piece& piece, std::span<const Sge> sges) {
  return qp_.post_send({.id = id_of(IdKind::piece, piece.slot),
                        .opcode = Opcode::write_with_imm,
                        .flags = piece.flags,
                        .imm = piece.immediate,
                        .sges = sges,
                        .remote_address = remote_.landing + piece.slot * stride() + piece.offset,
                        .rkey = {remote_.rkey}});
}

void Link::consume() {
  ++consumed_;
  return_credit();
}

// Half a ring that the peer does not know of is worth a message.
void Link::return_credit() {
  if (consumed_ - told_ < shape_.slots / 2) return;
  send_control({.kind = ControlKind::credit});
}

bool Link::send_control(ControlMessage message) {
  if (gone || controls_ >= kSpareReceives) return false;  // credit goes with the next one
  message.consumed = consumed_;
  message.sent = posted_;
  SendFlags flags = SendFlags::signaled | SendFlags::inline_data;
  if (type_ == QpType::srd) flags = flags | SendFlags::ordered;
  Sge sge{&message, sizeof message, {}};
  const PostStatus posted = qp_.post_send(
      {.id = control_id(), .opcode = Opcode::send, .flags = flags, .sges = {&sge, 1}});
  if (!posted) return false;
  told_ = consumed_;
  ++controls_;
  return true;
}

// The receive of a message may wait for those sent before it: they must have come, too.
bool Link::tell_end(const ControlMessage& abort) {
  if (gone || broken_) return true;
  if (!end_told_) end_told_ = send_control(abort);
  return end_told_ && controls_ == 0;
}

void Link::ping() {
  if (gone || controls_ >= kSpareReceives) return;
  const PostStatus posted = qp_.post_send({.id = control_id(),
                                           .opcode = Opcode::write,
                                           .flags = SendFlags::signaled,
                                           .remote_address = remote_.landing,
                                           .rkey = {remote_.rkey}});
  if (posted) ++controls_;
}

// Where nothing under way will say that the last pieces are done, a ping behind them does.
void Link::ask_if_done() {
  if (keeps_order() && posted_ != acknowledged_.count() && controls_ == 0) ping();
}

void Link::abort_link() {
  if (!broken_) (void)qp_.modify({.state = QpState::err});
  broken_ = true;
}

void Link::note_credit(uint64_t consumed) {
  if (consumed > credit_ && consumed <= posted_) credit_ = consumed;
}

Link::Event Link::handle(const Completion& completion) {
  Event event;
  const IdKind kind = static_cast<IdKind>(completion.id >> 24 & 0xFF);
  const uint32_t number = static_cast<uint32_t>(completion.id & kLargestNumber);
  const bool of_piece = kind == IdKind::piece || kind == IdKind::invited;
  if (of_piece) event.finished_step = steps_[number];
  if (completion.status != Status::success) {
    abort_link();  // a queue pair of SRD goes on by itself; nobody would tell the peer
    event.error = completion.status;
    return event;
  }
  if (of_piece) {
    lent_ -= steps_[number] != kNoStep;
    steps_[number] = kNoStep;
    if (kind == IdKind::piece && keeps_order())
      acknowledged_.add_before(piece_of(number) + 1);
    else if (kind == IdKind::piece)
      acknowledged_.add(piece_of(number));
    else if (!finish_invited(number))
      event.error = Status::local_qp_operation_error;
  } else if (kind == IdKind::control) {
    --controls_;
    if (keeps_order()) acknowledged_.add_before(before_control(number));
    return_credit();
  } else {
    note_received(number, completion, event);
  }
  return event;
}

// The pieces that were posted before a control message whose id has this number.
uint64_t Link::before_control(uint32_t number) const {
  const uint64_t first = acknowledged_.count();
  return first + ((number - first) & kLargestNumber);
}

// The piece under way whose slot this is.
uint64_t Link::piece_of(uint32_t slot) const {
  const uint64_t first = acknowledged_.count();
  return first + slot_of(slot - first);
}

void Link::note_received(uint32_t buffer, const Completion& completion, Event& event) {
  if (has(completion.flags, CompletionFlags::rdma_write)) {
    event.arrived = note_piece(completion);
  } else {
    ControlMessage& message = messages_.emplace_back();
    std::memcpy(&message, control_.get() + buffer * sizeof message, sizeof message);
    note_credit(message.consumed);
    if (message.kind == ControlKind::invite) {
      Invitation invitations[kInvitations];
      std::memcpy(invitations, message.text, sizeof invitations);
      const size_t count = std::min<size_t>(message.count, kInvitations);
      invitations_.insert(invitations_.end(), invitations, invitations + count);
      messages_.pop_back();
    }
  }
  give_back(buffer);
}

// Null if it has come before.
const PieceHeader* Link::note_piece(const Completion& completion) {
  const uint32_t immediate = completion.imm_or_key;
  const uint64_t piece = keeps_order() ? arrived_.count() : arrived_.number(immediate);
  if (!arrived_.add(piece)) return nullptr;
  const uint32_t slot = slot_of(piece);
  PieceHeader& header = headers_[slot];
  if (keeps_order() && (immediate & kBare) != 0) {
    header = headers_[slot_of(piece - 1)];
    go_on(header, immediate, completion.byte_count, credit_);
  } else {
    std::memcpy(&header, landing(slot), sizeof header);
  }
  note_credit(header.consumed);
  return &header;
}

std::optional<ControlMessage> Link::next_message() {
  if (messages_.empty()) return std::nullopt;
  const ControlMessage& first = messages_.front();
  const bool abort = messages_.back().kind == ControlKind::abort;
  if (first.sent > arrived_.count() && !abort) return std::nullopt;
  const ControlMessage message = abort ? messages_.back() : first;
  abort ? messages_.pop_back() : messages_.pop_front();
  return message;
}

}  // namespace weft::collective
