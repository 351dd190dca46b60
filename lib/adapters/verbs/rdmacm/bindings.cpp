// SPDX-License-Identifier: BSD-3-Clause
// See bindings.hpp. Ports of another process are found in use when the id listens.
#include "lib/adapters/verbs/rdmacm/bindings.hpp"

#include <algorithm>
#include <random>

namespace weft::rdmacm {

namespace {

constexpr uint16_t kFirstFreePort = 0xC000, kFreePorts = 0x3FFF;

struct Binding {
  const Id* id;
  Gid address;
  uint16_t port;
};

struct Bindings {
  std::mutex lock;
  std::vector<Binding> all;
  std::minstd_rand random{std::random_device()()};
};

Bindings& bindings() {
  static auto& bindings = *new Bindings;  // never destroyed: ids may be in handlers of exit()
  return bindings;
}

bool conflicts(const Binding& a, const Binding& b) {
  const bool same_address = a.address == b.address || a.address == Gid{} || b.address == Gid{};
  return a.port == b.port && same_address && a.id->id.ps == b.id->id.ps &&
         !(a.id->reuses_address && b.id->reuses_address);
}

}  // namespace

std::optional<uint16_t> bind_port(const Id& id, const Gid& address, uint16_t port) {
  Bindings& known = bindings();
  const std::lock_guard hold(known.lock);
  const auto first = static_cast<uint32_t>(known.random());
  for (uint32_t i = 0; i < (port != 0 ? 1u : kFreePorts); ++i) {
    const auto candidate =
        port != 0 ? port : static_cast<uint16_t>(kFirstFreePort + (first + i) % kFreePorts);
    const Binding wanted{&id, address, candidate};
    if (std::any_of(known.all.begin(), known.all.end(),
                    [&](const Binding& other) { return conflicts(wanted, other); }))
      continue;
    known.all.push_back(wanted);
    return candidate;
  }
  return {};
}

void unbind_port(const Id& id) {
  Bindings& known = bindings();
  const std::lock_guard hold(known.lock);
  std::erase_if(known.all, [&](const Binding& binding) { return binding.id == &id; });
}

}  // namespace weft::rdmacm
