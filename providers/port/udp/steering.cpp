// SPDX-License-Identifier: BSD-3-Clause
// See steering.hpp.
#include "providers/port/udp/steering.hpp"

#include <linux/filter.h>

#include <vector>

#include "lib/base/check.hpp"

namespace weft::port::udp {
namespace {

using transport::kQpnTopByte;
using Mad = transport::MadOffsets;

constexpr uint32_t kMostServices = 256;  // of a program: the kernel bounds its length

}  // namespace

Slot owner_of(const std::byte* frame, uint32_t length, const GroupTable& table) noexcept {
  const transport::Addressee to = transport::addressee_of(frame, length);
  return to.service ? table.listener_of(*to.service) : to.slot;
}

bool attach_steering(int udp, const GroupTable& table) {
  std::vector<sock_filter> code;
  const auto add = [&](const sock_filter& step) { code.push_back(step); };
  const auto select = [&](uint32_t value, uint32_t socket) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, socket));
  };
  // Loads the slot; a frame that is too short ends the program with socket 0.
  add(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kQpnTopByte));
  const size_t to_slots = code.size() + 1;
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
  add(BPF_STMT(BPF_JMP | BPF_JA, 0));  // to the sockets by slot
  add(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, Mad::kAttribute));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, Mad::kReq, 6, 0));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, Mad::kSidrReq, 5, 0));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, Mad::kSidrRep, 2, 0));
  add(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, Mad::kRemoteId));
  add(BPF_STMT(BPF_JMP | BPF_JA, 1));
  add(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, Mad::kRequestId));
  const size_t also_to_slots = code.size();
  add(BPF_STMT(BPF_JMP | BPF_JA, 0));  // to the sockets by slot
  const uint32_t otherwise = table.socket_of(table.default_member()).value_or(0);
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, Mad::kService + 4));
  table.visit_listeners(kMostServices, [&](uint64_t service, Slot slot) {
    if (const auto socket = table.socket_of(slot)) select(static_cast<uint32_t>(service), *socket);
  });
  add(BPF_STMT(BPF_RET | BPF_K, otherwise));
  for (const size_t jump : {to_slots, also_to_slots}) {
    WEFT_DCHECK(code[jump].code == (BPF_JMP | BPF_JA) && code[jump].k == 0);
    code[jump].k = static_cast<uint32_t>(code.size() - jump - 1);
  }
  for (uint32_t socket = 0; socket < table.socket_count(); ++socket)
    select(table.slot_at(socket), socket);
  add(BPF_STMT(BPF_RET | BPF_K, otherwise));
  WEFT_DCHECK(code.size() <= BPF_MAXINSNS);
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return ::setsockopt(udp, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

}  // namespace weft::port::udp
