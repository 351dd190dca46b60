// SPDX-License-Identifier: BSD-3-Clause
// See srq.hpp.
#include "providers/ibverbs/queue/srq.hpp"

#include <algorithm>
#include <cerrno>

#include "providers/ibverbs/queue/cq.hpp"
#include "providers/ibverbs/queue/post.hpp"

namespace weft::ibverbs {

Result<std::shared_ptr<verbs::Srq>> Srq::create(std::shared_ptr<Domain> domain,
                                                const SharedReceiveQueueOptions& options) {
  const DeviceAttributes& limits = domain->context().attributes();
  if (options.max_recv_wr == 0 || options.max_recv_wr > limits.max_qp_wr ||
      options.max_recv_sge > limits.max_sge)
    return Error{Code::invalid_argument, "SharedReceiveQueueOptions::max_recv_wr must be 1.." +
                                             std::to_string(limits.max_qp_wr) +
                                             " and max_recv_sge at most " +
                                             std::to_string(limits.max_sge)};
  const ibv_srq_attr sizes{options.max_recv_wr, std::max(1u, options.max_recv_sge), 0};
  const Context& context = domain->context();
  const Library& library = context.library();
  Owned<ibv_srq> srq = own<ibv_srq>(nullptr, library.destroy_srq);
  if (options.xrc_domain || options.cq.impl() != nullptr) {
    ibv_srq_init_attr_ex wanted{};
    wanted.attr = sizes;
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                       IBV_SRQ_INIT_ATTR_CQ;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = domain->raw();
    wanted.xrcd = Xrc::raw_of(options.xrc_domain, context);
    wanted.cq = Cq::raw_of(options.cq, context);
    if (wanted.xrcd == nullptr || wanted.cq == nullptr)
      return Error{Code::invalid_argument,
                   "a shared receive queue of XRC needs SharedReceiveQueueOptions::xrc_domain and "
                   "cq of the same open device"};
    srq.reset(create_xrc_srq(context.raw(), wanted));
  } else {
    ibv_srq_init_attr wanted{nullptr, sizes};
    srq.reset(library.create_srq(domain->raw(), &wanted));
  }
  if (srq == nullptr) return error_of(errno, "no shared receive queue");
  return std::shared_ptr<verbs::Srq>(new Srq(std::move(domain), options, std::move(srq)));
}

PostStatus Srq::post_recv(std::span<const RecvRequest> requests) noexcept {
  const Context& context = domain_->context();
  if (context.forked()) return {Code::permission_denied, 0, kForked};
  const transport::RequestLimits limits{options_.max_recv_sge, 0, context.attributes().max_message};
  const bool iwarp = context.attributes().only_by_cm;
  return post_receives(requests, limits, iwarp, [this](ibv_recv_wr* first, ibv_recv_wr** bad) {
    return ibv_post_srq_recv(raw(), first, bad);
  });
}

Result<void> Srq::arm_limit(uint32_t limit) {
  if (domain_->context().forked()) return Error{Code::permission_denied, kForked};
  if (limit > max_recv_wr_)
    return Error{Code::invalid_argument, "arm_limit takes 0.." + std::to_string(max_recv_wr_) +
                                             ", SharedReceiveQueueOptions::max_recv_wr"};
  ibv_srq_attr change{};
  change.srq_limit = limit;
  const int error = domain_->context().library().modify_srq(raw(), &change, IBV_SRQ_LIMIT);
  if (error != 0) return error_of(error, "the device did not arm the limit");
  limit_ = limit;
  return {};
}

Result<SharedReceiveQueueAttributes> Srq::query() const {
  const Context& context = domain_->context();
  if (context.forked()) return Error{Code::permission_denied, kForked};
  if (context.library().query_srq == nullptr)
    return Error{Code::not_supported, "this libibverbs has no ibv_query_srq"};
  ibv_srq_attr said{};
  const int error = context.library().query_srq(raw(), &said);
  if (error == EOPNOTSUPP)  // siw
    return SharedReceiveQueueAttributes{max_recv_wr_, std::max(1u, options_.max_recv_sge), limit_};
  if (error != 0)
    return error_of(error, "the device did not answer what a shared receive queue has");
  return SharedReceiveQueueAttributes{said.max_wr, said.max_sge, said.srq_limit};
}

Result<void> Srq::resize(uint32_t max_recv_wr) {
  const Context& context = domain_->context();
  if (context.forked()) return Error{Code::permission_denied, kForked};
  const DeviceAttributes& device = context.attributes();
  if (!device.resizes_srq)
    return Error{Code::not_supported, "device " + device.port +
                                          " does not resize shared receive queues "
                                          "(DeviceAttributes::resizes_srq)"};
  if (max_recv_wr == 0 || max_recv_wr > device.max_srq_wr)
    return Error{Code::invalid_argument, "max_recv_wr of a shared receive queue must be 1.." +
                                             std::to_string(device.max_srq_wr)};
  ibv_srq_attr change{};
  change.max_wr = max_recv_wr;
  if (const int error = context.library().modify_srq(raw(), &change, IBV_SRQ_MAX_WR); error != 0)
    return error_of(error, "the device did not resize the shared receive queue");
  max_recv_wr_ = max_recv_wr;
  return {};
}

}  // namespace weft::ibverbs
