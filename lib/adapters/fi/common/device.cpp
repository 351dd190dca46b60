// SPDX-License-Identifier: BSD-3-Clause
// See device.hpp.
#include "lib/adapters/fi/common/device.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>

#include "lib/adapters/fi/common/calls.hpp"

namespace weft::fi {
namespace {

std::string default_interface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  std::getline(routes, line);  // the heading
  while (std::getline(routes, line)) {
    std::istringstream fields(line);
    std::string interface, destination, skipped, mask;
    fields >> interface >> destination >> skipped >> skipped >> skipped >> skipped >> skipped >>
        mask;
    if (destination == "00000000" && mask == "00000000") return interface;
  }
  return "lo";
}

std::string chosen_spec() {
  char* text = nullptr;
  if (fi_param_get_str(&provider(), "device", &text) == FI_SUCCESS && text && *text) return text;
  const char* variable = std::getenv("WEFT_DEVICE");
  if (variable != nullptr && *variable != '\0') return variable;
  return std::string(protocol()) + "+udp:" + default_interface();
}

// The processes of a machine meet at one address. On loopback the port has that on request.
std::string with_shared_address(const std::string& spec) {
  const size_t comma = spec.find(',');
  const std::string name = spec.substr(0, comma), own = protocol();
  const bool loopback = name == own || name == own + "+udp" || name == own + "+udp:" ||
                        name == own + "+udp:lo" || name == own + ":lo";
  if (!loopback || spec.find("udp.shared") != std::string::npos) return spec;
  return name + ",udp.shared=1" + (comma == std::string::npos ? "" : spec.substr(comma));
}

Result<std::shared_ptr<OpenDevice>> open(const std::string& spec) {
  if (spec.compare(0, spec.find_first_of("+:,"), protocol()) != 0)
    return Error{Code::not_supported, "the device string \"" + spec + "\" is not of " + protocol() +
                                          ": set the parameter `device` or WEFT_DEVICE to one"};
  auto device = Device::open(with_shared_address(spec));
  if (!device) return device.error();
  if (!device->attributes().has_on_demand)
    return Error{Code::not_supported, spec + " has no on-demand regions, which the provider needs"};
  auto domain = device->protection_domain();
  if (!domain) return domain.error();
  auto memory = domain->register_memory(nullptr, SIZE_MAX, Access::local_write | Access::on_demand);
  if (!memory) return memory.error();
  auto port = device->query_port();
  return std::make_shared<OpenDevice>(
      OpenDevice{*device, *domain, *memory, port ? *port : PortAttributes{}});
}

struct Opened {
  std::mutex lock;
  std::shared_ptr<OpenDevice> device;
  pid_t by = 0;
};

Opened& opened() {
  static auto* const one = new Opened;  // libfabric calls cleanup() after static destructors
  return *one;
}

}  // namespace

void define_device_parameter() noexcept {
  fi_param_define(&provider(), "device", FI_PARAM_STRING,
                  "The device string, for example %s+udp:eth0 or %s+shm (default: WEFT_DEVICE, "
                  "else the interface of the default route)",
                  protocol(), protocol());
}

Result<std::shared_ptr<OpenDevice>> open_device() {
  Opened& one = opened();
  const std::lock_guard hold(one.lock);
  if (one.device && one.by == getpid()) return one.device;
  auto device = open(chosen_spec());
  if (!device) return device.error();
  // The parent's device cannot be used in a child, nor closed there.
  if (one.device) new std::shared_ptr<OpenDevice>(std::move(one.device));
  one.device = *device;
  one.by = getpid();
  return one.device;
}

void forget_device() noexcept {
  Opened& one = opened();
  const std::lock_guard hold(one.lock);
  if (one.by == getpid()) one.device.reset();
}

}  // namespace weft::fi
