// SPDX-License-Identifier: BSD-3-Clause
// Memory, its registration, and reductions of the program's own.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "lib/adapters/ccl/reduction.hpp"
#include "lib/adapters/ccl/result.hpp"

using weft::Result;
using weft::ccl::call;
using weft::ccl::wrong;

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return call([&]() -> Result<void> {
    if (ptr == nullptr) return wrong("ptr is NULL");
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (size > SIZE_MAX - page) throw std::bad_alloc();
    const size_t pages = size == 0 ? page : (size + page - 1) / page * page;
    void* const memory = std::aligned_alloc(page, pages);
    if (memory == nullptr) throw std::bad_alloc();
    *ptr = memory;
    return {};
  });
}

ncclResult_t ncclMemFree(void* ptr) {
  std::free(ptr);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return call([&]() -> Result<void> {
    if (comm == nullptr || buff == nullptr || handle == nullptr)
      return wrong("comm, buff or handle is NULL");
    const Result<void*> registered = comm->it->register_memory(buff, size);
    if (!registered) return registered.error();
    *handle = *registered;
    return {};
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return call([&]() -> Result<void> {
    if (comm == nullptr) return wrong("comm is NULL");
    return comm->it->deregister(handle);
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return call([&]() -> Result<void> {
    if (op == nullptr || scalar == nullptr || comm == nullptr)
      return wrong("op, scalar or comm is NULL");
    const Result<weft::DataType> type = weft::ccl::type_of(datatype);
    if (!type) return type.error();
    weft::ccl::Factor factor{.type = *type};
    if (residence == ncclScalarHostImmediate)
      std::memcpy(&factor.value, scalar, weft::size_of(*type));
    else if (residence == ncclScalarDevice)
      factor.memory = scalar;
    else
      return wrong("residence is " + std::to_string(residence));
    *op = static_cast<ncclRedOp_t>(comm->it->add_factor(factor));
    return {};
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return call([&]() -> Result<void> {
    if (comm == nullptr) return wrong("comm is NULL");
    if (comm->it->remove_factor(op)) return {};
    return wrong("the communicator has no reduction " + std::to_string(op));
  });
}
