// SPDX-License-Identifier: BSD-3-Clause
// The provider interface of the connection manager: implementations of CmChannel and CmId.
#pragma once

#include <memory>
#include <optional>

#include "weft/cm.hpp"

namespace weft::verbs {

// The message of a CmEventType::rejected, from its reason.
std::string describe_rejection(uint16_t reason);

class CmId {
 public:
  virtual ~CmId() = default;
  virtual Result<void> resolve_address(const Gid& peer, uint16_t port) = 0;
  virtual Result<void> resolve_route() = 0;
  virtual Result<void> listen(uint16_t port) = 0;
  virtual Result<void> connect(const QueuePair& qp, const CmParameters& parameters) = 0;
  virtual Result<void> find_service(std::span<const std::byte> private_data) = 0;
  virtual Result<void> accept(const QueuePair& qp, const CmParameters& parameters) = 0;
  virtual Result<void> reject(std::span<const std::byte> private_data) = 0;
  virtual Result<void> disconnect() = 0;

  virtual CmService service() const noexcept = 0;

  // The state of the connection, for the accessors of weft::CmId.
  struct Facts {
    uint16_t port = 0, peer_port = 0;
    Gid peer;
    QpNum peer_qpn;
    uint32_t path_mtu = 0;
    QueuePair qp;
  };
  virtual Facts facts() const = 0;
  virtual const Device& device() const noexcept = 0;
};

class CmChannel {
 public:
  virtual ~CmChannel() = default;
  virtual Result<std::shared_ptr<CmId>> create_id(CmService service) = 0;
  virtual int fd() const noexcept = 0;
  virtual std::optional<CmEvent> next() = 0;
  virtual std::optional<CmEvent> wait(Duration limit) = 0;
};

}  // namespace weft::verbs
