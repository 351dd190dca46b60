// SPDX-License-Identifier: BSD-3-Clause
// The provider interface of the connection manager: implementations of CmChannel and CmId.
#pragma once

#include <memory>
#include <optional>

#include "weft/cm.hpp"

namespace weft::verbs {

// The message of a CmEventType::rejected, from its reason.
std::string describe_rejection(uint16_t reason);

class CmChannel;

class CmId {
 public:
  virtual ~CmId() = default;
  virtual Result<void> resolve_address(const Gid& peer, uint16_t port) = 0;
  virtual Result<void> resolve_route() = 0;
  virtual Result<void> bind(uint16_t port) { return (void)port, no_own_queue_pair(); }
  virtual Result<void> listen(uint16_t port) = 0;
  virtual Result<void> connect(const QueuePair& qp, const CmParameters& parameters) = 0;
  // The calls for a queue pair that the program moves itself, here and below.
  virtual Result<void> connect(const CmQueuePair& qp, const CmParameters& parameters) {
    return (void)qp, (void)parameters, no_own_queue_pair();
  }
  virtual Result<void> establish() { return no_own_queue_pair(); }
  virtual Result<QueuePairAttributes> attributes(QpState state) {
    return (void)state, no_own_queue_pair();
  }
  virtual Result<void> find_service(std::span<const std::byte> private_data) = 0;
  virtual Result<void> accept(const QueuePair& qp, const CmParameters& parameters) = 0;
  virtual Result<void> accept(const CmQueuePair& qp, const CmParameters& parameters) {
    return (void)qp, (void)parameters, no_own_queue_pair();
  }
  virtual Result<void> reject(std::span<const std::byte> private_data) = 0;
  virtual Result<void> disconnect() = 0;
  virtual Result<void> migrate(const std::shared_ptr<CmChannel>& to) {
    return (void)to, no_own_queue_pair();
  }

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

 private:
  static Error no_own_queue_pair() {
    return {Code::not_supported,
            "the connection manager of this device moves queue pairs itself and chooses their "
            "ports: give it a QueuePair, or use librdmacm"};
  }
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
