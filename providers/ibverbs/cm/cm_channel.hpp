// SPDX-License-Identifier: BSD-3-Clause
// The public connection manager over librdmacm: a channel is an event channel, an id is an
// rdma_cm_id without a queue pair. The kernel's rdma_cm exchanges messages with the peer and
// computes how a queue pair is to be set; the application's own, which is of another open context
// than librdmacm's, is moved to RTS here when the event is taken, with rdma_init_qp_attr and
// rdma_establish.
#pragma once

#include <mutex>

#include "providers/ibverbs/cm/rdmacm.hpp"
#include "providers/ibverbs/context/ibverbs_context.hpp"

namespace weft::ibverbs {

class CmChannel;

// An event of librdmacm that has been acknowledged: what was in it.
struct ReceivedEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  int status = 0;
  CmParameters peer;
  QpNum qpn;
  CmDatagramService service;  // of an id for datagrams
};

class CmId final : public verbs::CmId, public std::enable_shared_from_this<CmId> {
 public:
  // Takes over `id`; nullptr: connect_request() fills it in.
  CmId(std::shared_ptr<CmChannel> channel, CmService service, rdma_cm_id* id);
  ~CmId() override;

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

  // Handles an event; returns the one to report to the application, if any.
  std::optional<CmEvent> on_event(const ReceivedEvent& received);
  // Out of memory for the event: the connection ends.
  CmEvent abort_connection();
  // For the id of a connection request, before any other call.
  void on_request(const ReceivedEvent& request);

 private:
  enum class Phase : uint8_t {
    idle,
    resolving,
    resolved,
    routing,
    routed,
    listening,
    request_received,
    request_sent,
    accepted,
    closed
  };
  CmEvent event_of(CmEventType type);
  void finish();
  CmEvent unreachable(const ReceivedEvent& received, const std::string& what);
  CmEvent refused(uint16_t reason, const ReceivedEvent& received);
  std::optional<CmEvent> on_disconnect(const ReceivedEvent& received);
  std::optional<CmEvent> on_reply(const ReceivedEvent& received);
  std::optional<CmEvent> on_established(const ReceivedEvent& received);
  CmEvent established(const ReceivedEvent& received);
  Result<void> require_phase(Phase phase, const char* call, const char* instead) const;
  Result<void> check_device() const;
  Result<void> prepare(const QueuePair& qp);
  Result<void> move_to_rts();
  Result<void> accept_datagrams(const QueuePair& qp, const CmParameters& parameters);
  rdma_conn_param parameters(const CmParameters& wanted) const;
  void record_addresses();

  const std::shared_ptr<CmChannel> channel_;
  const CmService service_;
  rdma_cm_id* const id_;
  mutable std::recursive_mutex mutex_;
  Phase phase_ = Phase::idle;
  Facts facts_;
  CmParameters own_parameters_;
  CmParameters peer_parameters_;  // of its request
};

class CmChannel final : public verbs::CmChannel, public std::enable_shared_from_this<CmChannel> {
 public:
  static Result<std::shared_ptr<verbs::CmChannel>> create(const Device& device,
                                                          const Context& context,
                                                          const std::string& library);
  CmChannel(const Device& device, const Context& context, const CmLibrary& library,
            rdma_event_channel* channel);
  ~CmChannel() override;

  Result<std::shared_ptr<verbs::CmId>> create_id(CmService service) override;
  int fd() const noexcept override { return channel_->fd; }
  std::optional<CmEvent> next() override;
  std::optional<CmEvent> wait(Duration limit) override;

  const Context& context() const noexcept { return context_; }
  const CmLibrary& library() const noexcept { return library_; }
  const Device& device() const noexcept { return device_; }

 private:
  std::optional<CmEvent> process(rdma_cm_event& event);
  std::shared_ptr<CmId> own(CmService service, rdma_cm_id* id);

  const Device device_;  // keeps the context alive
  const Context& context_;
  const CmLibrary& library_;
  rdma_event_channel* const channel_;
  std::mutex order_mutex_;  // held from reading an event to reporting it: keeps their order
};

}  // namespace weft::ibverbs
