// SPDX-License-Identifier: BSD-3-Clause
// What endpoints of type FI_EP_RDM have: see common/info.hpp. Messages to a peer are matched in the
// order in which they were sent; SRD keeps no order between READs, WRITEs and messages.
#include <algorithm>

#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/rdm/limits.hpp"

namespace weft::fi {

void describe_endpoint(fi_info& info, const OpenDevice& device) noexcept {
  const DeviceAttributes& attributes = device.device.attributes();
  constexpr uint64_t kOperations = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
  constexpr uint64_t kTransmit = kOperations | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
  constexpr uint64_t kReceive = kOperations | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE |
                                FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT;
  info.caps = kTransmit | kReceive | FI_LOCAL_COMM | FI_REMOTE_COMM;

  fi_tx_attr& tx = *info.tx_attr;
  tx.caps = kTransmit;
  tx.msg_order = FI_ORDER_SAS;
  tx.inject_size = kInject;
  tx.size = kTransmitSize;
  tx.iov_limit = kIovLimit;
  tx.rma_iov_limit = 1;

  fi_rx_attr& rx = *info.rx_attr;
  rx.caps = kReceive;
  rx.msg_order = FI_ORDER_SAS;
  rx.total_buffered_recv = size_t{kCredits} * kEagerBytes;
  rx.size = kReceiveSize;
  rx.iov_limit = kIovLimit;

  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_RDM;
  ep.protocol = FI_PROTO_UNSPEC;
  ep.max_msg_size = attributes.max_message;
  ep.mem_tag_format = UINT64_MAX;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;

  fi_domain_attr& domain = *info.domain_attr;
  domain.av_type = FI_AV_UNSPEC;  // both: numbers are those of a table
  domain.cq_data_size = sizeof(uint64_t);
  domain.tx_ctx_cnt = domain.rx_ctx_cnt = domain.ep_cnt;
  domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1;
}

}  // namespace weft::fi
