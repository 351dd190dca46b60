// SPDX-License-Identifier: BSD-3-Clause
// The public connection manager over the agent of a roce device: a channel is an inbox with a
// descriptor, an id is a connection with its queue pair. Events of the agent become events of the
// application when it takes them; its thread walks the queue pairs.
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
  // Of somebody who asks.
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

  // An event of the agent, as one for the application; nothing if there is none to tell. Without
  // memory to tell it the connection ends, and that is the event.
  std::optional<CmEvent> hear(cm::Event& event);

 private:
  enum class Phase : uint8_t { idle, resolved, routed, listening, asked, asking, decided, over };
  uint64_t service_id(uint16_t port) const;
  Result<void> serve(const QueuePair& qp, const CmParameters& parameters);
  CmEvent event_of(CmEventType type);
  Result<void> wants(Phase phase, const char* call, const char* instead) const;
  // The two ends of the walk from RESET to RTS.
  struct Peer {
    Psn psn;
    uint8_t responder_resources, initiator_depth, rnr_retry, retry_count, timeout;
  };
  Result<void> walk(const Peer& peer);
  CmEvent hear_request();
  std::optional<CmEvent> on_reply(const cm::Event& event);
  std::optional<CmEvent> translate(cm::Event& event);
  CmEvent hear_service(const cm::Event& event);
  CmEvent on_disconnect(const cm::Event& event);
  std::vector<std::byte> words_of_refusal(const cm::Mad& mad) const;
  CmEvent abort_connection();
  uint32_t choose_mtu(uint32_t wished) const;

  const std::shared_ptr<ConnectionChannel> channel_;
  const CmService service_;
  mutable std::recursive_mutex mutex_;
  Phase phase_ = Phase::idle;
  Facts facts_;
  CmParameters ours_;
  Psn psn_;
  uint32_t number_ = 0;  // the agent's; 0: none
  cm::Mad request_{};    // phase asked
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
  // An event that needs no agent.
  void post(CmEventType type, const std::shared_ptr<ConnectionId>& id);
  void enroll(uint32_t number, const std::shared_ptr<ConnectionId>& id);
  void strike(uint32_t number);
  void enroll_listener(uint64_t service, const std::shared_ptr<ConnectionId>& id);
  void strike_listener(uint64_t service);

 private:
  std::optional<CmEvent> take();
  std::optional<CmEvent> translate(cm::Event& event);
  std::shared_ptr<ConnectionId> adopt(const cm::Event& request);
  void signal() noexcept;

  Device device_;  // keeps the context alive
  RoceContext& context_;
  cm::Inbox inbox_;  // under the driver's lock
  int fd_ = -1;
  std::mutex turn_;   // an event is taken and told in one step: they keep their order
  std::mutex mutex_;  // of what follows
  std::deque<std::pair<CmEventType, std::weak_ptr<ConnectionId>>> posted_;
  std::unordered_map<uint32_t, std::weak_ptr<ConnectionId>> ids_;
  std::unordered_map<uint64_t, std::weak_ptr<ConnectionId>> listeners_;
};

}  // namespace weft::roce_provider
