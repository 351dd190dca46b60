// SPDX-License-Identifier: BSD-3-Clause
// See program.hpp. The instruction set: Documentation/bpf/standardization/instruction-set.rst of
// the kernel; the layout of the headers: RFC 791, 8200, 768.
#include "providers/port/af_xdp/program.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>

namespace weft::port::af_xdp {
namespace {

constexpr uint16_t kIpv4 = 0x0800, kIpv6 = 0x86DD;

// A program under construction. Jumps to "pass" and "redirect" are filled in at the end.
class Assembler {
 public:
  enum Target : int16_t { pass = -1, redirect = -2 };

  // register = *(width*)(base + offset); BPF_B, BPF_H, BPF_W
  void load(uint8_t width, uint8_t reg, uint8_t base, int16_t offset) {
    add(BPF_LDX | BPF_MEM | width, reg, base, offset, 0);
  }
  void store(uint8_t width, uint8_t base, int16_t offset, uint8_t reg) {
    add(BPF_STX | BPF_MEM | width, base, reg, offset, 0);
  }
  void move(uint8_t reg, uint8_t from) { add(BPF_ALU64 | BPF_MOV | BPF_X, reg, from, 0, 0); }
  void set(uint8_t reg, int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, 0, value); }
  void plus(uint8_t reg, int32_t value) { add(BPF_ALU64 | BPF_ADD | BPF_K, reg, 0, 0, value); }
  void keep(uint8_t reg, int32_t bits) { add(BPF_ALU64 | BPF_AND | BPF_K, reg, 0, 0, bits); }
  void if_above(uint8_t reg, uint8_t other, Target to) {
    add(BPF_JMP | BPF_JGT | BPF_X, reg, other, to, 0);
  }
  void if_null(uint8_t reg, Target to) { add(BPF_JMP | BPF_JEQ | BPF_K, reg, 0, to, 0); }
  // 32 bits are compared.
  void if_equal(uint8_t reg, uint32_t value, Target to) { compare(BPF_JEQ, reg, value, to); }
  void if_not(uint8_t reg, uint32_t value, Target to) { compare(BPF_JNE, reg, value, to); }
  void if_same(uint8_t reg, uint8_t other, Target to) {
    add(BPF_JMP32 | BPF_JEQ | BPF_X, reg, other, to, 0);
  }
  void if_other(uint8_t reg, uint8_t other, Target to) {
    add(BPF_JMP32 | BPF_JNE | BPF_X, reg, other, to, 0);
  }
  // Jumps over what is added until land().
  size_t skip_if_not(uint8_t reg, uint32_t value) {
    compare(BPF_JNE, reg, value, pass);
    return code_.size() - 1;
  }
  void land(size_t from) { code_[from].off = static_cast<int16_t>(code_.size() - from - 1); }
  void jump(Target to) { add(BPF_JMP | BPF_JA, 0, 0, to, 0); }

  // Registers 0 to 5 are the call's.
  void load_map(uint8_t reg, int map) {
    add(BPF_LD | BPF_DW | BPF_IMM, reg, BPF_PSEUDO_MAP_FD, 0, map);
    add(0, 0, 0, 0, 0);
  }
  void call(int32_t function) { add(BPF_JMP | BPF_CALL, 0, 0, 0, function); }

  // r1 = map, r2 = the queue in `queue`, r3 = what to do if it has no socket; then the two ends.
  std::vector<bpf_insn> finish(int map, uint8_t queue) {
    const size_t redirect_at = code_.size();
    load_map(BPF_REG_1, map);
    move(BPF_REG_2, queue);
    set(BPF_REG_3, XDP_PASS);
    call(BPF_FUNC_redirect_map);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    const size_t pass_at = code_.size();
    set(BPF_REG_0, XDP_PASS);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    for (size_t i = 0; i < redirect_at; ++i) {
      if (code_[i].off == pass) code_[i].off = static_cast<int16_t>(pass_at - i - 1);
      if (code_[i].off == redirect) code_[i].off = static_cast<int16_t>(redirect_at - i - 1);
    }
    return code_;
  }

 private:
  void add(int code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
    bpf_insn one{};
    one.code = static_cast<uint8_t>(code);
    one.dst_reg = to & 15;
    one.src_reg = from & 15;
    one.off = offset;
    one.imm = value;
    code_.push_back(one);
  }
  void compare(int how, uint8_t reg, uint32_t value, Target to) {
    add(BPF_JMP32 | how | BPF_K, reg, 0, to, static_cast<int32_t>(value));
  }
  std::vector<bpf_insn> code_;
};

// These outlive a call.
constexpr uint8_t kFrame = BPF_REG_6, kEnd = BPF_REG_7, kQueue = BPF_REG_8, kUser = BPF_REG_9;
constexpr uint8_t kAny = BPF_REG_1, kWanted = BPF_REG_2;
constexpr int16_t kIp = 14;   // behind the Ethernet header
constexpr int16_t kKey = -4;  // of the first map, on the stack, whose offsets are no jump's

void check_room(Assembler& a, int32_t bytes) {
  a.move(kAny, kFrame);
  a.plus(kAny, bytes);
  a.if_above(kAny, kEnd, Assembler::pass);
}

// kUser = what the map has for the queue.
void find_user(Assembler& a, int users) {
  a.store(BPF_W, BPF_REG_10, kKey, kQueue);
  a.move(BPF_REG_2, BPF_REG_10);
  a.plus(BPF_REG_2, kKey);
  a.load_map(BPF_REG_1, users);
  a.call(BPF_FUNC_map_lookup_elem);
  a.if_null(BPF_REG_0, Assembler::pass);
  a.move(kUser, BPF_REG_0);
}

// Passes frames that differ from what the user has there.
void match(Assembler& a, uint8_t width, int at, size_t of_user) {
  a.load(width, kAny, kFrame, static_cast<int16_t>(at));
  a.load(width, kWanted, kUser, static_cast<int16_t>(of_user));
  a.if_other(kAny, kWanted, Assembler::pass);
}

// IPv4 without options or fragments, UDP, the user's port; its address or a group.
void match_ipv4(Assembler& a) {
  a.load(BPF_B, kAny, kFrame, kIp);
  a.if_not(kAny, 0x45, Assembler::pass);
  a.load(BPF_H, kAny, kFrame, kIp + 6);
  a.keep(kAny, htons(0x3FFF));
  a.if_not(kAny, 0, Assembler::pass);
  a.load(BPF_B, kAny, kFrame, kIp + 9);
  a.if_not(kAny, IPPROTO_UDP, Assembler::pass);
  match(a, BPF_H, kIp + 20 + 2, offsetof(User, udp_port));
  a.load(BPF_W, kAny, kFrame, kIp + 16);
  a.load(BPF_W, kWanted, kUser, offsetof(User, address) + 12);
  a.if_same(kAny, kWanted, Assembler::redirect);
  a.keep(kAny, static_cast<int32_t>(htonl(0xF0000000)));
  a.if_equal(kAny, htonl(0xE0000000), Assembler::redirect);
  a.jump(Assembler::pass);
}

// IPv6 without extension headers, UDP, the user's port; its address or a group.
void match_ipv6(Assembler& a) {
  check_room(a, kIp + 40 + 8);
  a.load(BPF_B, kAny, kFrame, kIp + 6);
  a.if_not(kAny, IPPROTO_UDP, Assembler::pass);
  match(a, BPF_H, kIp + 40 + 2, offsetof(User, udp_port));
  a.load(BPF_B, kAny, kFrame, kIp + 24);
  a.if_equal(kAny, 0xFF, Assembler::redirect);
  for (int at = 0; at < 16; at += 4)
    match(a, BPF_W, kIp + 24 + at, offsetof(User, address) + static_cast<size_t>(at));
  a.jump(Assembler::redirect);
}

}  // namespace

User User::of(const Gid& address, uint16_t udp_port) {
  User user;
  user.ether_type = address.is_ipv4() ? kIpv4 : kIpv6;
  user.udp_port = udp_port;
  user.address = address;
  return user;
}

std::vector<bpf_insn> program_of(int users, int sockets) {
  Assembler a;
  a.load(BPF_W, kFrame, BPF_REG_1, offsetof(xdp_md, data));
  a.load(BPF_W, kEnd, BPF_REG_1, offsetof(xdp_md, data_end));
  a.load(BPF_W, kQueue, BPF_REG_1, offsetof(xdp_md, rx_queue_index));
  check_room(a, kIp + 20 + 8);
  find_user(a, users);
  match(a, BPF_H, 12, offsetof(User, ether_type));
  const size_t other = a.skip_if_not(kAny, htons(kIpv4));
  match_ipv4(a);
  a.land(other);
  a.if_not(kAny, htons(kIpv6), Assembler::pass);
  match_ipv6(a);
  return a.finish(sockets, kQueue);
}

}  // namespace weft::port::af_xdp
