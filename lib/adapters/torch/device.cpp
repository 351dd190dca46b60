// SPDX-License-Identifier: BSD-3-Clause
// Every rank says where it is, rank 0 decides for all.
#include "lib/adapters/torch/device.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>

namespace weft::torch_adapter {
namespace {

constexpr char kGiven[] = "WEFT_DEVICE", kUdp[] = "udp";

// Ranks that say the same can meet in shared memory.
std::string place() {
  if (std::getenv("WEFT_DEVICE") != nullptr) return kGiven;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char network[64] = {};
  if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0) network[0] = '?';
  return boot + " " + network + " " + std::to_string(geteuid());
}

std::string new_id() {
  std::random_device random;
  return "torch-" + std::to_string(random()) + "-" + std::to_string(random());
}

// What rank 0 says to all: a device, kGiven or kUdp; after "!" what is wrong.
Result<std::string> decide(Store& store, uint32_t ranks, Duration limit) {
  const std::string own = place();
  bool together = true;
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const Result<std::string> theirs = store.get("place/" + std::to_string(rank), limit);
    if (!theirs) return theirs.error();
    if ((*theirs == kGiven) != (own == kGiven))
      return "!WEFT_DEVICE is set for rank " + std::to_string(own == kGiven ? 0 : rank) +
             " but not for rank " + std::to_string(own == kGiven ? rank : 0) +
             ": set it for all ranks or for none";
    together = together && *theirs == own;
  }
  if (own == kGiven) return own;
  return together ? "roce+shm:" + new_id() : kUdp;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// This host's address on the way to `name`, empty if there is none or it is the loopback's.
std::string address_towards(const char* name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(name, "9", &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known = connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  close(fd);
  char text[INET_ADDRSTRLEN] = {};
  if (!known || inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) == nullptr) return {};
  return ntohl(own.sin_addr.s_addr) >> 24 == 127 ? std::string() : text;
}

Result<std::string> udp_device() {
  const char* const master = std::getenv("MASTER_ADDR");
  const std::string address = master != nullptr ? address_towards(master) : std::string();
  if (!address.empty()) return "roce+auto:" + address;
  return Error{Code::not_found,
               "the ranks are on several hosts, and MASTER_ADDR does not say on which network: set "
               "WEFT_DEVICE, for instance to roce+udp:eth0, for all ranks"};
}

}  // namespace

Result<std::string> agree_on_id(Store& store, uint32_t rank, Duration limit) {
  if (rank == 0)
    if (Result<void> told = store.set("id", new_id()); !told) return told.error();
  return store.get("id", limit);
}

Result<std::string> agree_on_device(Store& store, uint32_t rank, uint32_t ranks, Duration limit) {
  if (rank == 0) {
    const Result<std::string> decided = decide(store, ranks, limit);
    const std::string said = decided ? *decided : "!" + decided.error().message;
    if (Result<void> told = store.set("device", said); !told) return told.error();
  } else if (Result<void> said = store.set("place/" + std::to_string(rank), place()); !said) {
    return said.error();
  }
  const Result<std::string> decided = store.get("device", limit);
  if (!decided) return decided.error();
  if (decided->rfind('!', 0) == 0) return Error{Code::invalid_argument, decided->substr(1)};
  if (*decided == kGiven) return std::string(std::getenv("WEFT_DEVICE"));
  return *decided == kUdp ? udp_device() : *decided;
}

}  // namespace weft::torch_adapter
