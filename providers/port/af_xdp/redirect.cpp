// SPDX-License-Identifier: BSD-3-Clause
// See redirect.hpp.
#include "providers/port/af_xdp/redirect.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/log/log.hpp"
#include "providers/port/af_xdp/program.hpp"

namespace weft::port::af_xdp {
namespace {

constexpr const char* kProgram = "weft_redirect";
constexpr int kTries = 10;  // others come and go at the same time

Error failed(const std::string& what, int error) {
  if (error == EPERM || error == EACCES)
    return {Code::permission_denied,
            "af_xdp: " + what +
                " needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW: run as root; roce+udp needs no "
                "privilege"};
  if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ERANGE)
    return {Code::not_supported,
            "af_xdp: " + what + ": " + std::strerror(error) +
                "; a kernel of 5.9 or later with CONFIG_XDP_SOCKETS, and an "
                "interface with an MTU that XDP takes (3498 at most before 6.6)"};
  return {Code::io_error, "af_xdp: " + what + ": " + std::strerror(error)};
}

Error not_ours() {
  return {Code::address_in_use,
          "af_xdp: the interface has an XDP program that is not ours: see `ip link` and `bpftool "
          "net`"};
}

int link_in(Mode mode, int program, int interface) {
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.flags = mode == Mode::native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  return bpf_link_create(program, interface, BPF_XDP, &options);
}

template <class Info>
bool look_at(int object, Info& info) {
  uint32_t size = sizeof info;
  return object >= 0 && bpf_obj_get_info_by_fd(object, &info, &size) == 0;
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

}  // namespace

Redirect& Redirect::operator=(Redirect&& other) noexcept {
  std::swap(users_, other.users_);
  std::swap(sockets_, other.sockets_);
  std::swap(program_, other.program_);
  std::swap(link_, other.link_);
  std::swap(mode_, other.mode_);
  return *this;
}

Redirect::~Redirect() {
  for (int* const descriptor : {&link_, &program_, &sockets_, &users_}) close_if_open(*descriptor);
}

Result<Redirect> Redirect::attach(const RedirectOptions& options) {
  for (int tries = 0; tries < kTries; ++tries) {
    Redirect r;
    const Result<bool> joined = r.join(options.interface);
    if (!joined) return joined.error();
    if (!*joined) {
      r = Redirect();  // of a program that has just been detached
      const Result<bool> attached = r.attach_new(options);
      if (!attached) return attached.error();
      if (!*attached) continue;
    } else if (options.mode != Mode::automatic && options.mode != r.mode_) {
      return Error{
          Code::invalid_argument,
          std::string("af_xdp.mode: another device has attached the interface's program ") +
              (r.mode_ == Mode::native ? "natively" : "generically") +
              ", and all have the same: leave the key out"};
    }
    if (const Result<void> entered = r.add_socket(options); !entered) return entered.error();
    return r;
  }
  return not_ours();
}

Result<void> Redirect::probe() { return Redirect().load(false); }

// ---- the first device

Result<void> Redirect::load(bool chains) {
  users_ = bpf_map_create(BPF_MAP_TYPE_ARRAY, "weft_users", sizeof(uint32_t), sizeof(User), kQueues,
                          nullptr);
  sockets_ = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "weft_sockets", sizeof(uint32_t), sizeof(int),
                            kQueues, nullptr);
  if (users_ < 0 || sockets_ < 0) return failed("the maps of its XDP program", errno);
  const std::vector<bpf_insn> code = program_of(users_, sockets_);
  bpf_prog_load_opts options{};
  options.sz = sizeof options;
  options.prog_flags = chains ? BPF_F_XDP_HAS_FRAGS : 0;
  program_ = bpf_prog_load(BPF_PROG_TYPE_XDP, kProgram, "BSD", code.data(), code.size(), &options);
  if (program_ < 0) return failed("loading its XDP program", errno);
  return {};
}

// False: another process was first.
Result<bool> Redirect::attach_new(const RedirectOptions& options) {
  if (const Result<void> loaded = load(options.chains); !loaded) return loaded.error();
  mode_ = options.mode == Mode::generic ? Mode::generic : Mode::native;
  link_ = link_in(mode_, program_, options.interface);
  if (link_ < 0 && options.mode == Mode::automatic && errno != EBUSY && errno != EEXIST) {
    const int refused = errno;
    mode_ = Mode::generic;
    link_ = link_in(mode_, program_, options.interface);
    const int after = errno;
    base::log(base::Subsystem::port, LogLevel::info, [&] {
      return std::string("af_xdp: the interface's driver takes no XDP program (") +
             std::strerror(refused) + "): the kernel runs it behind the driver, more slowly";
    });
    errno = after;
  }
  if (link_ >= 0) return true;
  if (errno == EBUSY || errno == EEXIST) return false;
  return failed("attaching its XDP program", errno);
}

// ---- the others

// Finds the program that the interface has, its maps and its link.
Result<bool> Redirect::join(int interface) {
  bpf_xdp_query_opts there{};
  there.sz = sizeof there;
  if (bpf_xdp_query(interface, 0, &there) != 0 || there.attach_mode == XDP_ATTACHED_NONE)
    return false;
  program_ = bpf_prog_get_fd_by_id(there.prog_id);
  if (program_ < 0 && errno == ENOENT) return false;  // it has just been detached
  if (program_ < 0 && errno == EPERM)
    return Error{Code::permission_denied,
                 "af_xdp: the interface has an XDP program already, and joining another device's "
                 "needs CAP_SYS_ADMIN: run as root"};
  uint32_t maps[2] = {};
  bpf_prog_info info{};
  info.nr_map_ids = 2;
  info.map_ids = reinterpret_cast<uint64_t>(maps);
  if (!look_at(program_, info) || std::strcmp(info.name, kProgram) != 0 ||
      there.attach_mode == XDP_ATTACHED_MULTI || info.nr_map_ids != 2 || !find_maps(maps, 2))
    return not_ours();
  mode_ = there.attach_mode == XDP_ATTACHED_SKB ? Mode::generic : Mode::native;
  return find_link(there.prog_id);  // false: its last user has just exited
}

bool Redirect::find_maps(const uint32_t* ids, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    int map = bpf_map_get_fd_by_id(ids[i]);
    bpf_map_info info{};
    if (!look_at(map, info)) continue;
    if (info.type == BPF_MAP_TYPE_XSKMAP) std::swap(sockets_, map);
    if (info.type == BPF_MAP_TYPE_ARRAY && info.value_size == sizeof(User)) std::swap(users_, map);
    close_if_open(map);
  }
  return users_ >= 0 && sockets_ >= 0;
}

bool Redirect::find_link(uint32_t program) {
  for (uint32_t id = 0; bpf_link_get_next_id(id, &id) == 0;) {
    int link = bpf_link_get_fd_by_id(id);
    bpf_link_info info{};
    if (look_at(link, info) && info.type == BPF_LINK_TYPE_XDP && info.prog_id == program) {
      link_ = link;
      return true;
    }
    close_if_open(link);
  }
  return false;
}

// Overwrites the filter that an earlier device of the queue has left; without a socket it redirects
// nothing.
Result<void> Redirect::add_socket(const RedirectOptions& options) const {
  const User user = User::of(options.address, options.udp_port);
  if (bpf_map_update_elem(users_, &options.queue, &user, BPF_ANY) != 0 ||
      bpf_map_update_elem(sockets_, &options.queue, &options.socket, BPF_ANY) != 0)
    return failed("its place in the XDP program", errno);
  return {};
}

}  // namespace weft::port::af_xdp
