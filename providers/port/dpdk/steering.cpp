// SPDX-License-Identifier: BSD-3-Clause
// See steering.hpp.
#include "providers/port/dpdk/steering.hpp"

#include <rte_alarm.h>
#include <rte_byteorder.h>
#include <rte_flow.h>

#include <algorithm>
#include <cstring>

#include "lib/wire/headers.hpp"

namespace weft::port::dpdk {

Steering::Steering(uint16_t port, uint16_t queues, uint16_t vlan, Duration least_age)
    : port_(port), vlan_(vlan), least_age_(least_age), seen_(queues) {
  requests_.reserve(kMaxRequests);
  rules_.reserve(kMaxRules);
}

Steering::~Steering() {
  (void)rte_eal_alarm_cancel(run_of, this);
  for (const Rule& rule : rules_) (void)rte_flow_destroy(port_, rule.handle, nullptr);
}

void Steering::misplaced(uint16_t queue, uint16_t engine, const transport::Frame& frame) noexcept {
  if (frame.length < sizeof(wire::Bth)) return;
  wire::Bth bth;
  std::memcpy(static_cast<void*>(&bth), frame.bytes, sizeof bth);
  const QpNum number{bth.dest_qpn};
  if (number == wire::kGsiQpn) return;  // it always exists and has little traffic
  const transport::Path& path = *frame.path;
  const Flow flow{path.source, path.destination, path.source_port, path.destination_port};
  if (seen_[queue].count(flow, engine)) request_rule(flow, engine, number);
}

// What finds no place is lost: a flow that still comes to the wrong queue asks again.
void Steering::request_rule(const Flow& flow, uint16_t engine, QpNum number) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (requests_.size() == kMaxRequests || has_rule(flow)) return;
  requests_.push_back({flow, number, engine});
  any_.store(true, std::memory_order_relaxed);
  schedule();
}

void Steering::forget(QpNum number) noexcept {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(requests_, [&](const RuleRequest& request) { return request.number == number; });
  if (creating_.number == number) creating_.qp_gone = true;
  for (Rule& rule : rules_) {
    if (rule.request.number != number) continue;
    rule.request.qp_gone = true;
    schedule();
  }
}

bool Steering::has_rule(const Flow& flow) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return rule.request.flow == flow && !rule.request.qp_gone;
  });
}

// ---- the control thread

void Steering::schedule() noexcept {
  if (!scheduled_) scheduled_ = rte_eal_alarm_set(1, run_of, this) == 0;
}

void Steering::run_of(void* steering) noexcept { static_cast<Steering*>(steering)->run(); }

void Steering::run() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  while (remove_one(lock) || add_one(lock)) {
  }
  any_.store(!rules_.empty(), std::memory_order_relaxed);
  scheduled_ = false;
}

bool Steering::remove_one(std::unique_lock<std::mutex>& lock) noexcept {
  const auto gone =
      std::find_if(rules_.begin(), rules_.end(), [](const Rule& r) { return r.request.qp_gone; });
  if (gone == rules_.end()) return false;
  rte_flow* const handle = gone->handle;
  rules_.erase(gone);
  lock.unlock();
  (void)rte_flow_destroy(port_, handle, nullptr);
  lock.lock();
  count_.store(rules_.size(), std::memory_order_relaxed);
  return true;
}

bool Steering::add_one(std::unique_lock<std::mutex>& lock) noexcept {
  if (requests_.empty()) return false;
  creating_ = requests_.front();
  requests_.erase(requests_.begin());
  if (has_rule(creating_.flow)) return true;
  const Instant time = base::Clock::process().now();
  if (rules_.size() == kMaxRules && time - rules_.front().made >= least_age_) {
    rules_.front().request.qp_gone = true;
    (void)remove_one(lock);
  }
  rte_flow* handle = nullptr;
  if (rules_.size() < kMaxRules) {
    lock.unlock();
    handle = create(creating_.flow, creating_.engine);
    lock.lock();
  }
  if (handle != nullptr)
    rules_.push_back({creating_, handle, time});
  else
    refused_.fetch_add(1, std::memory_order_relaxed);
  count_.store(rules_.size(), std::memory_order_relaxed);
  creating_ = {};
  return true;
}

// ---- rules of the device

rte_flow* Steering::create(const Flow& flow, uint16_t queue) noexcept {
  const bool v4 = flow.destination.is_ipv4();
  rte_flow_item_vlan tag{}, tag_mask{};
  tag.tci = rte_cpu_to_be_16(vlan_);
  tag_mask.tci = RTE_BE16(0x0FFF);
  rte_flow_item_ipv4 ipv4{}, ipv4_mask{};
  std::memcpy(&ipv4.hdr.src_addr, &flow.source.bytes[12], 4);
  std::memcpy(&ipv4.hdr.dst_addr, &flow.destination.bytes[12], 4);
  ipv4_mask.hdr.src_addr = ipv4_mask.hdr.dst_addr = ~rte_be32_t{0};
  rte_flow_item_ipv6 ipv6{}, ipv6_mask{};
  // Arrays of bytes until DPDK 24.07, structures since.
  static_assert(sizeof ipv6.hdr.src_addr == sizeof flow.source.bytes);
  std::memcpy(&ipv6.hdr.src_addr, flow.source.bytes.data(), sizeof ipv6.hdr.src_addr);
  std::memcpy(&ipv6.hdr.dst_addr, flow.destination.bytes.data(), sizeof ipv6.hdr.dst_addr);
  std::memset(&ipv6_mask.hdr.src_addr, 0xFF, sizeof ipv6_mask.hdr.src_addr);
  std::memset(&ipv6_mask.hdr.dst_addr, 0xFF, sizeof ipv6_mask.hdr.dst_addr);
  rte_flow_item_udp udp{}, udp_mask{};
  udp.hdr.src_port = rte_cpu_to_be_16(flow.source_port);
  udp.hdr.dst_port = rte_cpu_to_be_16(flow.destination_port);
  udp_mask.hdr.src_port = udp_mask.hdr.dst_port = RTE_BE16(0xFFFF);

  rte_flow_item pattern[5] = {};
  rte_flow_item* item = pattern;
  *item++ = {RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr};
  if (vlan_ != 0) *item++ = {RTE_FLOW_ITEM_TYPE_VLAN, &tag, nullptr, &tag_mask};
  if (v4)
    *item++ = {RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, nullptr, &ipv4_mask};
  else
    *item++ = {RTE_FLOW_ITEM_TYPE_IPV6, &ipv6, nullptr, &ipv6_mask};
  *item++ = {RTE_FLOW_ITEM_TYPE_UDP, &udp, nullptr, &udp_mask};
  *item = {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr};

  const rte_flow_action_queue to{queue};
  const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_QUEUE, &to},
                                     {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  rte_flow_attr attributes{};
  attributes.ingress = 1;
  return rte_flow_create(port_, &attributes, pattern, actions, nullptr);
}

}  // namespace weft::port::dpdk
