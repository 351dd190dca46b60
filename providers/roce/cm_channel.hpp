// SPDX-License-Identifier: BSD-3-Clause
// The public connection manager over the agent of a roce device: a channel is an inbox with an
// event fd, an id is a connection with its queue pair. Events of the agent become events of the
// application when it takes them; the thread of the application modifies the queue pairs.
#pragma once

#include <deque>
#include <mutex>
#include <unordered_map>

#include "lib/verbs/cm.hpp"
#include "providers/roce/roce_context.hpp"

namespace weft::roce_provider {

class ConnectionChannel;

class ConnectionId final : public verbs::CmId, public std::enable_shared_from_this<ConnectionId> {
 public:
  ConnectionId(std::shared_ptr<ConnectionChannel> channel, CmService service)
      : channel_(std::move(channel)), service_(service) {}
  // The passive side of a request.
  ConnectionId(std::shared_ptr<ConnectionChannel> channel, const cm::Event& request);
  ~ConnectionId() override;

  Result<void> resolve_address(const Gid& peer, uint16_t port) override;
  Result<void> resolve_route() override;
  Result<void> listen(uint16_t port) override;
  Result<void> connect(const QueuePair& qp, const CmParameters& parameters) override;
  Result<void> find_service(std::span<const std::byte> private_data) override;
  Result<void> accept(const QueuePair& qp, const CmParameters& parameters) override;
  Result<void> reject(std::span<const std::byte> private_data) override;
  Result<void> disconnect() override;
  CmService service() const noexcept override { return service_; }
  Facts facts() const override;
  const Device& device() const noexcept override;

  // Translates an event of the agent; empty: there is none for the application. If there is no
  // memory for it, the connection is aborted and the event is connect_error.
  std::optional<CmEvent> on_event(cm::Event& event);

 private:
  enum class Phase : uint8_t {
    idle,
    resolved,
    routed,
    listening,
    request_received,
    request_sent,
    accepted,
    closed
  };
  uint64_t service_id(uint16_t port) const;
  Result<void> serve(const QueuePair& qp, const CmParameters& parameters);
  CmEvent event_of(CmEventType type);
  Result<void> require_phase(Phase phase, const char* call, const char* instead) const;
  // Attributes of the peer for the transitions from RESET to RTS.
  struct Peer {
    Psn psn;
    uint8_t responder_resources, initiator_depth, rnr_retry, retry_count, timeout;
  };
  Result<void> connect_queue_pair(const Peer& peer);
  CmEvent request_event();
  std::optional<CmEvent> on_reply(const cm::Event& event);
  std::optional<CmEvent> translate(cm::Event& event);
  CmEvent service_event(const cm::Event& event);
  CmEvent on_disconnect(const cm::Event& event);
  std::vector<std::byte> private_data_of_reject(const cm::Mad& mad) const;
  CmEvent abort_connection();
  uint32_t choose_mtu(uint32_t requested) const;

  const std::shared_ptr<ConnectionChannel> channel_;
  const CmService service_;
  mutable std::recursive_mutex mutex_;
  Phase phase_ = Phase::idle;
  Facts facts_;
  CmParameters parameters_;
  Psn psn_;
  uint32_t agent_id_ = 0;  // 0: none
  cm::Mad request_{};      // of a passive connection
};

class ConnectionChannel final : public verbs::CmChannel,
                                public std::enable_shared_from_this<ConnectionChannel> {
 public:
  static Result<std::shared_ptr<verbs::CmChannel>> create(const Device& device,
                                                          RoceContext& context);
  ConnectionChannel(const Device& device, RoceContext& context);
  ~ConnectionChannel() override;

  Result<std::shared_ptr<verbs::CmId>> create_id(CmService service) override;
  int fd() const noexcept override { return fd_; }
  std::optional<CmEvent> next() override;
  std::optional<CmEvent> wait(Duration limit) override;

  RoceContext& context() noexcept { return context_; }
  const Device& device() const noexcept { return device_; }
  cm::Inbox& inbox() noexcept { return inbox_; }
  // Adds an event that does not come from the agent.
  void post(CmEventType type, const std::shared_ptr<ConnectionId>& id);
  void register_id(uint32_t number, const std::shared_ptr<ConnectionId>& id);
  void unregister_id(uint32_t number);
  void register_listener(uint64_t service, const std::shared_ptr<ConnectionId>& id);
  void unregister_listener(uint64_t service);

 private:
  std::optional<CmEvent> take();
  std::optional<CmEvent> translate(cm::Event& event);
  std::shared_ptr<ConnectionId> create_passive_id(const cm::Event& request);
  void signal() noexcept;

  Device device_;  // keeps the context alive
  RoceContext& context_;
  cm::Inbox inbox_;  // under the driver's lock
  int fd_ = -1;
  std::mutex take_mutex_;  // held while an event is taken and translated, which keeps the order
  std::mutex mutex_;       // of what follows
  std::deque<std::pair<CmEventType, std::weak_ptr<ConnectionId>>> posted_;
  std::unordered_map<uint32_t, std::weak_ptr<ConnectionId>> ids_;
  std::unordered_map<uint64_t, std::weak_ptr<ConnectionId>> listeners_;
};

}  // namespace weft::roce_provider
