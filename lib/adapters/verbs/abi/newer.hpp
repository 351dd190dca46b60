// SPDX-License-Identifier: BSD-3-Clause
// Structures of rdma-core 59 to 65 that our headers do not have. tests/adapters/verbs_layout.txt
// has their offsets.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace weft::drop_in {

// ibv_mr_init_attr; its comp_mask says which members are set.
struct MrInitAttr {
  size_t length;
  int access;
  uint64_t comp_mask;
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  void* dmah;
  void* buf;
};
inline constexpr uint64_t kMrIova = 1, kMrAddr = 2, kMrFd = 4, kMrFdOffset = 8, kMrDmah = 16,
                          kMrBuf = 32;

}  // namespace weft::drop_in

// The names are given to the linker alone: newer headers declare them with types of their own.
extern "C" {
ibv_mr* weft_reg_mr_ex(ibv_pd* pd, weft::drop_in::MrInitAttr* attr) __asm__("ibv_reg_mr_ex");
int weft_query_port_speed(ibv_context* context, uint32_t port,
                          uint64_t* speed) __asm__("ibv_query_port_speed");
}
