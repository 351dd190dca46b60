// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_cm of endpoints, and passive endpoints: see endpoint.hpp, connections.hpp.
#include "lib/adapters/fi/msg/connect.hpp"

#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/endpoint.hpp"
#include "lib/adapters/fi/msg/connections.hpp"
#include "lib/adapters/fi/msg/endpoint.hpp"

namespace weft::fi {
namespace {

Name name_in(const fi_info& info, const Gid& own) noexcept {
  const auto name = info.src_addr ? name_at(info.src_addr) : std::nullopt;
  return {.gid = own, .port = name ? name->port : uint16_t{0}, .queue = {}};
}

int getname(fid* fid, void* out, size_t* length) noexcept {
  const Ep& ep = endpoint_of(fid);
  Name name = name_in(*ep.info, ep.domain.device->device.attributes().gid);
  if (ep.id && ep.id.port() != 0) name.port = ep.id.port();
  return copy_name(name, out, length);
}

int getpeer(fid_ep* fid, void* out, size_t* length) noexcept {
  const Ep& ep = endpoint_of(fid);
  if (!ep.id) return -FI_ENOTCONN;
  return copy_name({ep.id.peer_gid(), ep.id.peer_port(), {}}, out, length);
}

int connect(fid_ep* fid, const void* address, const void* data, size_t length) noexcept {
  return guarded([&]() -> int {
    Ep& ep = endpoint_of(fid);
    const auto name = address != nullptr ? name_at(address) : std::nullopt;
    if (!name || length > kConnectData) return -FI_EINVAL;
    if (ep.eq == nullptr) return -FI_ENOEQ;
    if (!ep.qp)
      if (auto enabled = ep.enable(); !enabled)
        return failed(FI_LOG_EP_CTRL, "fi_connect", enabled.error());
    auto connections = Connections::of(*ep.eq);
    if (!connections) return failed(FI_LOG_EP_CTRL, "fi_connect", connections.error());
    auto id = (*connections)->channel().create_id();
    if (!id) return failed(FI_LOG_EP_CTRL, "fi_connect", id.error());
    const Name own = name_in(*ep.info, name->gid);
    if (own.port != 0)
      if (auto bound = id->bind(own.port); !bound)
        return failed(FI_LOG_EP_CTRL, "fi_connect", bound.error());
    ep.connection_data = private_data_of(data, length);
    ep.id = *id;
    (*connections)->add(*id, ep);
    auto begun = id->resolve_address(text_of(*name));
    return begun ? 0 : failed(FI_LOG_EP_CTRL, "fi_connect", begun.error());
  });
}

int accept(fid_ep* fid, const void* data, size_t length) noexcept {
  return guarded([&]() -> int {
    Ep& ep = endpoint_of(fid);
    if (!ep.id || length > kAcceptData) return -FI_EINVAL;
    if (ep.eq == nullptr) return -FI_ENOEQ;
    if (!ep.qp)
      if (auto enabled = ep.enable(); !enabled)
        return failed(FI_LOG_EP_CTRL, "fi_accept", enabled.error());
    auto connections = Connections::of(*ep.eq);
    if (!connections) return failed(FI_LOG_EP_CTRL, "fi_accept", connections.error());
    (*connections)->add(ep.id, ep);
    if (auto moved = ep.id.migrate((*connections)->channel()); !moved)
      return failed(FI_LOG_EP_CTRL, "fi_accept", moved.error());
    auto done = ep.id.accept(ep.qp, parameters_of(ep, private_data_of(data, length)));
    return done ? 0 : failed(FI_LOG_EP_CTRL, "fi_accept", done.error());
  });
}

int shutdown(fid_ep* fid, uint64_t) noexcept {
  Ep& ep = endpoint_of(fid);
  if (!ep.id) return -FI_ENOTCONN;
  ep.drain();
  auto done = ep.id.disconnect();
  return done ? 0 : -FI_ENOTCONN;
}

Pep& passive_of(fid* pep) noexcept { return *static_cast<Pep*>(reinterpret_cast<fid_pep*>(pep)); }

int bind_passive(fid* fid, struct fid* other, uint64_t) noexcept {
  return guarded([&]() -> int {
    Pep& pep = passive_of(fid);
    if (other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    Eq& eq = *static_cast<Eq*>(reinterpret_cast<fid_eq*>(other));
    if (auto bound = Connections::of(eq); !bound)
      return failed(FI_LOG_EP_CTRL, "fi_pep_bind", bound.error());
    return bind_once(pep.eq, eq);
  });
}

int close_passive(fid* fid) noexcept {
  Pep* const pep = &passive_of(fid);
  Fabric& fabric = pep->fabric;
  if (pep->eq != nullptr) {
    static_cast<Connections*>(pep->eq->connections.get())->forget(*pep);
    pep->eq->forget(fid);
    --pep->eq->users;
  }
  delete pep;
  fabric.release();
  return 0;
}

// Any number of requests wait.
int control_passive(fid*, int command, void*) noexcept {
  return command == FI_BACKLOG ? 0 : -FI_ENOSYS;
}

int setname(fid* fid, void* address, size_t) noexcept {
  Pep& pep = passive_of(fid);
  const auto name = name_at(address);
  if (!name || fid->fclass != FI_CLASS_PEP) return -FI_EINVAL;
  if (pep.id) return -FI_EOPBADSTATE;
  pep.name.port = name->port;
  return 0;
}

int getname_passive(fid* fid, void* out, size_t* length) noexcept {
  return copy_name(passive_of(fid).name, out, length);
}

int listen(fid_pep* fid) noexcept {
  return guarded([&]() -> int {
    Pep& pep = *static_cast<Pep*>(fid);
    if (pep.eq == nullptr) return -FI_ENOEQ;
    auto& connections = static_cast<Connections&>(*pep.eq->connections);
    auto id = connections.channel().create_id();
    if (!id) return failed(FI_LOG_EP_CTRL, "fi_listen", id.error());
    connections.add(*id, pep);
    if (auto done = id->listen(pep.name.port); !done) {
      connections.forget(pep);
      return failed(FI_LOG_EP_CTRL, "fi_listen", done.error());
    }
    pep.id = *id;
    pep.name.port = id->port();
    return 0;
  });
}

int reject(fid_pep*, ::fid* handle, const void* data, size_t length) noexcept {
  return guarded([&]() -> int {
    auto* request = reinterpret_cast<ConnectRequest*>(handle);
    if (request == nullptr || request->fid.fclass != FI_CLASS_CONNREQ || length > kRejectData)
      return -FI_EINVAL;
    const CmId id = request->id;
    request->release();
    auto done = id.reject(private_data_of(data, length));
    return done ? 0 : failed(FI_LOG_EP_CTRL, "fi_reject", done.error());
  });
}

fi_ops_cm kEndpointOps = {.size = sizeof(fi_ops_cm),
                          .setname = not_implemented,
                          .getname = getname,
                          .getpeer = getpeer,
                          .connect = connect,
                          .listen = not_implemented,
                          .accept = accept,
                          .reject = not_implemented,
                          .shutdown = shutdown,
                          .join = not_implemented};
fi_ops kPassiveFidOps = fid_ops(close_passive, bind_passive, control_passive);
fi_ops_cm kPassiveOps = {.size = sizeof(fi_ops_cm),
                         .setname = setname,
                         .getname = getname_passive,
                         .getpeer = not_implemented,
                         .connect = not_implemented,
                         .listen = listen,
                         .accept = not_implemented,
                         .reject = reject,
                         .shutdown = not_implemented,
                         .join = not_implemented};

int getopt_passive(fid*, int level, int name, void* value, size_t* length) noexcept {
  return put_size_option(level, name, FI_OPT_CM_DATA_SIZE, kConnectData, value, length);
}

fi_ops_ep kPassiveEndpointOps = endpoint_ops(getopt_passive);

}  // namespace

std::vector<std::byte> private_data_of(const void* data, size_t length) {
  std::vector<std::byte> bytes(1 + length);
  bytes[0] = static_cast<std::byte>(length);
  if (length != 0) std::memcpy(bytes.data() + 1, data, length);
  return bytes;
}

std::span<const std::byte> connection_data_in(std::span<const std::byte> private_data) noexcept {
  if (private_data.empty()) return {};
  const auto length = std::to_integer<size_t>(private_data[0]);
  return length < private_data.size() ? private_data.subspan(1, length)
                                      : std::span<const std::byte>{};
}

CmParameters parameters_of(const Ep& ep, std::vector<std::byte> private_data) {
  CmParameters parameters;
  parameters.private_data = std::move(private_data);
  parameters.traffic_class = static_cast<uint8_t>(fi_tc_dscp_get(ep.info->tx_attr->tclass) << 2);
  return parameters;
}

fi_ops_cm& endpoint_cm_ops() noexcept { return kEndpointOps; }

Pep::Pep(Fabric& parent, Info described, void* user_context) noexcept
    : fid_pep{.fid = {.fclass = FI_CLASS_PEP, .context = user_context, .ops = &kPassiveFidOps},
              .ops = &kPassiveEndpointOps,
              .cm = &kPassiveOps},
      fabric(parent),
      info(std::move(described)),
      name(name_in(*info, parent.device->device.attributes().gid)) {
  fabric.retain();
}

int open_passive(fid_fabric* fabric, fi_info* info, fid_pep** out, void* context) noexcept {
  return guarded([&]() -> int {
    if (info->ep_attr && info->ep_attr->type != FI_EP_MSG) return -FI_EINVAL;
    Info copy(fi_dupinfo(info));
    if (!copy) return -FI_ENOMEM;
    *out = new Pep(*static_cast<Fabric*>(fabric), std::move(copy), context);
    return 0;
  });
}

}  // namespace weft::fi
