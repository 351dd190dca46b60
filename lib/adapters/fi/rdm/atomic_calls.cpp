// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_atomic of endpoints of type FI_EP_RDM, and fi_query_atomic.
#include <rdma/fi_errno.h>

#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/atomic_execute.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"
#include "lib/adapters/fi/rdm/own_wire.hpp"

namespace weft::fi {
namespace {

// Vectors of elements.
struct Values {
  const fi_ioc* entries = nullptr;
  size_t count = 0;
  size_t elements() const noexcept {
    size_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += entries[i].count;
    return sum;
  }
};

struct Target {
  fi_addr_t peer;
  uint64_t address, key;
  fi_datatype type;
  fi_op op;
};

void append(std::vector<std::byte>& bytes, const Values& values, size_t size) {
  for (size_t i = 0; i < values.count; ++i) {
    const auto* from = static_cast<const std::byte*>(values.entries[i].addr);
    bytes.insert(bytes.end(), from, from + values.entries[i].count * size);
  }
}

// `results` are elements for fetch and compare.
ssize_t post(fid_ep* fid, AtomicForm form, const Target& target, const Values& operands,
             const Values& compare, const Values& results, void* context, uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    Rdm& ep = rdm_of(fid);
    const size_t size = element_size(target.type);
    if (!is_atomic(form, target.type, target.op)) return -FI_EOPNOTSUPP;
    const bool reads = target.op == FI_ATOMIC_READ;
    const size_t count = reads ? results.elements() : operands.elements();
    if (count * size > kAtomicBytes) return -FI_EMSGSIZE;
    if (count == 0 || results.count > kIovLimit ||
        (form != AtomicForm::write && results.elements() != count) ||
        (form == AtomicForm::compare && compare.elements() != count))
      return -FI_EINVAL;
    AtomicRequest request{};
    request.kind = static_cast<uint8_t>(OwnKind::atomic);
    request.form = static_cast<uint8_t>(form);
    request.op = static_cast<uint8_t>(target.op);
    request.type = static_cast<uint8_t>(target.type);
    request.address = target.address;
    request.key = target.key;
    request.count = static_cast<uint32_t>(count);
    std::vector<std::byte> bytes(sizeof request);
    std::memcpy(bytes.data(), &request, sizeof request);
    if (!reads) append(bytes, operands, size);
    if (form == AtomicForm::compare) append(bytes, compare, size);
    std::array<iovec, kIovLimit> into{};
    for (size_t i = 0; i < results.count; ++i)
      into[i] = {results.entries[i].addr, results.entries[i].count * size};
    const uint64_t completes_as = FI_ATOMIC | (form == AtomicForm::write ? FI_WRITE : FI_READ);
    return ep.post_atomic(target.peer, bytes, into.data(), results.count, context, flags,
                          completes_as);
  });
}

uint64_t defaults(fid_ep* fid) noexcept { return rdm_of(fid).bound.transmit.default_flags(); }

ssize_t writev(fid_ep* fid, const fi_ioc* iov, void**, size_t count, fi_addr_t to, uint64_t address,
               uint64_t key, fi_datatype type, fi_op op, void* context) noexcept {
  return post(fid, AtomicForm::write, {to, address, key, type, op}, {iov, count}, {}, {}, context,
              defaults(fid));
}

ssize_t write(fid_ep* fid, const void* buffer, size_t count, void*, fi_addr_t to, uint64_t address,
              uint64_t key, fi_datatype type, fi_op op, void* context) noexcept {
  const fi_ioc iov{const_cast<void*>(buffer), count};
  return writev(fid, &iov, nullptr, 1, to, address, key, type, op, context);
}

// What all messages name: one piece of remote memory, as long as the operands.
bool is_valid(const fi_msg_atomic* msg) noexcept { return msg->rma_iov_count == 1; }

Target target_of(const fi_msg_atomic* msg) noexcept {
  return {msg->addr, msg->rma_iov->addr, msg->rma_iov->key, msg->datatype, msg->op};
}

ssize_t writemsg(fid_ep* fid, const fi_msg_atomic* msg, uint64_t flags) noexcept {
  if (!is_valid(msg)) return -FI_EINVAL;
  return post(fid, AtomicForm::write, target_of(msg), {msg->msg_iov, msg->iov_count}, {}, {},
              msg->context, rdm_of(fid).bound.transmit.call_flags(flags));
}

ssize_t inject(fid_ep* fid, const void* buffer, size_t count, fi_addr_t to, uint64_t address,
               uint64_t key, fi_datatype type, fi_op op) noexcept {
  const fi_ioc iov{const_cast<void*>(buffer), count};
  return post(fid, AtomicForm::write, {to, address, key, type, op}, {&iov, 1}, {}, {}, nullptr, 0);
}

ssize_t readwritev(fid_ep* fid, const fi_ioc* iov, void**, size_t count, fi_ioc* results, void**,
                   size_t result_count, fi_addr_t to, uint64_t address, uint64_t key,
                   fi_datatype type, fi_op op, void* context) noexcept {
  return post(fid, AtomicForm::fetch, {to, address, key, type, op}, {iov, count}, {},
              {results, result_count}, context, defaults(fid));
}

ssize_t readwrite(fid_ep* fid, const void* buffer, size_t count, void*, void* result, void*,
                  fi_addr_t to, uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                  void* context) noexcept {
  const fi_ioc iov{const_cast<void*>(buffer), count};
  fi_ioc into{result, count};
  return readwritev(fid, &iov, nullptr, 1, &into, nullptr, 1, to, address, key, type, op, context);
}

ssize_t readwritemsg(fid_ep* fid, const fi_msg_atomic* msg, fi_ioc* results, void**,
                     size_t result_count, uint64_t flags) noexcept {
  if (!is_valid(msg)) return -FI_EINVAL;
  return post(fid, AtomicForm::fetch, target_of(msg), {msg->msg_iov, msg->iov_count}, {},
              {results, result_count}, msg->context, rdm_of(fid).bound.transmit.call_flags(flags));
}

ssize_t compwritev(fid_ep* fid, const fi_ioc* iov, void**, size_t count, const fi_ioc* compare,
                   void**, size_t compare_count, fi_ioc* results, void**, size_t result_count,
                   fi_addr_t to, uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                   void* context) noexcept {
  return post(fid, AtomicForm::compare, {to, address, key, type, op}, {iov, count},
              {compare, compare_count}, {results, result_count}, context, defaults(fid));
}

ssize_t compwrite(fid_ep* fid, const void* buffer, size_t count, void*, const void* compare, void*,
                  void* result, void*, fi_addr_t to, uint64_t address, uint64_t key,
                  fi_datatype type, fi_op op, void* context) noexcept {
  const fi_ioc iov{const_cast<void*>(buffer), count}, with{const_cast<void*>(compare), count};
  fi_ioc into{result, count};
  return compwritev(fid, &iov, nullptr, 1, &with, nullptr, 1, &into, nullptr, 1, to, address, key,
                    type, op, context);
}

ssize_t compwritemsg(fid_ep* fid, const fi_msg_atomic* msg, const fi_ioc* compare, void**,
                     size_t compare_count, fi_ioc* results, void**, size_t result_count,
                     uint64_t flags) noexcept {
  if (!is_valid(msg)) return -FI_EINVAL;
  return post(fid, AtomicForm::compare, target_of(msg), {msg->msg_iov, msg->iov_count},
              {compare, compare_count}, {results, result_count}, msg->context,
              rdm_of(fid).bound.transmit.call_flags(flags));
}

template <AtomicForm kForm>
int valid(fid_ep*, fi_datatype type, fi_op op, size_t* count) noexcept {
  if (!is_atomic(kForm, type, op)) return -FI_EOPNOTSUPP;
  *count = kAtomicBytes / element_size(type);
  return 0;
}

fi_ops_atomic kOps = {.size = sizeof(fi_ops_atomic),
                      .write = write,
                      .writev = writev,
                      .writemsg = writemsg,
                      .inject = inject,
                      .readwrite = readwrite,
                      .readwritev = readwritev,
                      .readwritemsg = readwritemsg,
                      .compwrite = compwrite,
                      .compwritev = compwritev,
                      .compwritemsg = compwritemsg,
                      .writevalid = valid<AtomicForm::write>,
                      .readwritevalid = valid<AtomicForm::fetch>,
                      .compwritevalid = valid<AtomicForm::compare>};

}  // namespace

fi_ops_atomic& atomic_ops() noexcept { return kOps; }

int query_atomic(fid_domain*, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 uint64_t flags) noexcept {
  const AtomicForm form = flags & FI_COMPARE_ATOMIC ? AtomicForm::compare
                          : flags & FI_FETCH_ATOMIC ? AtomicForm::fetch
                                                    : AtomicForm::write;
  if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) != 0) return -FI_EBADFLAGS;
  if (!is_atomic(form, type, op)) return -FI_EOPNOTSUPP;
  attr->size = element_size(type);
  attr->count = kAtomicBytes / attr->size;
  return 0;
}

}  // namespace weft::fi
