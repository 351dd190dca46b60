// SPDX-License-Identifier: BSD-3-Clause
// Links: pieces through slots, credit and control messages. Rendezvous: link_rendezvous.cpp.
#include "lib/collective/run/link.hpp"

#include <bit>
#include <cstring>

#include "lib/collective/run/link_id.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kInlineBytes = sizeof(ControlMessage);
constexpr uint32_t kControls = 16;     // send queue entries for control messages and keepalives
constexpr uint32_t kMaxControls = 8;   // in flight; the peer has receives for bursts of more
constexpr uint32_t kRepostMargin = 4;  // receives that wait to be posted again

uint32_t receives_of(uint32_t slots) { return slots + kControls + kRepostMargin; }

Sge sge_of(std::span<const std::byte> memory, LKey key) {
  return {const_cast<std::byte*>(memory.data()), static_cast<uint32_t>(memory.size()), key};
}

}  // namespace

uint32_t completions_per_link(const LinkShape& shape) {
  return 2 * (std::bit_ceil(shape.slots) + kControls) + kRepostMargin;
}

Result<void> check_links(const LinkShape& shape, uint32_t links, const DeviceAttributes& device) {
  const auto invalid = [](const std::string& text) { return Error{Code::invalid_argument, text}; };
  if (shape.slots < 2 || shape.slots > kMaxSlots || shape.payload == 0 || shape.payload % 64 != 0 ||
      shape.payload > 1024 * 1024)
    return invalid("slots: 2 to 1024 of them, of a multiple of 64 bytes up to 1 MiB; given: " +
                   std::to_string(shape.slots) + " of " + std::to_string(shape.payload));
  const std::string slots = std::to_string(std::bit_ceil(shape.slots)) + " slots";
  if (const uint32_t receives = receives_of(std::bit_ceil(shape.slots));
      receives > device.max_qp_wr)
    return invalid(slots + " take " + std::to_string(receives) + " requests of a queue pair, and " +
                   device.spec + " has " + std::to_string(device.max_qp_wr) +
                   ": ask for fewer slots");
  if (const uint64_t all = uint64_t{links} * completions_per_link(shape); all > device.max_cqe)
    return invalid(slots + " to each peer in each traffic class take " + std::to_string(all) +
                   " completions, and " + device.spec + " has " + std::to_string(device.max_cqe) +
                   ": ask for fewer slots or classes");
  return {};
}

Link::Link(QpType type, const LinkShape& shape, uint32_t index)
    : shape_{std::bit_ceil(shape.slots), shape.payload, shape.copy_limit},
      type_(type),
      index_(index),
      buffers_(type, shape_),
      sends_(shape_.slots, type != QpType::srd),
      receives_(shape_.slots, type != QpType::srd) {
  static_assert(kRepostMargin == kRepostBatch);
}

Result<std::unique_ptr<Link>> Link::create(const ProtectionDomain& pd, const CompletionQueue& cq,
                                           QpType type, const LinkShape& shape, uint32_t index) {
  std::unique_ptr<Link> link(new Link(type, shape, index));
  if (Result<void> prepared = link->prepare(pd, cq); !prepared) return prepared.error();
  return link;
}

Result<void> Link::prepare(const ProtectionDomain& pd, const CompletionQueue& cq) {
  const uint32_t receives = receives_of(shape_.slots);
  if (Result<void> ready = buffers_.allocate(pd, receives); !ready) return ready;
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

void Link::repost_receive(uint32_t buffer) {
  WEFT_DCHECK(to_repost_count_ < kRepostBatch && buffer < receives_of(shape_.slots));
  to_repost_[to_repost_count_++] = buffer;
  if (to_repost_count_ < kRepostBatch) return;
  // A queue pair in the error state refuses them; its completions report that.
  (void)post_receives(to_repost_);
  to_repost_count_ = 0;
}

bool Link::post_receives(std::span<const uint32_t> buffers) {
  WEFT_DCHECK(buffers.size() <= kRepostBatch);
  Sge sges[kRepostBatch];
  RecvRequest requests[kRepostBatch];
  for (size_t i = 0; i < buffers.size(); ++i) {
    sges[i] = buffers_.control_sge(buffers[i]);
    requests[i] = {.id = make_id(index_, IdKind::receive, buffers[i]), .sges = {&sges[i], 1}};
  }
  return static_cast<bool>(qp_.post_recv({requests, buffers.size()}));
}

void Link::set_peer(uint32_t rank, const LinkAddress& address) {
  peer_ = rank;
  remote_ = address;
}

bool Link::send(const Call& call, uint32_t pieces, std::span<const std::byte> payload,
                const LKey* key, uint32_t step) {
  WEFT_DCHECK(can_send() && payload.size() <= shape_.payload);
  WEFT_DCHECK(key != nullptr ? step != kNoStep : payload.size() <= buffers_.max_copy_limit());
  const uint32_t slot = sends_.next_slot();
  const PieceHeader header{call, receives_.consumed(), static_cast<uint32_t>(payload.size()),
                           pieces};
  const std::optional<uint32_t> compressed =
      type_ != QpType::srd ? compress(last_sent_, header) : std::optional<uint32_t>();
  const uint32_t head = compressed ? 0 : sizeof header;
  const size_t offset = sizeof header - head;  // in the slot
  SendFlags flags = key != nullptr || sends_.needs_signal() ? SendFlags::signaled : SendFlags::none;
  Sge sges[2];
  size_t parts = 0;
  if (key == nullptr && head + payload.size() <= kInlineBytes) {  // the post copies it
    flags = flags | SendFlags::inline_data;
    if (head > 0) sges[parts++] = {const_cast<PieceHeader*>(&header), head, {}};
    if (header.bytes > 0) sges[parts++] = sge_of(payload, {});
  } else {
    std::byte* const copy = buffers_.staging(slot);
    uint32_t staged = head;
    if (head > 0) std::memcpy(copy, &header, sizeof header);
    if (key == nullptr && header.bytes > 0) {
      std::memcpy(copy + sizeof header, payload.data(), header.bytes);
      staged += header.bytes;
    }
    if (staged > 0) sges[parts++] = buffers_.staging_sge(slot, offset, staged);
    if (key != nullptr) sges[parts++] = sge_of(payload, *key);
  }
  const uint32_t immediate = compressed.value_or(sends_.immediate_of(sends_.posted()));
  if (!post_piece(slot, immediate, offset, flags, {sges, parts})) return false;
  last_sent_ = header;
  receives_.on_credit_sent();
  sends_.on_posted(key != nullptr ? step : kNoStep);
  return true;
}

PostStatus Link::post_piece(uint32_t slot, uint32_t immediate, size_t offset, SendFlags flags,
                            std::span<const Sge> sges) {
  WEFT_DCHECK(slot < receives_.slots());
  WEFT_DCHECK(offset == 0 || offset == sizeof(PieceHeader));
  return qp_.post_send({.id = make_id(index_, IdKind::piece, slot),
                        .opcode = Opcode::write_with_imm,
                        .flags = flags,
                        .imm = immediate,
                        .sges = sges,
                        .remote_address = remote_.landing + slot * buffers_.stride() + offset,
                        .rkey = {remote_.rkey}});
}

void Link::consume() {
  receives_.consume();
  return_credit();
}

void Link::return_credit() {
  if (receives_.credit_due()) send_control({.kind = ControlKind::credit});
}

// Where order is kept its completion covers the pieces posted before it.
uint64_t Link::control_id() const {
  return make_id(index_, IdKind::control, static_cast<uint32_t>(sends_.posted()) & kIdNumberMask);
}

bool Link::send_control(ControlMessage message) {
  if (disconnected || controls_ >= kMaxControls) return false;
  message.consumed = receives_.consumed();
  message.sent = sends_.posted();
  SendFlags flags = SendFlags::signaled | SendFlags::inline_data;
  if (type_ == QpType::srd) flags = flags | SendFlags::ordered;
  Sge sge{&message, sizeof message, {}};
  const PostStatus posted = qp_.post_send(
      {.id = control_id(), .opcode = Opcode::send, .flags = flags, .sges = {&sge, 1}});
  if (!posted) return false;
  receives_.on_credit_sent();
  ++controls_;
  return true;
}

// The peer may hold the abort's receive back until earlier messages have arrived, so all must have.
bool Link::deliver_abort(const ControlMessage& abort) {
  WEFT_DCHECK(abort.kind == ControlKind::abort);
  if (disconnected || broken_) return true;
  if (!abort_sent_) abort_sent_ = send_control(abort);
  return abort_sent_ && controls_ == 0;
}

void Link::send_keepalive() {
  if (disconnected || controls_ >= kMaxControls) return;
  const PostStatus posted = qp_.post_send({.id = control_id(),
                                           .opcode = Opcode::write,
                                           .flags = SendFlags::signaled,
                                           .remote_address = remote_.landing,
                                           .rkey = {remote_.rkey}});
  if (posted) ++controls_;
}

void Link::flush_unsignaled() {
  if (type_ != QpType::srd && !sends_.all_sent() && controls_ == 0) send_keepalive();
}

void Link::abort_link() {
  if (!broken_) (void)qp_.modify({.state = QpState::err});
  broken_ = true;
}

Link::Event Link::on_completion(const Completion& completion) {
  WEFT_DCHECK(link_index_of(completion) == index_);
  Event event;
  const IdKind kind = kind_of(completion.id);
  const uint32_t number = number_of(completion.id);
  const bool of_piece = kind == IdKind::piece || kind == IdKind::rendezvous;
  WEFT_DCHECK(!of_piece || number < receives_.slots());
  if (of_piece) event.finished_step = sends_.step_in(number);
  if (completion.status != Status::success) {
    abort_link();  // a queue pair of SRD stays usable, and the peer would not learn of the failure
    event.error = completion.status;
    return event;
  }
  if (of_piece) {
    sends_.release_payload(number);
    if (kind == IdKind::piece)
      sends_.on_sent(number);
    else if (!send_rendezvous_header(number))
      event.error = Status::local_qp_operation_error;
  } else if (kind == IdKind::control) {
    WEFT_DCHECK(controls_ > 0);
    --controls_;
    sends_.on_sent_before(number, kIdNumberMask);
    return_credit();
  } else {
    event.arrived = on_receive(number, completion);
  }
  return event;
}

const PieceHeader* Link::on_receive(uint32_t buffer, const Completion& completion) {
  const PieceHeader* piece = nullptr;
  if (has(completion.flags, CompletionFlags::rdma_write)) {
    piece =
        receives_.on_piece(completion.imm_or_key, completion.byte_count, sends_.credit(), buffers_);
    if (piece != nullptr) sends_.update_credit(piece->consumed);
  } else {
    ControlMessage message;
    std::memcpy(&message, buffers_.control(buffer), sizeof message);
    sends_.update_credit(message.consumed);
    inbox_.add(message);
  }
  repost_receive(buffer);
  return piece;
}

void Link::check_invariants() const {
  sends_.check_invariants();
  receives_.check_invariants();
  WEFT_DCHECK(controls_ <= kMaxControls);
  WEFT_DCHECK(to_repost_count_ < kRepostBatch);
}

}  // namespace weft::collective
