// SPDX-License-Identifier: BSD-3-Clause
// The connections of an event queue: events of the connection manager become those of libfabric.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <mutex>
#include <unordered_map>

#include "lib/adapters/fi/common/eq.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"
#include "weft/cm.hpp"

namespace weft::fi {

struct Ep;

// fid_pep: listens.
struct Pep final : fid_pep {
  Pep(Fabric& parent, Info described, void* user_context) noexcept;
  Fabric& fabric;
  const Info info;
  Name name;  // what it listens at
  Eq* eq = nullptr;
  CmId id;
};

// info->handle of an FI_CONNREQ, until fi_endpoint() or fi_reject(). One that is never answered
// stays until its event queue is closed.
struct ConnectRequest {
  ::fid fid;
  CmId id;
  class Connections* owner;
  // Removes it; the caller has taken `id`.
  void release() noexcept;
};

// Any thread.
class Connections final : public Progress {
 public:
  // Those of `eq`, created at the first call. Errors: those of CmChannel::create().
  static Result<Connections*> of(Eq& eq);

  const CmChannel& channel() const noexcept { return channel_; }
  // Events of `id` go to an endpoint or a listener until forget().
  void add(const CmId& id, Ep& ep);
  void add(const CmId& id, Pep& pep);
  void forget(const Ep& ep) noexcept;
  void forget(const Pep& pep) noexcept;
  void remove(const ConnectRequest& request) noexcept;

  void progress() noexcept override;
  void arm() noexcept override {}
  int fd() const noexcept override { return channel_.fd(); }

 private:
  Connections(Eq& eq, CmChannel channel) : eq_(eq), channel_(std::move(channel)) {}
  void handle(const CmEvent& event);
  void on_request(const CmEvent& event);
  void on_event(Ep& ep, const CmEvent& event);

  Eq& eq_;
  const CmChannel channel_;
  std::mutex lock_;
  std::unordered_map<const verbs::CmId*, Ep*> endpoints_;
  std::unordered_map<const verbs::CmId*, Pep*> listeners_;
  std::unordered_map<const ConnectRequest*, std::unique_ptr<ConnectRequest>> requests_;
};

}  // namespace weft::fi
