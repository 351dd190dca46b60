// SPDX-License-Identifier: BSD-3-Clause
// See by_cm.hpp.
#include "tests/conformance/by_cm.hpp"

#include <mutex>

#include "weft/cm.hpp"

namespace weft::test {

namespace {

// Ends of earlier connections come between.
CmEvent next_of(const CmChannel& channel, CmEventType type) {
  for (;;) {
    std::optional<CmEvent> event = channel.wait(Duration::from_s(20));
    if (!event) FAIL("no event of the connection manager");
    if (event->type == type) return std::move(*event);
    if (event->type != CmEventType::disconnected)
      FAIL(weft::name(event->type) << " comes, not " << weft::name(type));
  }
}

// Destroying an id ends its connection, so ids live as long as their queue pair. One channel for
// each device.
class KeptIds {
 public:
  CmChannel channel_of(const Device& device) {
    const std::lock_guard lock(mutex_);
    forget();
    for (const Kept& kept : all_)
      if (kept.device == device.context()) return kept.channel;
    return *CmChannel::create(device);
  }
  void keep(const CmChannel& channel, const CmId& id, const QueuePair& qp) {
    const std::lock_guard lock(mutex_);
    all_.push_back({channel, id, qp.device().context(), qp.impl()});
  }
  void drain_cm_events() {
    const std::lock_guard lock(mutex_);
    forget();
    for (size_t i = 0; i < all_.size(); ++i)
      if (i == 0 || all_[i].channel.impl() != all_[i - 1].channel.impl())
        while (all_[i].channel.next()) {
        }
  }

 private:
  struct Kept {
    CmChannel channel;
    CmId id;
    std::shared_ptr<verbs::Context> device;
    std::weak_ptr<verbs::Qp> qp;
  };
  void forget() {
    std::erase_if(all_, [](const Kept& kept) { return kept.qp.use_count() <= 1; });
  }
  std::mutex mutex_;
  std::vector<Kept> all_;
};

KeptIds& kept_ids() {
  static KeptIds kept;
  return kept;
}

}  // namespace

void connect_by_cm(const QueuePair& a, const QueuePair& b, const Walk& walk) {
  KeptIds& kept = kept_ids();
  const CmChannel server = kept.channel_of(a.device());
  const CmChannel client = kept.channel_of(b.device());
  const CmParameters said{.responder_resources = walk.max_rd_atomic,
                          .initiator_depth = walk.max_rd_atomic,
                          .access = walk.access};
  const CmId listener = *server.create_id(), id = *client.create_id();
  if (!listener.listen(0)) FAIL("cannot listen");
  const std::string at = to_string(a.device().attributes().gid);
  if (!id.resolve_address(at + ":" + std::to_string(listener.port()))) FAIL("no way");
  (void)next_of(client, CmEventType::address_resolved);
  if (!id.resolve_route()) FAIL("no route");
  (void)next_of(client, CmEventType::route_resolved);
  if (const Result<void> ok = id.connect(b, said); !ok) FAIL(ok.error().message);
  const CmEvent asked = next_of(server, CmEventType::connect_request);
  if (const Result<void> ok = asked.id.accept(a, said); !ok) FAIL(ok.error().message);
  (void)next_of(server, CmEventType::established);
  (void)next_of(client, CmEventType::established);
  kept.keep(server, asked.id, a);
  kept.keep(client, id, b);
}

void drain_cm_events() { kept_ids().drain_cm_events(); }

}  // namespace weft::test
