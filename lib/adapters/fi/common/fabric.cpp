// SPDX-License-Identifier: BSD-3-Clause
// Fabrics and domains: see objects.hpp.
#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/cntr.hpp"
#include "lib/adapters/fi/common/cq.hpp"
#include "lib/adapters/fi/common/eq.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

Fabric& of_fabric(fid* fabric) noexcept {
  return *static_cast<Fabric*>(reinterpret_cast<fid_fabric*>(fabric));
}

Domain& of_domain(fid* domain) noexcept {
  return *static_cast<Domain*>(reinterpret_cast<fid_domain*>(domain));
}

int trywait(fid_fabric*, fid** fids, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    int code = -FI_EINVAL;
    if (fids[i]->fclass == FI_CLASS_CQ) {
      code = static_cast<Cq*>(reinterpret_cast<fid_cq*>(fids[i]))->prepare_wait();
    } else if (fids[i]->fclass == FI_CLASS_EQ) {
      code = static_cast<Eq*>(reinterpret_cast<fid_eq*>(fids[i]))->prepare_wait();
    } else if (fids[i]->fclass == FI_CLASS_CNTR) {
      static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(fids[i]))->prepare();
      code = 0;
    }
    if (code != 0) return code;
  }
  return 0;
}

int close_fabric(fid* fid) noexcept {
  Fabric& fabric = of_fabric(fid);
  if (fabric.in_use()) return -FI_EBUSY;
  delete &fabric;
  return 0;
}

int close_domain(fid* fid) noexcept {
  Domain& domain = of_domain(fid);
  if (domain.in_use()) return -FI_EBUSY;
  Fabric& fabric = domain.fabric;
  delete &domain;
  fabric.release();
  return 0;
}

int open_domain2(fid_fabric* fabric, fi_info* info, fid_domain** domain, uint64_t flags,
                 void* context) noexcept {
  return flags != 0 ? -FI_EBADFLAGS : open_domain(fabric, info, domain, context);
}

int open_endpoint2(fid_domain* domain, fi_info* info, fid_ep** ep, uint64_t flags,
                   void* context) noexcept {
  return flags != 0 ? -FI_EBADFLAGS : open_endpoint(domain, info, ep, context);
}

fi_ops kFabricFidOps = fid_ops(close_fabric);
fi_ops_fabric kFabricOps = {.size = sizeof(fi_ops_fabric),
                            .domain = open_domain,
                            .passive_ep = open_passive,
                            .eq_open = open_eq,
                            .wait_open = not_implemented,
                            .trywait = trywait,
                            .domain2 = open_domain2};
fi_ops kDomainFidOps = fid_ops(close_domain);
fi_ops_domain kDomainOps = {.size = sizeof(fi_ops_domain),
                            .av_open = open_av,
                            .cq_open = open_cq,
                            .endpoint = open_endpoint,
                            .scalable_ep = not_implemented,
                            .cntr_open = open_cntr,
                            .poll_open = open_poll,
                            .stx_ctx = not_implemented,
                            .srx_ctx = open_shared_receive,
                            .query_atomic = query_atomic,
                            .query_collective = not_implemented,
                            .endpoint2 = open_endpoint2};

}  // namespace

Fabric::Fabric(std::shared_ptr<OpenDevice> opened, uint32_t version, void* user_context) noexcept
    : fid_fabric{.fid = {.fclass = FI_CLASS_FABRIC, .context = user_context, .ops = &kFabricFidOps},
                 .ops = &kFabricOps,
                 .api_version = version},
      device(std::move(opened)) {}

Domain::Domain(Fabric& parent, const fi_info& info, void* user_context) noexcept
    : fid_domain{.fid = {.fclass = FI_CLASS_DOMAIN, .context = user_context, .ops = &kDomainFidOps},
                 .ops = &kDomainOps,
                 .mr = &registration_ops()},
      fabric(parent),
      device(parent.device),
      mr_mode(info.domain_attr->mr_mode),
      has_user_keys(takes_user_keys() && (info.caps & (FI_RMA | FI_ATOMIC)) != 0 &&
                    mr_mode != FI_MR_BASIC && (mr_mode & FI_MR_PROV_KEY) == 0),
      has_offsets(mr_mode != FI_MR_BASIC && (mr_mode & FI_MR_VIRT_ADDR) == 0),
      has_remote_events((info.caps & FI_RMA_EVENT) != 0) {
  fabric.retain();
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) noexcept {
  return guarded([&]() -> int {
    auto device = open_device();
    if (!device) return failed(FI_LOG_FABRIC, "fi_fabric", device.error());
    *fabric = new Fabric(*device, attr->api_version, context);
    return 0;
  });
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) noexcept {
  return guarded([&]() -> int {
    *domain = new Domain(*static_cast<Fabric*>(fabric), *info, context);
    return 0;
  });
}

}  // namespace weft::fi
