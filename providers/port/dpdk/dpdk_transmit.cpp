// SPDX-License-Identifier: BSD-3-Clause
// Frames into packet buffers, and to the device. See dpdk_port.hpp.
#include <rte_mbuf.h>

#include <algorithm>

#include "lib/base/clock.hpp"
#include "providers/port/dpdk/dpdk_port.hpp"
#include "providers/port/ethernet/framing.hpp"

namespace weft::port {

// Sends what waited for a neighbour. False: the ring or the pool is full.
bool DpdkPort::send_resolved() noexcept {
  const bool sent = unresolved_.send_resolved(
      neighbours_, base::Clock::process().now(),
      [this](const transport::TxFrame& frame, const wire::MacAddress& to) {
        outgoing_[0] = rte_pktmbuf_alloc(device_->pool(queue_));
        copies_[0] = nullptr;
        if (outgoing_[0] == nullptr) return false;
        if (fill(outgoing_[0], frame, to)) return send(1) == 1;
        rte_pktmbuf_free(outgoing_[0]);
        return true;
      });
  send_neighbour_messages();
  return sent;
}

size_t DpdkPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  if (!unresolved_.empty() && !send_resolved()) return 0;
  send_neighbour_messages();
  size_t taken = 0;
  while (taken < frames.size()) {
    const size_t most = std::min<size_t>(frames.size() - taken, kBurst);
    size_t used = 0;
    const size_t count = prepare(frames.subspan(taken, most), used);
    const size_t sent = count == 0 ? 0 : send(count);
    if (sent < count) return taken + frame_of_[sent] - 1u;  // the ring is full
    taken += used;
    if (used == 0) break;
  }
  return taken;
}

// Fills buffers with the first frames of the span: `used` of them are sent, looped back, waiting
// for a neighbour or lost by that. What the ring has no room for comes again, so nothing that has
// come to its end already may lie behind it: such frames are looked at before others are filled.
size_t DpdkPort::prepare(std::span<const transport::TxFrame> frames, size_t& used) noexcept {
  if (rte_pktmbuf_alloc_bulk(device_->pool(queue_), outgoing_.data(),
                             static_cast<unsigned>(frames.size())) != 0) {
    ++counters_.tx_no_buffer;
    return 0;
  }
  size_t count = 0;
  const wire::MacAddress* to = nullptr;
  wire::MacAddress group_mac;
  const Gid* destination = nullptr;
  bool ours = false;  // comes back to us too
  for (used = 0; used < frames.size(); ++used) {
    const transport::TxFrame& frame = frames[used];
    if (frame.length() > longest_) {
      ++counters_.tx_too_long;
      continue;
    }
    if (destination == nullptr || *destination != frame.path->destination) {
      destination = &frame.path->destination;
      const bool group = destination->is_multicast();
      if (group) group_mac = ethernet::mac_of_group(*destination);
      to = group ? &group_mac : neighbours_.find(*destination);
      ours = group && (device_->queues() > 1 || groups_.has(*destination));
    }
    const bool leaves = to != nullptr && *destination != address();
    if (!leaves && count != 0) break;
    if (to == nullptr) {
      unresolved_.enqueue(frame, neighbours_, base::Clock::process().now());
      continue;
    }
    if (!fill(outgoing_[count], frame, *to)) continue;
    if (!leaves) {
      loop_back(outgoing_[count]);
      continue;
    }
    copies_[count] =
        ours ? rte_pktmbuf_copy(outgoing_[count], device_->pool(queue_), 0, UINT32_MAX) : nullptr;
    frame_of_[count++] = static_cast<uint16_t>(used + 1);
  }
  rte_pktmbuf_free_bulk(&outgoing_[count], static_cast<unsigned>(frames.size() - count));
  return count;
}

bool DpdkPort::fill(rte_mbuf* buffer, const transport::TxFrame& frame,
                    const wire::MacAddress& to) noexcept {
  buffer->data_len = static_cast<uint16_t>(
      ethernet::write_frame(rte_pktmbuf_mtod(buffer, std::byte*), frame, neighbours_.self(), to));
  counters_.tx_unreadable += buffer->data_len == 0;
  buffer->pkt_len = buffer->data_len;
  return buffer->data_len != 0;
}

// A buffer for ourselves is replaced by a new one, so that the burst stays whole. One that finds no
// room is lost, as on a wire.
void DpdkPort::loop_back(rte_mbuf*& buffer) noexcept {
  rte_mbuf* const other =
      looped_.size() < kBurst ? rte_pktmbuf_alloc(device_->pool(queue_)) : nullptr;
  if (other == nullptr) return rte_pktmbuf_reset(buffer);
  looped_.push_back(buffer);
  buffer = other;
}

// What has left to a group comes back to members here.
void DpdkPort::loop_copies(size_t count, size_t sent) noexcept {
  for (size_t i = 0; i < count; ++i) {
    if (copies_[i] == nullptr) continue;
    if (i < sent && looped_.size() < kBurst)
      looped_.push_back(copies_[i]);
    else
      rte_pktmbuf_free(copies_[i]);
  }
}

// Hands outgoing_[0, count) to the device, which takes all unless its ring is full. A link that is
// down loses frames, as a wire does.
size_t DpdkPort::send(size_t count) noexcept {
  const uint16_t sent = device_->send(queue_, outgoing_.data(), static_cast<uint16_t>(count));
  counters_.tx_frames += sent;
  loop_copies(count, sent);
  if (sent == count) return count;
  rte_pktmbuf_free_bulk(&outgoing_[sent], static_cast<unsigned>(count - sent));
  if (device_->link_is_up()) return sent;
  counters_.tx_link_down += count - sent;
  return count;
}

// ---- the clock, and neighbours

void DpdkPort::update_time() noexcept {
  device_->update_link();
  neighbours_.update_now(base::Clock::process().now());
  send_neighbour_messages();
}

void DpdkPort::send_neighbour_messages() noexcept {
  for (std::span<const std::byte> bytes; !(bytes = neighbours_.next_message()).empty();) {
    rte_mbuf* buffer = rte_pktmbuf_alloc(device_->pool(queue_));
    if (buffer == nullptr) return;
    std::memcpy(rte_pktmbuf_append(buffer, static_cast<uint16_t>(bytes.size())), bytes.data(),
                bytes.size());
    ++counters_.tx_neighbour;
    if (device_->send(queue_, &buffer, 1) == 0) rte_pktmbuf_free(buffer);
  }
}

}  // namespace weft::port
