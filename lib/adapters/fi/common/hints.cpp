// SPDX-License-Identifier: BSD-3-Clause
// See hints.hpp. Rules: fi_getinfo(3) and fi_domain(3) of libfabric.
#include "lib/adapters/fi/common/hints.hpp"

#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/info.hpp"

namespace weft::fi {
namespace {

constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kSendModifiers = FI_SEND | FI_READ | FI_WRITE;
constexpr uint64_t kReceiveModifiers = FI_RECV | kRemote;
// What costs nothing and is there whether asked for or not.
constexpr uint64_t kFree = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kTransmitCaps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_FENCE | kSendModifiers;
constexpr uint64_t kReceiveCaps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV |
                                  FI_SOURCE | FI_DIRECTED_RECV | FI_RMA_EVENT | kReceiveModifiers;

int excluded(const char* field) noexcept {
  FI_INFO(&provider(), FI_LOG_CORE, "not offered because of the hint %s\n", field);
  return -FI_ENODATA;
}

int excluded(const char* field, uint64_t wanted, uint64_t offered) noexcept {
  FI_INFO(&provider(), FI_LOG_CORE, "not offered because of the hint %s: 0x%llx, offered: 0x%llx\n",
          field, static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(offered));
  return -FI_ENODATA;
}

bool has_beyond(uint64_t wanted, uint64_t offered) noexcept { return (wanted & ~offered) != 0; }

// Without a modifier, an operation is wanted in all directions.
uint64_t with_modifiers(uint64_t caps) noexcept {
  if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & (FI_SEND | FI_RECV)) == 0)
    caps |= FI_SEND | FI_RECV;
  if ((caps & (FI_RMA | FI_ATOMIC)) != 0 && (caps & (FI_READ | FI_WRITE | kRemote)) == 0)
    caps |= FI_READ | FI_WRITE | kRemote;
  return caps;
}

int restrict_caps(fi_info& info, const fi_info& hints) noexcept {
  if (has_beyond(hints.caps, info.caps)) return excluded("caps", hints.caps, info.caps);
  if (hints.caps != 0) info.caps = with_modifiers(hints.caps) | (info.caps & kFree);
  if (hints.caps == 0) info.caps &= ~FI_RMA_EVENT;  // a message for each READ and WRITE
  return 0;
}

int restrict_names(const fi_info& info, const fi_info& hints) noexcept {
  if (hints.addr_format != FI_FORMAT_UNSPEC && hints.addr_format != FI_SOCKADDR &&
      hints.addr_format != info.addr_format)
    return excluded("addr_format", hints.addr_format, info.addr_format);
  const fi_fabric_attr* fabric = hints.fabric_attr;
  if (fabric && fabric->name && std::strcmp(fabric->name, info.fabric_attr->name) != 0)
    return excluded("fabric_attr->name");
  const fi_domain_attr* domain = hints.domain_attr;
  if (domain && domain->name && std::strcmp(domain->name, info.domain_attr->name) != 0)
    return excluded("domain_attr->name");
  return 0;
}

// Registration. Versions before 1.5 name FI_MR_BASIC or nothing; what is not registered for peers
// needs no mode at all.
int restrict_registration(fi_info& info, uint32_t version, const fi_info& hints) noexcept {
  const int asked = hints.domain_attr ? hints.domain_attr->mr_mode : kRegistrationModes;
  int& mode = info.domain_attr->mr_mode;
  const bool remote = (info.caps & (FI_RMA | FI_ATOMIC)) != 0;
  if (FI_VERSION_LT(version, FI_VERSION(1, 5)) || asked == FI_MR_BASIC || asked == FI_MR_SCALABLE) {
    const bool scalable = asked == FI_MR_SCALABLE;
    if (scalable && remote && !takes_user_keys())
      return excluded("domain_attr->mr_mode FI_MR_SCALABLE");
    mode = scalable && takes_user_keys() ? FI_MR_SCALABLE : FI_MR_BASIC;
  } else if (!remote) {
    mode = 0;
  } else if (!takes_user_keys() &&
             has_beyond(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY, static_cast<uint64_t>(asked))) {
    return excluded("domain_attr->mr_mode", static_cast<uint64_t>(asked),
                    static_cast<uint64_t>(mode));
  } else {
    mode &= asked;
  }
  const bool has_user_keys = mode != FI_MR_BASIC && (mode & FI_MR_PROV_KEY) == 0;
  if (takes_user_keys() && (has_user_keys || (info.caps & FI_RMA_EVENT) != 0))
    info.domain_attr->mr_key_size = sizeof(uint64_t);  // or with kEventKey
  return 0;
}

int restrict_domain(fi_info& info, const fi_domain_attr& hints) noexcept {
  fi_domain_attr& own = *info.domain_attr;
  if (hints.threading != FI_THREAD_UNSPEC) own.threading = hints.threading;
  if (hints.control_progress != FI_PROGRESS_UNSPEC) own.control_progress = hints.control_progress;
  if (hints.data_progress != FI_PROGRESS_UNSPEC) own.data_progress = hints.data_progress;
  if (hints.resource_mgmt != FI_RM_UNSPEC) own.resource_mgmt = hints.resource_mgmt;
  if (hints.av_type != FI_AV_UNSPEC) own.av_type = hints.av_type;
  if (has_beyond(hints.caps, own.caps)) return excluded("domain_attr->caps", hints.caps, own.caps);
  if (hints.cq_data_size > own.cq_data_size)
    return excluded("domain_attr->cq_data_size", hints.cq_data_size, own.cq_data_size);
  if (hints.mr_key_size > own.mr_key_size && hints.mr_key_size > sizeof(uint64_t))
    return excluded("domain_attr->mr_key_size", hints.mr_key_size, own.mr_key_size);
  if (hints.max_ep_stx_ctx > own.max_ep_stx_ctx)
    return excluded("domain_attr->max_ep_stx_ctx", hints.max_ep_stx_ctx, own.max_ep_stx_ctx);
  if (hints.max_ep_srx_ctx > own.max_ep_srx_ctx)
    return excluded("domain_attr->max_ep_srx_ctx", hints.max_ep_srx_ctx, own.max_ep_srx_ctx);
  return 0;
}

int restrict_endpoint(const fi_info& info, const fi_ep_attr& hints) noexcept {
  const fi_ep_attr& own = *info.ep_attr;
  if (hints.type != FI_EP_UNSPEC && hints.type != own.type)
    return excluded("ep_attr->type", hints.type, own.type);
  if (hints.protocol != FI_PROTO_UNSPEC && hints.protocol != own.protocol)
    return excluded("ep_attr->protocol", hints.protocol, own.protocol);
  if (hints.max_msg_size > own.max_msg_size)
    return excluded("ep_attr->max_msg_size", hints.max_msg_size, own.max_msg_size);
  if (hints.max_order_raw_size > own.max_order_raw_size)
    return excluded("ep_attr->max_order_raw_size", hints.max_order_raw_size,
                    own.max_order_raw_size);
  if (hints.max_order_waw_size > own.max_order_waw_size)
    return excluded("ep_attr->max_order_waw_size", hints.max_order_waw_size,
                    own.max_order_waw_size);
  if (hints.max_order_war_size > own.max_order_war_size)
    return excluded("ep_attr->max_order_war_size", hints.max_order_war_size,
                    own.max_order_war_size);
  if (hints.tx_ctx_cnt > own.tx_ctx_cnt && hints.tx_ctx_cnt != FI_SHARED_CONTEXT)
    return excluded("ep_attr->tx_ctx_cnt", hints.tx_ctx_cnt, own.tx_ctx_cnt);
  if (hints.tx_ctx_cnt == FI_SHARED_CONTEXT) return excluded("ep_attr->tx_ctx_cnt: shared");
  if (hints.rx_ctx_cnt == FI_SHARED_CONTEXT && info.domain_attr->max_ep_srx_ctx == 0)
    return excluded("ep_attr->rx_ctx_cnt: shared");
  if (hints.rx_ctx_cnt > own.rx_ctx_cnt && hints.rx_ctx_cnt != FI_SHARED_CONTEXT)
    return excluded("ep_attr->rx_ctx_cnt", hints.rx_ctx_cnt, own.rx_ctx_cnt);
  if (hints.auth_key_size != 0) return excluded("ep_attr->auth_key_size");
  return 0;
}

template <class Attributes>
int restrict_context(Attributes& own, const Attributes& hints, const char* which) noexcept {
  const auto check = [which](uint64_t wanted, uint64_t offered, const char* field) {
    if (!has_beyond(wanted, offered)) return 0;
    FI_INFO(&provider(), FI_LOG_CORE, "hints of %s:\n", which);
    return excluded(field, wanted, offered);
  };
  int code = check(hints.caps, own.caps | kFree, "caps");
  if (!code) code = check(hints.msg_order, own.msg_order, "msg_order");
  if (!code) code = check(hints.comp_order, own.comp_order, "comp_order");
  if (!code && hints.size > own.size) code = excluded("size", hints.size, own.size);
  if (!code && hints.iov_limit > own.iov_limit)
    code = excluded("iov_limit", hints.iov_limit, own.iov_limit);
  if (code) return code;
  own.op_flags = hints.op_flags;
  if (hints.size != 0) own.size = hints.size;
  if (hints.iov_limit != 0) own.iov_limit = hints.iov_limit;
  if (hints.caps != 0) own.caps &= with_modifiers(hints.caps);
  return 0;
}

int restrict_transmit(fi_tx_attr& own, const fi_tx_attr& hints) noexcept {
  if (hints.inject_size > own.inject_size)
    return excluded("tx_attr->inject_size", hints.inject_size, own.inject_size);
  if (hints.rma_iov_limit > own.rma_iov_limit)
    return excluded("tx_attr->rma_iov_limit", hints.rma_iov_limit, own.rma_iov_limit);
  const uint64_t known = FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                         FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_MORE | FI_FENCE;
  if (has_beyond(hints.op_flags, known))
    return excluded("tx_attr->op_flags", hints.op_flags, known);
  own.tclass = hints.tclass;
  return restrict_context(own, hints, "tx_attr");
}

int restrict_receive(fi_rx_attr& own, const fi_rx_attr& hints) noexcept {
  const uint64_t known = FI_COMPLETION | FI_MORE | (own.caps & FI_MULTI_RECV);
  if (has_beyond(hints.op_flags, known))
    return excluded("rx_attr->op_flags", hints.op_flags, known);
  return restrict_context(own, hints, "rx_attr");
}

}  // namespace

int restrict_to(fi_info& info, uint32_t version, const fi_info* hints) noexcept {
  fi_domain_attr& domain = *info.domain_attr;
  if (hints == nullptr) {
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) domain.mr_mode = FI_MR_BASIC;
    if ((info.caps & FI_RMA_EVENT) != 0) domain.mr_key_size = sizeof(uint64_t);
    return 0;
  }
  if (has_beyond(info.mode, hints->mode) && hints->domain_attr && hints->domain_attr->cq_data_size)
    return excluded("mode", hints->mode, info.mode);
  if (has_beyond(info.mode, hints->mode)) {  // FI_RX_CQ_DATA: without it there is no such data
    domain.cq_data_size = 0;
    info.mode &= hints->mode;
    info.rx_attr->mode &= hints->mode;
  }
  int code = restrict_caps(info, *hints);
  info.tx_attr->caps &= info.caps & kTransmitCaps;
  info.rx_attr->caps &= info.caps & kReceiveCaps;
  if (!code) code = restrict_names(info, *hints);
  if (!code) code = restrict_registration(info, version, *hints);
  if (!code && hints->domain_attr) code = restrict_domain(info, *hints->domain_attr);
  if (!code && hints->ep_attr) code = restrict_endpoint(info, *hints->ep_attr);
  if (!code && hints->tx_attr) code = restrict_transmit(*info.tx_attr, *hints->tx_attr);
  if (!code && hints->rx_attr) code = restrict_receive(*info.rx_attr, *hints->rx_attr);
  if (!code && hints->ep_attr && hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT)
    info.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  return code;
}

}  // namespace weft::fi
