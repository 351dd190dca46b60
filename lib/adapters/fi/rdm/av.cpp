// SPDX-License-Identifier: BSD-3-Clause
// See av.hpp.
#include "lib/adapters/fi/rdm/av.hpp"

#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "lib/adapters/fi/common/calls.hpp"

namespace weft::fi {
namespace {

Av& of(fid_av* av) noexcept { return *static_cast<Av*>(av); }
Av& of(fid* av) noexcept { return of(reinterpret_cast<fid_av*>(av)); }

uint64_t end_of(const Name& name) noexcept { return uint64_t{name.queue.value} << 16 | name.port; }

uint32_t format_of_device(const Av& av) noexcept {
  return format_of(av.domain.device->device.attributes().gid);
}

// Reports `count` inserted names: returns it, or tells the event queue.
int inserted(Av& av, size_t count, void* context) noexcept {
  if (!av.reports) return static_cast<int>(count);
  if (av.eq == nullptr) return -FI_ENOEQ;
  return guarded([&]() -> int {
    const fi_eq_entry entry{.fid = &av.fid, .context = context, .data = count};
    const char* bytes = reinterpret_cast<const char*>(&entry);
    av.eq->push({.event = FI_AV_COMPLETE,
                 .bytes = {bytes, bytes + sizeof entry},
                 .error = 0,
                 .info = nullptr});
    return 0;
  });
}

void refuse(Av& av, size_t index, uint64_t flags, void* context, fi_addr_t* out) noexcept {
  if (out != nullptr) out[index] = FI_ADDR_NOTAVAIL;
  if (flags & FI_SYNC_ERR) static_cast<int*>(context)[index] = FI_EINVAL;
  if (av.reports && av.eq != nullptr) av.eq->push_av_error(&av.fid, context, FI_EINVAL, index);
}

int insert(fid_av* fid, const void* addresses, size_t count, fi_addr_t* out, uint64_t flags,
           void* context) noexcept {
  return guarded([&]() -> int {
    Av& av = of(fid);
    if (flags & ~(FI_MORE | FI_SYNC_ERR)) return -FI_EBADFLAGS;
    if (av.reports && av.eq == nullptr) return -FI_ENOEQ;
    const uint32_t format = format_of_device(av);
    auto* const errors = flags & FI_SYNC_ERR ? static_cast<int*>(context) : nullptr;
    size_t good = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto name = name_at(static_cast<const char*>(addresses) + i * length_of(format));
      if (!name || format_of(name->gid) != format || (name->port == 0 && name->queue.value == 0)) {
        refuse(av, i, flags, context, out);
        continue;
      }
      if (errors != nullptr) errors[i] = 0;
      const fi_addr_t number = av.insert(*name);
      if (out != nullptr) out[i] = number;
      ++good;
    }
    return inserted(av, good, context);
  });
}

int insertsvc(fid_av* fid, const char* node, const char* service, fi_addr_t* out, uint64_t flags,
              void* context) noexcept {
  return guarded([&]() -> int {
    Av& av = of(fid);
    const bool v4 = format_of_device(av) == FI_SOCKADDR_IN;
    auto name = resolve(node, service, v4 ? AF_INET : AF_UNSPEC, false);
    if (!name) return failed(FI_LOG_AV, "fi_av_insertsvc", name.error());
    if (!v4 && name->gid.is_ipv4()) name->gid = av.domain.device->device.attributes().gid;
    char bytes[sizeof(sockaddr_in6)];
    put_name(*name, bytes);
    return insert(fid, bytes, 1, out, flags, context);
  });
}

// NODE and SERVICE are counted up: "host3" and 4 nodes are host3, host4, host5, host6; "host09" and
// 2 nodes are host09, host10; 10.0.0.3 and 4 nodes are 10.0.0.3 to 10.0.0.6.
std::string counted(const char* first, size_t more) {
  const std::string text = first;
  const size_t at = text.find_last_not_of("0123456789") + 1;
  if (at >= text.size()) return text;
  const std::string number = std::to_string(std::stoull(text.substr(at)) + more);
  const size_t width = text.size() - at;
  return text.substr(0, at) + std::string(width - std::min(width, number.size()), '0') + number;
}

int insertsym(fid_av* fid, const char* node, size_t nodes, const char* service, size_t services,
              fi_addr_t* out, uint64_t flags, void* context) noexcept {
  return guarded([&]() -> int {
    if (node == nullptr || service == nullptr) return -FI_EINVAL;
    int count = 0;
    for (size_t i = 0; i < nodes; ++i)
      for (size_t j = 0; j < services; ++j) {
        const std::string host = counted(node, i);
        const std::string port = std::to_string(std::strtoul(service, nullptr, 10) + j);
        const int code =
            insertsvc(fid, host.c_str(), port.c_str(),
                      out != nullptr ? out + i * services + j : nullptr, flags, context);
        if (code < 0) return code;
        count += code;
      }
    return count;
  });
}

int remove(fid_av* fid, fi_addr_t* numbers, size_t count, uint64_t) noexcept {
  int code = 0;
  for (size_t i = count; i-- > 0;)
    if (!of(fid).remove(numbers[i])) code = -FI_EINVAL;
  return code;
}

int lookup(fid_av* fid, fi_addr_t number, void* out, size_t* length) noexcept {
  const auto name = of(fid).at(number);
  if (!name) return -FI_EINVAL;
  char bytes[sizeof(sockaddr_in6)];
  const size_t needed = length_of(format_of(name->gid));
  put_name(*name, bytes);
  std::memcpy(out, bytes, std::min(*length, needed));
  *length = needed;
  return 0;
}

const char* straddr(fid_av*, const void* address, char* buffer, size_t* length) noexcept {
  std::string text = "not an address";
  if (const auto name = name_at(address))
    text = (name->gid.is_ipv4() ? "fi_sockaddr_in://" : "fi_sockaddr_in6://") + text_of(*name);
  if (*length > 0) {
    std::strncpy(buffer, text.c_str(), *length - 1);
    buffer[*length - 1] = '\0';
  }
  *length = text.size() + 1;
  return buffer;
}

int close(fid* fid) noexcept {
  Av& av = of(fid);
  if (av.eq != nullptr && av.users.load() == 0) --av.eq->users;
  return close_unused(av, av.domain);
}

int bind(fid* fid, ::fid* other, uint64_t) noexcept {
  Av& av = of(fid);
  if (other->fclass != FI_CLASS_EQ || av.eq != nullptr) return -FI_EINVAL;
  av.eq = static_cast<Eq*>(reinterpret_cast<fid_eq*>(other));
  ++av.eq->users;
  return 0;
}

fi_ops kFidOps = fid_ops(close, bind);
fi_ops_av kOps = {.size = sizeof(fi_ops_av),
                  .insert = insert,
                  .insertsvc = insertsvc,
                  .insertsym = insertsym,
                  .remove = remove,
                  .lookup = lookup,
                  .straddr = straddr,
                  .av_set = not_implemented};

}  // namespace

Av::Av(Domain& parent, const fi_av_attr& attr, void* user_context) noexcept
    : fid_av{.fid = {.fclass = FI_CLASS_AV, .context = user_context, .ops = &kFidOps},
             .ops = &kOps},
      domain(parent),
      type(attr.type),
      reports((attr.flags & FI_EVENT) != 0) {
  domain.retain();
}

fi_addr_t Av::insert(const Name& name) {
  const std::lock_guard hold(lock_);
  if (entries_.size() == entries_.capacity()) {
    entries_.reserve(std::max<size_t>(16, 2 * entries_.size()));
    free_.reserve(entries_.capacity());  // for remove()
  }
  const auto [at, is_new] = numbers_.try_emplace({name.gid, end_of(name)}, FI_ADDR_NOTAVAIL);
  if (!is_new) return ++entries_[at->second].users, at->second;
  if (free_.empty()) {
    at->second = entries_.size();
    entries_.push_back({name, 1});
  } else {
    at->second = free_.back();
    free_.pop_back();
    entries_[at->second] = {name, 1};
  }
  changes_.fetch_add(1, std::memory_order_release);
  return at->second;
}

bool Av::remove(fi_addr_t number) noexcept {
  const std::lock_guard hold(lock_);
  if (number >= entries_.size() || entries_[number].users == 0) return false;
  Entry& entry = entries_[number];
  if (--entry.users > 0) return true;
  numbers_.erase({entry.name.gid, end_of(entry.name)});
  free_.push_back(number);
  changes_.fetch_add(1, std::memory_order_release);
  return true;
}

std::optional<Name> Av::at(fi_addr_t number) noexcept {
  const std::lock_guard hold(lock_);
  if (number >= entries_.size() || entries_[number].users == 0) return {};
  return entries_[number].name;
}

std::optional<fi_addr_t> Av::find(const Gid& gid, QpNum queue) noexcept {
  const std::lock_guard hold(lock_);
  const uint64_t first = uint64_t{queue.value} << 16;
  const auto at = numbers_.lower_bound({gid, first});
  if (at == numbers_.end() || at->first.first != gid || at->first.second >> 16 != queue.value)
    return {};
  return at->second;
}

std::optional<fi_addr_t> Av::find_port(const Gid& gid, uint16_t port) noexcept {
  const std::lock_guard hold(lock_);
  const auto at = numbers_.find({gid, port});
  return at == numbers_.end() ? std::nullopt : std::optional(at->second);
}

int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** out, void* context) noexcept {
  return guarded([&]() -> int {
    if (attr->name != nullptr || attr->rx_ctx_bits != 0)
      return not_supported(FI_LOG_AV, "fi_av_open: shared tables and receive contexts");
    *out = new Av(*static_cast<Domain*>(domain), *attr, context);
    return 0;
  });
}

}  // namespace weft::fi
