// SPDX-License-Identifier: BSD-3-Clause
// Completions of an RC queue pair as entries of a fid_cq.
#include <rdma/fi_errno.h>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/msg/endpoint.hpp"

namespace weft::fi {
namespace {

CqEntry entry_of(const Operation& operation, const Completion& completion) noexcept {
  CqEntry entry;
  entry.context = operation.context;
  entry.flags = operation.flags;
  entry.error = code_of(completion.status);
  entry.prov_error = static_cast<int>(completion.status);
  return entry;
}

void complete_receive(const Ep& ep, const Operation& operation,
                      const Completion& completion) noexcept {
  CqEntry entry = entry_of(operation, completion);
  bool reports = operation.reports;
  if (completion.status == Status::success) {
    entry.length = completion.byte_count;
    if (has(completion.flags, CompletionFlags::rdma_write)) {
      entry.flags = FI_RMA | FI_REMOTE_WRITE;
      reports = true;
    }
    if (has(completion.flags, CompletionFlags::with_imm)) {
      entry.flags |= FI_REMOTE_CQ_DATA;
      entry.data = completion.imm_or_key;
    }
  }
  ep.bound.receive.report(entry, reports);
}

}  // namespace

void Ep::complete(const Completion& completion) noexcept {
  const RequestId id = RequestId::of(completion.id);
  const bool received =
      completion.type == WorkType::recv || completion.type == WorkType::recv_with_imm;
  if (received && shared != nullptr && id.owner == shared->number)
    complete_receive(*this, shared->receives.finish(id.index), completion);
  else if (id.owner == number && received)
    complete_receive(*this, receives.finish(id.index), completion);
  else if (id.owner == number) {
    const Operation operation = sends.finish(id.index);
    bound.transmit.report(entry_of(operation, completion), operation.reports);
  }
}

}  // namespace weft::fi
