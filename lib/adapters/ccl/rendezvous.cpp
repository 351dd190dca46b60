// SPDX-License-Identifier: BSD-3-Clause
// Stores and ids.
#include "lib/adapters/ccl/rendezvous.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include "lib/adapters/ccl/result.hpp"
#include "weft/device.hpp"

namespace weft::ccl {
namespace {

constexpr Duration kReachLimit = Duration::from_s(120), kSlice = Duration::from_ms(100);
constexpr char kMark[] = "weft-ccl-1";

// A port that is free now, or 0.
uint16_t free_port(const Gid& address) {
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  std::memcpy(&at.sin6_addr, address.bytes.data(), sizeof at.sin6_addr);
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  socklen_t size = sizeof at;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  close(fd);
  return bound ? ntohs(at.sin6_port) : uint16_t{0};
}

std::string store_at(const Gid& address, uint16_t port) {
  const std::string host = to_string(address);
  return "tcp:" + (address.is_ipv4() ? host : "[" + host + "]") + ":" + std::to_string(port);
}

// The device's address, if it is one of this host.
Gid address_for(const std::string& device) {
  const Gid loopback = Gid::from_ipv4(127, 0, 0, 1);
  const Result<Device> opened = Device::open(device);
  if (!opened) return loopback;
  const Gid gid = opened->attributes().gid;
  return free_port(gid) != 0 ? gid : loopback;
}

struct Served {
  std::mutex mutex;
  std::string address;
  std::unique_ptr<Store> store;
};

// Another process may take the free port before it is served.
Result<void> serve(Served& served, const std::string& device) {
  constexpr int kAttempts = 16;
  const Gid address = address_for(device);
  std::optional<Error> why;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string at = store_at(address, free_port(address));
    Result<std::unique_ptr<Store>> store = Store::open(at, true);
    if (store) {
      served.store = std::move(*store);
      served.address = at;
      return {};
    }
    why = store.error();
    if (why->code != Code::address_in_use) break;
  }
  return *why;
}

// Ends waits early: a rank that aborts does not wait for others.
class PatientStore : public Store {
 public:
  PatientStore(std::unique_ptr<Store> store, const std::atomic<bool>& giving_up)
      : store_(std::move(store)), giving_up_(giving_up) {}

  Result<void> set(std::string_view key, std::string_view value) override {
    return store_->set(key, value);
  }

  Result<std::string> get(std::string_view key, Duration limit) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit.ms());
    while (true) {
      Result<std::string> value = store_->get(key, kSlice);
      if (value || value.error().code != Code::timed_out) return value;
      if (giving_up_) return Error{Code::canceled, "the communicator is aborted"};
      if (std::chrono::steady_clock::now() > deadline) return value;
    }
  }

 private:
  std::unique_ptr<Store> store_;
  const std::atomic<bool>& giving_up_;
};

}  // namespace

// Never destroyed: its thread may serve others while this process ends.
Result<std::string> served_store(const std::string& device) {
  static Served* const served = new Served;
  const std::lock_guard lock(served->mutex);
  if (!served->store)
    if (const Result<void> begun = serve(*served, device); !begun) return begun.error();
  return served->address;
}

Result<ncclUniqueId> new_id(const std::string& device) {
  const Result<std::string> address = served_store(device);
  if (!address) return address.error();
  uint64_t name = 0;
  if (getrandom(&name, sizeof name, 0) != sizeof name)
    return Error{Code::io_error, "getrandom() failed"};
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(name));
  const std::string all = std::string(kMark) + " " + text + " " + *address;
  ncclUniqueId id{};
  if (all.size() >= sizeof id.internal)
    return wrong("the store's address does not fit an id: " + *address);
  std::memcpy(id.internal, all.data(), all.size());
  return id;
}

Result<Meeting> read_id(const ncclUniqueId& id) {
  const std::string all(id.internal, strnlen(id.internal, sizeof id.internal));
  const size_t name = all.find(' '), address = all.find(' ', name + 1);
  if (all.substr(0, name) != kMark || name == std::string::npos || address == std::string::npos)
    return wrong("the id is not one that ncclGetUniqueId() of this library has made");
  return Meeting{all.substr(address + 1), "ccl-" + all.substr(name + 1, address - name - 1)};
}

Result<std::unique_ptr<Store>> reach_store(const std::string& address,
                                           const std::atomic<bool>& giving_up) {
  Result<std::unique_ptr<Store>> store = Store::open(address, false, kReachLimit);
  if (!store) return store.error();
  return std::unique_ptr<Store>(std::make_unique<PatientStore>(std::move(*store), giving_up));
}

}  // namespace weft::ccl
