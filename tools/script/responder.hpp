// SPDX-License-Identifier: BSD-3-Clause
// One end of an RDMA connection that executes commands received over TCP: `weft_script respond`,
// and in tests weft_puppet and verbs_puppet, which is libibverbs without weft. Packet scripts and
// the interop tests give the same commands to any implementation.
//
// A line is `NAME key=value ...`, the answer `ok key=value ...` or `error TEXT`:
// clang-format off
//   open device= memory=
//       a device and registered memory of so many bytes: gid address rkey. libibverbs: NAME, or
//       NAME@ADDRESS to use another address than the first IPv4 one. Without device=: the one that
//       the responder was started with, the only one that `weft_script respond` opens
//   qp type= depth= access=
//       a new queue pair, rc, uc or ud, instead of the last one: qpn. Rights as weft::Access
//   attach group=
//       the queue pair, of ud, takes part in a multicast group (IPv4). To send there, connect to
//       the group and queue pair 16777215
//   window offset= length=
//       a window of type 2 on a part of the memory, bound to the queue pair, which is connected,
//       for READ and WRITE: rkey
//   connect gid= qpn= psn= peer_psn= mtu= timeout= retry= rnr_retry= max_rd=
//   fill offset= length= seed=
//       bytes that depend on their place and the seed
//   ramp offset= count= step=
//       64-bit words 0, step, 2 step ...
//   digest offset= length=
//   receive count= size= offset= id=
//       posts receives, each into its own slice of the memory; the ids count up from the first
//   run op= count= size= offset= address= rkey= depth= add=
//       message i is slice i of the memory here and there; atomics have one target and keep what
//       they fetch as word i; a compare_swap makes i to i + 1. Ends with the last completion:
//       status done
//   collect count= limit_ms=
//       waits for so many receives in all: status received bytes in_order
//   post op= id= offset= size= address= rkey= imm= add= compare= swap= invalidate= fence=
//       one request; send_with_invalidate revokes the key `invalidate` of the peer
//   next limit_ms=
//       the next completion within the time: kind (send, receive, none) status id bytes imm, and
//       `invalidated`, a key that the peer revoked with it, or 0
//   poke offset= hex=
//   peek offset= length=
//       bytes: hex
//   shell command=...
//       to the end of the line: output, newlines as spaces. Only with ServeOptions::shell
// clang-format on
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft::responder {

inline constexpr uint64_t kMaxMemory = 64u << 20;
inline constexpr uint16_t kPort = 18520;  // TCP, unless one is named

enum class Service : uint8_t { rc, uc, ud };

inline constexpr uint32_t kQkey = 0x11111111;   // of UD queue pairs, on both ends
inline constexpr uint32_t kNetworkHeader = 40;  // what UD puts before a received payload

enum class Operation : uint8_t {
  send,
  send_with_imm,
  write,
  write_with_imm,
  read,
  compare_swap,
  fetch_add,
  send_with_invalidate,
};

// The key=value pairs of a line.
class Words {
 public:
  explicit Words(std::string_view line);
  // `otherwise`, unless empty, is the value of a key that the line lacks.
  std::string text(const std::string& key, const std::string& otherwise = {}) const;
  uint64_t number(const std::string& key, std::optional<uint64_t> otherwise = {}) const;

 private:
  std::map<std::string, std::string> values_;
};

// What the peer needs to know about open memory.
struct Target {
  std::string gid;  // as inet_ntop writes it
  uint32_t rkey = 0;
};

struct Route {
  std::string gid;
  uint32_t qpn = 0;
  uint32_t psn = 0;       // of our first packet
  uint32_t peer_psn = 0;  // of the peer's
  uint32_t mtu = 1024;    // bytes
  uint8_t timeout = 14;
  uint8_t retry = 7;
  uint8_t rnr_retry = 7;
  uint8_t max_rd = 16;
};

struct Request {
  Operation operation = Operation::send;
  uint64_t id = 0;
  std::byte* data = nullptr;
  uint32_t length = 0;
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t invalidate = 0;
  bool fence = false;
};

struct Done {
  bool receive = false;
  std::string status;  // as weft::name spells it
  uint64_t id = 0;
  uint32_t bytes = 0;
  uint32_t imm = 0;
  uint32_t invalidated = 0;
};

// The verbs of one implementation. Whatever cannot be done throws std::runtime_error.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual Target open(const std::string& device, std::span<std::byte> memory) = 0;
  // Returns the queue pair's number. `access` is not for UD.
  virtual uint32_t make_qp(Service service, uint32_t depth, uint32_t access) = 0;
  virtual void connect(const Route& route) = 0;
  virtual void attach(const std::string& group) = 0;
  // Returns the key of the window when it is bound.
  virtual uint32_t bind_window(std::byte* data, uint32_t length) = 0;
  virtual void post(const Request& request) = 0;
  virtual void receive(uint64_t id, std::byte* data, uint32_t length) = 0;
  // The next completion, if there is one within the time.
  virtual std::optional<Done> next(int limit_ms) = 0;
};

struct ServeOptions {
  std::string listen = "0.0.0.0";  // the address of this host that clients connect to
  uint16_t port = 0;               // TCP
  std::string device;              // of `open` without device=; not empty: no other is opened
  bool shell = false;              // the client may run commands of the shell
  bool once = false;               // ends with its first client
};

// Executes the commands of one client after another. Anyone who reaches the port may use the
// device, within the memory of at most kMaxMemory bytes that `open` registers. Returns an exit
// code: 0 after the first client with `once`, otherwise 1 when the port cannot be used.
int serve(const ServeOptions& options, Endpoint& endpoint);

// Executes one command line and returns its answer without "ok ". Throws what the command throws.
class Commands {
 public:
  Commands(const ServeOptions& options, Endpoint& endpoint);
  ~Commands();
  std::string execute(const std::string& line);

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Endpoint on a device of weft.
std::unique_ptr<Endpoint> weft_endpoint();

}  // namespace weft::responder
