// SPDX-License-Identifier: BSD-3-Clause
// What endpoints of type FI_EP_MSG have: see common/info.hpp. Orders are those of RC, which
// executes requests as they were posted; a READ may be overtaken by what follows it.
#include <algorithm>

#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/msg/limits.hpp"

namespace weft::fi {

void describe_endpoint(fi_info& info, const OpenDevice& device) noexcept {
  const DeviceAttributes& attributes = device.device.attributes();
  constexpr uint64_t kTransmit = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
  constexpr uint64_t kReceive = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
  constexpr uint64_t kOrders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_WAS |
                               FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RAS | FI_ORDER_RMA_RAR |
                               FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
  info.caps = kTransmit | kReceive | FI_LOCAL_COMM | FI_REMOTE_COMM;
  info.mode = FI_RX_CQ_DATA;  // a WRITE_WITH_IMM takes a receive

  fi_tx_attr& tx = *info.tx_attr;
  tx.caps = kTransmit;
  tx.msg_order = kOrders;
  tx.comp_order = FI_ORDER_STRICT;
  tx.inject_size = std::min<size_t>(kInline, attributes.max_inline);
  tx.size = std::min<size_t>(kQueueSize, attributes.max_qp_wr);
  tx.iov_limit = std::min<size_t>(kIovLimit, attributes.max_sge);
  tx.rma_iov_limit = 1;

  fi_rx_attr& rx = *info.rx_attr;
  rx.caps = kReceive;
  rx.mode = FI_RX_CQ_DATA;
  rx.msg_order = kOrders;
  rx.comp_order = FI_ORDER_STRICT;
  rx.size = std::min<size_t>(kQueueSize, attributes.max_qp_wr);
  rx.iov_limit = tx.iov_limit;

  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_MSG;
  ep.protocol = FI_PROTO_RDMA_CM_IB_RC;
  ep.max_order_raw_size = ep.max_msg_size;
  ep.max_order_waw_size = ep.max_msg_size;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;

  fi_domain_attr& domain = *info.domain_attr;
  domain.cq_data_size = sizeof(uint32_t);
  domain.tx_ctx_cnt = domain.rx_ctx_cnt = domain.ep_cnt;
  domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1;
  domain.max_ep_srx_ctx = attributes.max_srq;
}

}  // namespace weft::fi
