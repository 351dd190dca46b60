// SPDX-License-Identifier: BSD-3-Clause
// The public connection manager over the agent of a roce device: a channel is an inbox with an
// event fd, an id is a connection with its queue pair. Events of the agent become events of the
// application when it takes them; the thread of the application modifies the queue pairs.
#pragma once

#include <deque>
#include <mutex>
#include <unordered_map>

#include "lib/roce/cm/enhanced.hpp"
#include "lib/verbs/cm.hpp"
#include "providers/roce/roce_context.hpp"

namespace weft::roce_provider {

class ConnectionChannel;

class ConnectionId final : public verbs::CmId, public std::enable_shared_from_this<ConnectionId> {
 public:
  ConnectionId(std::shared_ptr<ConnectionChannel> channel, CmService service);
  // The passive side of a request.
  ConnectionId(std::shared_ptr<ConnectionChannel> channel, const cm::Event& request);
  ~ConnectionId() override;

  Result<void> resolve_address(const Gid& peer, uint16_t port) override;
  Result<void> resolve_route() override;
  Result<void> bind(uint16_t port) override;
  Result<void> listen(uint16_t port) override;
  Result<void> connect(const QueuePair& qp, const CmParameters& parameters) override;
  Result<void> connect(const CmQueuePair& qp, const CmParameters& parameters) override;
  Result<void> establish() override;
  Result<QueuePairAttributes> attributes(QpState state) override;
  Result<void> find_service(std::span<const std::byte> private_data) override;
  Result<void> accept(const QueuePair& qp, const CmParameters& parameters) override;
  Result<void> accept(const CmQueuePair& qp, const CmParameters& parameters) override;
  Result<void> reject(std::span<const std::byte> private_data) override;
  Result<void> disconnect() override;
  Result<void> migrate(const std::shared_ptr<verbs::CmChannel>& to) override;
  CmService service() const noexcept override { return service_; }
  Facts facts() const override;
  const Device& device() const noexcept override { return device_; }

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
    response_received,
    accepted,
    closed
  };
  uint64_t service_id(uint16_t port) const;
  uint16_t pick_port();
  CmEvent event_of(CmEventType type);
  Result<void> require_phase(Phase phase, const char* call, const char* instead) const;
  Result<void> require_request(const char* call) const;
  // cm_queue_pair.cpp
  Result<void> send_request(const CmQueuePair& own, const CmParameters& parameters);
  Result<void> agree(const CmQueuePair& own, const CmParameters& parameters);
  Result<void> send_reply();
  Result<void> serve(QpNum number, uint32_t qkey, const CmParameters& parameters);
  Result<void> connect_queue_pair();
  QueuePairAttributes rtr_attributes() const;
  QueuePairAttributes rts_attributes() const;
  uint32_t choose_mtu(uint32_t requested) const;
  uint8_t depth_limit() const noexcept;  // of responder_resources and initiator_depth
  // cm_events.cpp
  CmEvent request_event();
  std::optional<CmEvent> on_reply(const cm::Event& event);
  std::optional<CmEvent> translate(cm::Event& event);
  CmEvent service_event(const cm::Event& event);
  CmEvent on_disconnect(const cm::Event& event);
  std::vector<std::byte> private_data_of_reject(const cm::Mad& mad) const;
  CmEvent abort_connection();
  void set_queue_pair_to_err() const;

  // What the peer's REQ or REP says for the transition to RTS.
  struct Peer {
    Psn psn;
    uint8_t rnr_retry = 0, retry_count = 0, timeout = 0;
  };

  const Device device_;                         // keeps the context alive
  RoceContext& context_;                        // of device_
  std::shared_ptr<ConnectionChannel> channel_;  // migrate() replaces it
  const CmService service_;
  mutable std::recursive_mutex mutex_;
  Phase phase_ = Phase::idle;
  Facts facts_;
  CmQueuePair own_;  // the type is known from the request on
  CmParameters parameters_;
  Peer peer_;
  Psn psn_;
  uint8_t offers_ = 0;      // capabilities that our REQ offers
  cm::Ece offer_, answer_;  // of our REQ, of our REP
  uint8_t agreed_ = 0;      // capabilities that both sides use
  uint32_t agent_id_ = 0;   // 0: none
  cm::Mad request_{};       // of a passive connection
};

class ConnectionChannel final : public verbs::CmChannel,
                                public std::enable_shared_from_this<ConnectionChannel> {
 public:
  static Result<std::shared_ptr<verbs::CmChannel>> create(const Device& device,
                                                          RoceContext& context);
  ConnectionChannel(const Device& device, RoceContext& context);
  ~ConnectionChannel() override;

  Result<std::shared_ptr<verbs::CmId>> create_id(CmService service) override;
  int fd() const noexcept override;
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
  // Moves `id`, its events and, if it listens, those of its service that were not taken.
  void move(const std::shared_ptr<ConnectionId>& id, uint32_t number,
            std::optional<uint64_t> service, ConnectionChannel& to);
  // Held by migrate(), so that no event is being translated.
  std::mutex& take_mutex() noexcept { return take_mutex_; }

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
