// SPDX-License-Identifier: BSD-3-Clause
// See devices.hpp.
#include "lib/adapters/nccl/devices.hpp"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "lib/adapters/nccl/log.hpp"
#include "lib/adapters/nccl/messages.hpp"
#include "lib/base/device_choice.hpp"

namespace weft::nccl {
namespace {

constexpr uint64_t kLargestPart = uint64_t{1} << 30;
constexpr uint32_t kMaxQueuePairs = 64 * 1024;

std::vector<std::string> device_strings() {
  const char* const given = std::getenv("WEFT_DEVICE");
  if (given == nullptr || *given == '\0') return {"srd+auto:" + base::default_interface()};
  std::vector<std::string> strings = base::split_device_list(given);
  std::erase(strings, "");
  return strings;
}

// The PCI device behind a network interface, or empty.
std::string pci_path_of(const std::string& interface) {
  char path[PATH_MAX];
  const std::string link = "/sys/class/net/" + interface + "/device";
  return !interface.empty() && ::realpath(link.c_str(), path) != nullptr ? path : "";
}

// What the plug-in needs and not every device has.
Result<void> check_usable(const DeviceAttributes& a) {
  const bool service = a.qp_type == QpType::rc || a.qp_type == QpType::srd;
  if (service && a.has_write && a.has_immediate && !a.only_by_cm) return {};
  return Error{Code::not_supported,
               "it has no WRITE with immediate data over RC or SRD, which the plug-in needs"};
}

Result<NetDevice> open_one(const std::string& spec) {
  Result<Device> device = Device::open(spec);
  if (!device) return device.error();
  const DeviceAttributes& a = device->attributes();
  if (const Result<void> usable = check_usable(a); !usable) return usable.error();
  Result<ProtectionDomain> domain = device->protection_domain();
  if (!domain) return domain.error();
  const Result<PortAttributes> port = device->query_port();
  if (!port) return port.error();
  NetDevice made;
  made.name = a.spec.substr(0, a.spec.find(','));
  made.pci_path = pci_path_of(port->interface_name);
  made.guid = a.node_guid;
  made.speed_mbps = port->speed_mbps * static_cast<uint32_t>(1 + a.further_gids.size());
  made.max_comms = static_cast<int>(std::min(a.max_qp, kMaxQueuePairs));
  made.max_part = static_cast<uint32_t>(std::min(a.max_message, kLargestPart));
  made.devices.push_back(std::make_shared<OpenDevice>(OpenDevice{*device, *domain}));
  return made;
}

void log_device(size_t index, const NetDevice& device) {
  const DeviceAttributes& a = device.attributes();
  std::string text =
      "device " + std::to_string(index) + ": " + a.spec + ", address " + to_string(a.gid);
  for (const Gid& gid : a.further_gids) text += " " + to_string(gid);
  text += ", " + std::to_string(a.paths) + (a.paths == 1 ? " path" : " paths");
  text += ", congestion control ";
  const size_t cc = a.spec.find(",cc=");
  if (cc != std::string::npos)
    text += a.spec.substr(cc + 4, a.spec.find(',', cc + 1) - cc - 4);
  else if (a.provider == "ibverbs")
    text += "of the device";
  else
    text += a.qp_type == QpType::srd && a.port != "shm" ? "nscc" : "none";
  log_info(text + ", " + std::to_string(device.speed_mbps) + " Mb/s, " +
           (device.pci_path.empty() ? "no PCI device" : device.pci_path));
}

}  // namespace

void OpenDevice::log_events() const {
  const std::string& name = device.attributes().spec;
  while (const std::optional<AsyncEvent> event = device.next_event()) {
    if (event->type == EventType::port_error)
      log_warning(name +
                  ": the network interface is down; packets are sent again until it is up, "
                  "or the peer counts as dead");
    else if (event->type == EventType::port_active)
      log_warning(name + ": the network interface is up again");
    else if (event->type == EventType::device_fatal || event->type == EventType::cq_error ||
             event->type == EventType::gid_change)
      log_warning(name + ": " + std::string(weft::name(event->type)));
  }
}

std::string NetDevice::spec() const {
  std::string list;
  for (const std::shared_ptr<OpenDevice>& each : devices) {
    const std::string& of_member = each->device.attributes().spec;
    list += (list.empty() ? "" : ";") + of_member.substr(0, of_member.find(','));
  }
  return list;
}

DeviceList& DeviceList::of_process() {
  static DeviceList list;
  return list;
}

Result<void> DeviceList::open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (process_ == ::getpid() && !list_.empty()) return {};
  // A child process: the devices are the parent's, and are not even closed here.
  if (process_ != ::getpid() && !list_.empty()) new std::deque<NetDevice>(std::move(list_));
  process_ = ::getpid();
  list_.clear();
  const std::vector<std::string> specs = device_strings();
  for (const std::string& spec : specs) {
    Result<NetDevice> made = open_one(spec);
    if (!made) {
      log_warning("cannot use " + spec + ": " + made.error().message);
      continue;
    }
    made->members = {static_cast<int>(list_.size())};
    made->name = unique(made->name);
    list_.push_back(std::move(*made));
    log_device(list_.size() - 1, list_.back());
  }
  if (!list_.empty()) return {};
  return Error{Code::not_found,
               "no usable device: set WEFT_DEVICE to a device string, like srd+udp:eth0 "
               "(weft_info lists them); NCCL takes its own network"};
}

std::string DeviceList::unique(const std::string& name) const {
  std::string made = name;
  const auto is_taken = [&](const NetDevice& each) { return each.name == made; };
  for (int number = 2; std::any_of(list_.begin(), list_.end(), is_taken); ++number)
    made = name + "#" + std::to_string(number);
  return made;
}

int DeviceList::size() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(list_.size());
}

int DeviceList::without_pci() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(std::count_if(
      list_.begin(), list_.end(), [](const NetDevice& each) { return each.pci_path.empty(); }));
}

Result<const NetDevice*> DeviceList::at(int index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index >= 0 && static_cast<size_t>(index) < list_.size())
    return static_cast<const NetDevice*>(&list_[static_cast<size_t>(index)]);
  return Error{Code::invalid_argument, "there is no device " + std::to_string(index) +
                                           ": devices() says " + std::to_string(list_.size())};
}

Result<int> DeviceList::merge(std::span<const int> members) {
  NetDevice merged;
  for (const int index : members) {
    const Result<const NetDevice*> found = at(index);
    if (!found) return found.error();
    const NetDevice& member = **found;
    if (merged.devices.empty()) {
      merged.pci_path = member.pci_path;
      merged.guid = member.guid;
      merged.max_comms = member.max_comms;
      merged.max_part = member.max_part;
    } else if (member.attributes().qp_type != merged.attributes().qp_type) {
      return Error{Code::mismatch, member.name + " and " + merged.name +
                                       " cannot be one virtual device: one has RC, one SRD"};
    }
    merged.name += (merged.name.empty() ? "" : "+") + member.name;
    merged.speed_mbps += member.speed_mbps;
    merged.max_comms = std::min(merged.max_comms, member.max_comms);
    merged.max_part = std::min(merged.max_part, member.max_part);
    merged.members.push_back(index);
    merged.devices.insert(merged.devices.end(), member.devices.begin(), member.devices.end());
  }
  if (merged.devices.size() > kMaxLanes)
    return Error{Code::mismatch, "a virtual device has at most " + std::to_string(kMaxLanes) +
                                     " members, not " + std::to_string(merged.devices.size())};
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < list_.size(); ++i)
    if (list_[i].members == merged.members) return static_cast<int>(i);
  list_.push_back(std::move(merged));
  log_info("device " + std::to_string(list_.size() - 1) + ": " + list_.back().name);
  return static_cast<int>(list_.size()) - 1;
}

}  // namespace weft::nccl
