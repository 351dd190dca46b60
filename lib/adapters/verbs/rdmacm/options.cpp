// SPDX-License-Identifier: BSD-3-Clause
// Options of ids, and the functions of rdma_cma.h that no device of weft can serve.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/objects.hpp"

namespace weft::rdmacm {

namespace {

constexpr uint8_t kMostAckTimeout = 31;

template <class Value>
std::optional<Value> value_of(const void* data, size_t length) {
  if (data == nullptr || length != sizeof(Value)) return {};
  Value value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

int set_id_option(Id& id, int name, const void* data, size_t length) {
  const std::optional<uint8_t> byte = value_of<uint8_t>(data, length);
  const std::optional<int> number = value_of<int>(data, length);
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (!byte) break;
      id.tos = *byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!number) break;
      id.reuses_address = *number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:  // an id is of the family of its address in any case
      if (!number) break;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!byte || *byte > kMostAckTimeout) break;
      id.ack_timeout = *byte;
      return 0;
    default:
      return refuse(ENOSYS, "rdma_set_option",
                    ("RDMA_OPTION_ID has no option " + std::to_string(name)).c_str());
  }
  return refuse(EINVAL, "rdma_set_option",
                ("option " + std::to_string(name) + " of RDMA_OPTION_ID does not take " +
                 (byte ? "the value " + std::to_string(*byte) + ", of " : "") +
                 std::to_string(length) + " bytes")
                    .c_str());
}

constexpr const char* kNoEce = "weft's devices have no enhanced connection establishment";

}  // namespace

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_set_option(rdma_cm_id* id, int level, int optname, void* optval, size_t optlen) {
  if (level == RDMA_OPTION_ID)
    return guarded("rdma_set_option",
                   [&] { return set_id_option(of(id), optname, optval, optlen); });
  if (level == RDMA_OPTION_IB)
    return refuse(EOPNOTSUPP, "rdma_set_option",
                  "paths of InfiniBand: over Ethernet the kernel's routing table applies");
  return refuse(ENOSYS, "rdma_set_option", "no such level");
}

int rdma_set_local_ece(rdma_cm_id*, ibv_ece*) {
  return refuse(EOPNOTSUPP, "rdma_set_local_ece", kNoEce);
}

int rdma_get_remote_ece(rdma_cm_id*, ibv_ece*) {
  return refuse(EOPNOTSUPP, "rdma_get_remote_ece", kNoEce);
}

int rdma_reject_ece(rdma_cm_id*, const void*, uint8_t) {
  return refuse(EOPNOTSUPP, "rdma_reject_ece", kNoEce);
}

// Of rdma-core 60 and later, which the installed header may not declare.
extern "C" {

int rdma_query_addrinfo(rdma_cm_id*, rdma_addrinfo**) {
  return refuse(EOPNOTSUPP, "rdma_query_addrinfo", "names are resolved by rdma_getaddrinfo");
}

int rdma_resolve_addrinfo(rdma_cm_id*, const char*, const char*, const rdma_addrinfo*) {
  return refuse(EOPNOTSUPP, "rdma_resolve_addrinfo", "names are resolved by rdma_getaddrinfo");
}

int rdma_write_cm_event(rdma_cm_id*, rdma_cm_event_type, int, uint64_t) {
  return refuse(EOPNOTSUPP, "rdma_write_cm_event", "programs cannot write events");
}

int repoll_create() { return refuse(EOPNOTSUPP, "repoll_create", "there is rpoll"); }

int repoll_ctl(int, int, int, void*) { return refuse(EOPNOTSUPP, "repoll_ctl", "there is rpoll"); }

int repoll_wait(int, void*, int, int) {
  return refuse(EOPNOTSUPP, "repoll_wait", "there is rpoll");
}
}
