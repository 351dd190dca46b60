// SPDX-License-Identifier: BSD-3-Clause
// State of an EFA opened for SRD: libefa, the device's capabilities and limits, and the addresses
// of peers that have sent. Outside this folder, `device` detects an EFA by its vendor, `open` opens
// one, and `domain` maps the numbers of its address handles.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "providers/ibverbs/efa/efa_library.hpp"
#include "weft/device.hpp"

namespace weft::ibverbs {

// Senders of receives: completions carry a number, Device::peer_address() returns the address.
class SrdPeers {
 public:
  static constexpr uint32_t kMost = 65536;  // then the first is forgotten, and so on
  static constexpr uint32_t kUnknown = UINT32_MAX;

  // Error: none; an address that is new gets a number.
  uint32_t number_of(const Gid& address);
  std::optional<Gid> address_of(uint32_t number) const;

 private:
  mutable std::mutex mutex_;
  std::map<Gid, uint32_t> numbers_;
  std::vector<Gid> addresses_;
  uint32_t next_ = 0;  // to be forgotten
};

// What requests may have on a device. Pure, of what libefa and libibverbs say.
struct SrdLimits {
  uint32_t caps = 0;  // kEfa*
  uint32_t max_send_sge = 1;
  uint32_t max_recv_sge = 1;
  uint32_t max_rdma_sge = 1;
  uint32_t max_inline = 0;  // of SENDs
  uint32_t max_send = 0;    // bytes: one packet
  uint32_t max_rdma = 0;    // bytes; 0: no READ and no WRITE
  bool has(uint32_t cap) const noexcept { return (caps & cap) == cap; }
};
SrdLimits srd_limits(const efadv_device_attr& efa, const ibv_device_attr& device,
                     const ibv_port_attr& port) noexcept;
// Into what `attributes` says of any device.
void describe_srd(DeviceAttributes& attributes, const SrdLimits& limits,
                  const efadv_device_attr& efa) noexcept;
// IBV_QP_EX_WITH_* of a queue pair.
uint64_t send_operations(uint32_t caps) noexcept;

struct EfaSrd {
  const EfaLibrary& efa;
  SrdLimits limits;
  SrdPeers peers;
};

// Error: not_supported (no EFA).
Result<efadv_device_attr> query_efa(const EfaLibrary& efa, ibv_context& context);

}  // namespace weft::ibverbs
