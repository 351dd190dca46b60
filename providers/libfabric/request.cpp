// SPDX-License-Identifier: BSD-3-Clause
// See request.hpp.
#include "providers/libfabric/request.hpp"

#include "lib/base/check.hpp"

namespace weft::libfabric {

namespace {

// Of an empty SEND nothing is delivered, and shm of 1.17 never completes one that asks for it.
uint64_t confirmation_of(uint32_t length, uint64_t confirmation) noexcept {
  return length == 0 ? FI_TRANSMIT_COMPLETE : confirmation;
}

int send(Request& r, fid_ep& endpoint, fi_addr_t peer, uint64_t confirmation) noexcept {
  fi_msg message{};
  message.msg_iov = r.memory.data();
  message.desc = r.descriptors.data();
  message.iov_count = r.sges;
  message.addr = peer;
  message.context = &r.context;
  const bool imm = r.opcode == Opcode::send_with_imm;
  message.data = immediate_of(r.imm, kPlain);
  return static_cast<int>(
      fi_sendmsg(&endpoint, &message,
                 confirmation_of(r.length, confirmation) | (imm ? FI_REMOTE_CQ_DATA : 0)));
}

// The empty SEND behind a WRITE with immediate data.
int notify(Request& r, fid_ep& endpoint, fi_addr_t peer, uint64_t confirmation) noexcept {
  fi_msg message{};
  message.msg_iov = r.memory.data();  // ofi_rxd looks at it, although it has no entries
  message.desc = r.descriptors.data();
  message.addr = peer;
  message.context = &r.context;
  message.data = immediate_of(r.imm, r.length);
  return static_cast<int>(
      fi_sendmsg(&endpoint, &message, confirmation_of(0, confirmation) | FI_REMOTE_CQ_DATA));
}

int write_or_read(Request& r, fid_ep& endpoint, fi_addr_t peer, uint64_t confirmation) noexcept {
  const fi_rma_iov remote{r.remote_address, r.length, r.rkey};
  fi_msg_rma message{};
  message.msg_iov = r.memory.data();
  message.desc = r.descriptors.data();
  message.iov_count = r.sges;
  message.addr = peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &r.context;
  if (r.opcode == Opcode::read) return static_cast<int>(fi_readmsg(&endpoint, &message, 0));
  return static_cast<int>(fi_writemsg(&endpoint, &message, confirmation));
}

int atomic(Request& r, fid_ep& endpoint, fi_addr_t peer) noexcept {
  const bool swaps = r.opcode == Opcode::compare_swap;
  fi_ioc operand{swaps ? &r.swap : &r.compare_add, 1};
  fi_ioc compare{&r.compare_add, 1};
  fi_ioc result{r.memory[0].iov_base, 1};
  const fi_rma_ioc remote{r.remote_address, 1, r.rkey};
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.iov_count = 1;
  message.addr = peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.op = swaps ? FI_CSWAP : FI_SUM;
  message.context = &r.context;
  if (swaps)
    return static_cast<int>(fi_compare_atomicmsg(&endpoint, &message, &compare, nullptr, 1, &result,
                                                 r.descriptors.data(), 1, 0));
  return static_cast<int>(
      fi_fetch_atomicmsg(&endpoint, &message, &result, r.descriptors.data(), 1, 0));
}

}  // namespace

Status status_of(int error) noexcept {
  switch (error) {
    case FI_ETRUNC:
    case FI_EMSGSIZE:
      return Status::local_length_error;
    case FI_ECANCELED:
      return Status::flushed;
    case FI_EACCES:
    case FI_EKEYREJECTED:
    case FI_EPERM:
    case FI_EREMOTEIO:
    case FI_EINVAL:
      return Status::remote_access_error;
    default:
      return Status::retry_exceeded;
  }
}

uint8_t operations_of(const Request& r) noexcept {
  switch (r.opcode) {
    case Opcode::write:
    case Opcode::read:
      return r.length == 0 ? 0 : 1;  // IBTA: nothing of an empty one is checked or moved
    case Opcode::write_with_imm:
      return r.length == 0 ? 1 : 2;
    default:
      return 1;
  }
}

int issue(Request& r, fid_ep& endpoint, fi_addr_t peer, uint64_t confirmation) noexcept {
  WEFT_DCHECK(r.issued < operations_of(r));
  switch (r.opcode) {
    case Opcode::send:
    case Opcode::send_with_imm:
      return send(r, endpoint, peer, confirmation);
    case Opcode::write_with_imm:
      if (r.issued + 1 == operations_of(r)) return notify(r, endpoint, peer, confirmation);
      [[fallthrough]];
    case Opcode::write:
    case Opcode::read:
      return write_or_read(r, endpoint, peer, confirmation);
    default:
      return atomic(r, endpoint, peer);
  }
}

}  // namespace weft::libfabric
