// SPDX-License-Identifier: BSD-3-Clause
// See redirect.hpp. The instruction set: Documentation/bpf/standardization/instruction-set.rst of
// the kernel; the layout of the headers: RFC 791, 8200, 768.
#include "providers/port/af_xdp/redirect.hpp"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace weft::port::af_xdp {
namespace {

constexpr uint32_t kQueues = 256;  // entries of the map from queues to sockets

// A program under construction. Jumps to "pass" and "redirect" are filled in at the end.
class Assembler {
 public:
  enum Target : int16_t { pass = -1, redirect = -2 };

  // register = *(width*)(base + offset); BPF_B, BPF_H, BPF_W
  void load(uint8_t width, uint8_t reg, uint8_t base, int16_t offset) {
    add(BPF_LDX | BPF_MEM | width, reg, base, offset, 0);
  }
  void move(uint8_t reg, uint8_t from) { add(BPF_ALU64 | BPF_MOV | BPF_X, reg, from, 0, 0); }
  void set(uint8_t reg, int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, 0, value); }
  void plus(uint8_t reg, int32_t value) { add(BPF_ALU64 | BPF_ADD | BPF_K, reg, 0, 0, value); }
  void keep(uint8_t reg, int32_t bits) { add(BPF_ALU64 | BPF_AND | BPF_K, reg, 0, 0, bits); }
  void if_above(uint8_t reg, uint8_t other, Target to) {
    add(BPF_JMP | BPF_JGT | BPF_X, reg, other, to, 0);
  }
  // 32 bits are compared.
  void if_equal(uint8_t reg, uint32_t value, Target to) { compare(BPF_JEQ, reg, value, to); }
  void if_not(uint8_t reg, uint32_t value, Target to) { compare(BPF_JNE, reg, value, to); }
  // Jumps over what is added until land().
  size_t skip_if_not(uint8_t reg, uint32_t value) {
    compare(BPF_JNE, reg, value, pass);
    return code_.size() - 1;
  }
  void land(size_t from) { code_[from].off = static_cast<int16_t>(code_.size() - from - 1); }
  void jump(Target to) { add(BPF_JMP | BPF_JA, 0, 0, to, 0); }

  // r1 = map, r2 = the queue in `queue`, r3 = what to do if it has no socket; then the two ends.
  std::vector<bpf_insn> finish(int map, uint8_t queue) {
    const size_t redirect_at = code_.size();
    add(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map);
    add(0, 0, 0, 0, 0);
    move(BPF_REG_2, queue);
    set(BPF_REG_3, XDP_PASS);
    add(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
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

constexpr uint8_t kFrame = BPF_REG_2, kEnd = BPF_REG_3, kAny = BPF_REG_4, kQueue = BPF_REG_5;
constexpr int16_t kIp = 14;  // behind the Ethernet header

uint32_t word_of(const Gid& gid, size_t at) {
  uint32_t word;
  std::memcpy(&word, &gid.bytes[at], sizeof word);
  return word;
}

void check_room(Assembler& a, int32_t bytes) {
  a.move(kAny, kFrame);
  a.plus(kAny, bytes);
  a.if_above(kAny, kEnd, Assembler::pass);
}

// IPv4 without options or fragments, UDP, our port; our address or a group.
void match_ipv4(Assembler& a, const Gid& address, uint16_t udp_port) {
  a.load(BPF_B, kAny, kFrame, kIp);
  a.if_not(kAny, 0x45, Assembler::pass);
  a.load(BPF_H, kAny, kFrame, kIp + 6);
  a.keep(kAny, htons(0x3FFF));
  a.if_not(kAny, 0, Assembler::pass);
  a.load(BPF_B, kAny, kFrame, kIp + 9);
  a.if_not(kAny, IPPROTO_UDP, Assembler::pass);
  a.load(BPF_H, kAny, kFrame, kIp + 20 + 2);
  a.if_not(kAny, htons(udp_port), Assembler::pass);
  a.load(BPF_W, kAny, kFrame, kIp + 16);
  a.if_equal(kAny, word_of(address, 12), Assembler::redirect);
  a.keep(kAny, static_cast<int32_t>(htonl(0xF0000000)));
  a.if_equal(kAny, htonl(0xE0000000), Assembler::redirect);
  a.jump(Assembler::pass);
}

// IPv6 without extension headers, UDP, our port; our address or a group.
void match_ipv6(Assembler& a, const Gid& address, uint16_t udp_port) {
  check_room(a, kIp + 40 + 8);
  a.load(BPF_B, kAny, kFrame, kIp + 6);
  a.if_not(kAny, IPPROTO_UDP, Assembler::pass);
  a.load(BPF_H, kAny, kFrame, kIp + 40 + 2);
  a.if_not(kAny, htons(udp_port), Assembler::pass);
  a.load(BPF_B, kAny, kFrame, kIp + 24);
  a.if_equal(kAny, 0xFF, Assembler::redirect);
  for (int16_t at = 0; at < 16; at = static_cast<int16_t>(at + 4)) {
    a.load(BPF_W, kAny, kFrame, static_cast<int16_t>(kIp + 24 + at));
    a.if_not(kAny, word_of(address, static_cast<size_t>(at)), Assembler::pass);
  }
  a.jump(Assembler::redirect);
}

std::vector<bpf_insn> program_of(int map, const Gid& address, uint16_t udp_port) {
  Assembler a;
  a.load(BPF_W, kFrame, BPF_REG_1, offsetof(xdp_md, data));
  a.load(BPF_W, kEnd, BPF_REG_1, offsetof(xdp_md, data_end));
  a.load(BPF_W, kQueue, BPF_REG_1, offsetof(xdp_md, rx_queue_index));
  check_room(a, kIp + 20 + 8);
  a.load(BPF_H, kAny, kFrame, 12);  // EtherType
  const size_t other = a.skip_if_not(kAny, htons(address.is_ipv4() ? 0x0800 : 0x86DD));
  address.is_ipv4() ? match_ipv4(a, address, udp_port) : match_ipv6(a, address, udp_port);
  a.land(other);
  a.jump(Assembler::pass);
  return a.finish(map, kQueue);
}

Error failed(const std::string& what, int error) {
  if (error == EPERM || error == EACCES)
    return {Code::permission_denied,
            "af_xdp: " + what +
                " needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW: run as root; roce+udp needs no "
                "privilege"};
  if (error == EBUSY || error == EEXIST)
    return {Code::address_in_use,
            "af_xdp: the interface has an XDP program already: another device's (one per "
            "interface), or see `ip link` and `bpftool net`"};
  if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ERANGE)
    return {Code::not_supported,
            "af_xdp: " + what + ": " + std::strerror(error) +
                "; a kernel of 5.9 or later with CONFIG_XDP_SOCKETS, and an "
                "interface with an MTU that XDP takes (3498 at most before 6.6)"};
  return {Code::io_error, "af_xdp: " + what + ": " + std::strerror(error)};
}

int link_in(Mode mode, int program, int interface) {
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.flags = mode == Mode::native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  return bpf_link_create(program, interface, BPF_XDP, &options);
}

}  // namespace

Redirect& Redirect::operator=(Redirect&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(program_, other.program_);
  std::swap(link_, other.link_);
  std::swap(mode_, other.mode_);
  return *this;
}

Redirect::~Redirect() {
  for (const int fd : {link_, program_, map_})
    if (fd >= 0) ::close(fd);
}

Result<void> Redirect::load(const Gid& address, uint16_t udp_port, bool chains) {
  map_ = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "weft_sockets", sizeof(uint32_t), sizeof(int), kQueues,
                        nullptr);
  if (map_ < 0) return failed("the map of its XDP program", errno);
  const std::vector<bpf_insn> code = program_of(map_, address, udp_port);
  bpf_prog_load_opts options{};
  options.sz = sizeof options;
  options.prog_flags = chains ? BPF_F_XDP_HAS_FRAGS : 0;
  program_ =
      bpf_prog_load(BPF_PROG_TYPE_XDP, "weft_redirect", "BSD", code.data(), code.size(), &options);
  if (program_ < 0) return failed("loading its XDP program", errno);
  return {};
}

Result<void> Redirect::probe(const Gid& address, uint16_t udp_port) {
  return Redirect().load(address, udp_port, false);
}

Result<Redirect> Redirect::attach(int interface, uint32_t queue, int socket, const Gid& address,
                                  uint16_t udp_port, Mode mode, bool chains) {
  Redirect r;
  if (const Result<void> loaded = r.load(address, udp_port, chains); !loaded) return loaded.error();
  if (bpf_map_update_elem(r.map_, &queue, &socket, BPF_ANY) != 0)
    return failed("the map of its XDP program", errno);
  r.mode_ = mode == Mode::generic ? Mode::generic : Mode::native;
  r.link_ = link_in(r.mode_, r.program_, interface);
  if (r.link_ < 0 && mode == Mode::automatic && errno != EBUSY && errno != EEXIST) {
    r.mode_ = Mode::generic;
    r.link_ = link_in(r.mode_, r.program_, interface);
  }
  if (r.link_ < 0) return failed("attaching its XDP program", errno);
  return r;
}

}  // namespace weft::port::af_xdp
