// SPDX-License-Identifier: BSD-3-Clause
// See device.hpp.
#include "lib/adapters/fi/common/device.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/waiting.hpp"
#include "lib/base/device_choice.hpp"

namespace weft::fi {
namespace {

constexpr int64_t kQuietMs = 50;

std::string chosen_spec() {
  char* text = nullptr;
  if (fi_param_get_str(&provider(), "device", &text) == FI_SUCCESS && text && *text) return text;
  const char* variable = std::getenv("WEFT_DEVICE");
  if (variable != nullptr && *variable != '\0') return variable;
  return std::string(protocol()) + "+auto:" + base::default_interface();
}

Result<std::shared_ptr<OpenDevice>> open(const std::string& spec) {
  if (spec.compare(0, spec.find_first_of("+:,"), protocol()) != 0)
    return Error{Code::not_supported, "the device string \"" + spec + "\" is not of " + protocol() +
                                          ": set the parameter `device` or WEFT_DEVICE to one"};
  auto device = Device::open(base::with_shared_address(spec, protocol()));
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
  int64_t closed_ms = INT64_MIN / 2;  // when an endpoint was closed last
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

void note_closed() noexcept {
  Opened& one = opened();
  const std::lock_guard hold(one.lock);
  one.closed_ms = clock_ms();
}

void forget_device() noexcept {
  Opened& one = opened();
  const std::lock_guard hold(one.lock);
  if (one.by != getpid() || !one.device) return;
  const int64_t left = one.closed_ms + kQuietMs - clock_ms();
  if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(left));
  one.device.reset();
}

}  // namespace weft::fi
