// SPDX-License-Identifier: BSD-3-Clause
// See auto_port.hpp.
#include "providers/port/auto/auto_port.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/log/log.hpp"
#include "providers/port/udp/udp_port.hpp"

namespace weft::port {

namespace {

// The port that owns the address is closed last.
std::vector<std::unique_ptr<transport::Port>> both(std::unique_ptr<transport::Port> network,
                                                   std::unique_ptr<ShmPort> memory) {
  std::vector<std::unique_ptr<transport::Port>> ports;
  ports.push_back(std::move(memory));
  ports.push_back(std::move(network));
  return ports;
}

// Takes `memory` out of the keys of the port udp.
Result<bool> take_memory_key(transport::PortOptions& options) {
  bool memory = true;
  auto& keys = options.options;
  for (const auto& [key, value] : keys) {
    if (key != "memory") continue;
    if (value != "0" && value != "1")
      return Error{Code::invalid_argument, "auto.memory=" + value + ": must be 0 or 1"};
    memory = value == "1";
  }
  std::erase_if(keys, [](const auto& key) { return key.first == "memory"; });
  return memory;
}

void log_network_only(const transport::PortOptions& options, const std::string& reason) {
  base::log(base::Subsystem::port, LogLevel::info, [&] {
    return "auto:" + options.where + ": peers on this host are reached by udp, too: " + reason;
  });
}

}  // namespace

Result<std::unique_ptr<transport::Port>> open_auto_port(const transport::PortOptions& given) {
  transport::PortOptions options = given;
  const Result<bool> wanted = take_memory_key(options);
  if (!wanted) return wanted.error();
  Result<std::unique_ptr<transport::Port>> network = open_udp_port(options);
  if (!network || !*wanted) return network;
  if (options.wrapped) {
    log_network_only(options, "a key of the device string looks at every packet (fault, pcap)");
    return network;
  }
  Result<std::unique_ptr<ShmPort>> memory =
      open_shm_port_beside((*network)->address(), transport::slot_of(**network), options.udp_port);
  if (!memory) {
    log_network_only(options, memory.error().message);
    return network;
  }
  return std::unique_ptr<transport::Port>(new AutoPort(*std::move(network), *std::move(memory)));
}

AutoPort::AutoPort(std::unique_ptr<transport::Port> network, std::unique_ptr<ShmPort> memory)
    : PortBundle(both(std::move(network), std::move(memory))),
      memory_(static_cast<ShmPort*>(&port(kMemory))),
      waits_{memory_, dynamic_cast<transport::SuspendedWait*>(&port(kNetwork))} {
  WEFT_CHECK(waits_[kNetwork] != nullptr);
}

size_t AutoPort::receive(std::span<transport::Frame> frames) noexcept {
  const size_t filled = PortBundle::receive(frames);
  quiet_ = lent(kMemory) != 0 ? 0 : std::min(quiet_ + 1, kQuietAfter);
  return filled;
}

bool AutoPort::polls(size_t port) noexcept {
  if (port == kMemory) return true;
  if (quiet_ < kQuietAfter && ++skipped_ < kNetworkEvery) return false;
  skipped_ = 0;
  return true;
}

void AutoPort::finish_wait() noexcept {
  quiet_ = kQuietAfter;  // what woke the thread may have come by the network
  PortBundle::finish_wait();
}

void AutoPort::suspend_wait() noexcept {
  for (transport::SuspendedWait* const wait : waits_) wait->suspend_wait();
}

bool AutoPort::resume_wait() noexcept {
  const bool network = waits_[kNetwork]->resume_wait();
  return waits_[kMemory]->resume_wait() && network;
}

}  // namespace weft::port
