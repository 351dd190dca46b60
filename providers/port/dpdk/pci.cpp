// SPDX-License-Identifier: BSD-3-Clause
// See pci.hpp.
#include "providers/port/dpdk/pci.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace weft::port::dpdk {
namespace {

std::string folder_of(const std::string& address) { return "/sys/bus/pci/devices/" + address; }

// The last part of what a symbolic link in the device's folder names; empty: there is none.
std::string link_of(const std::string& address, const char* link) {
  std::error_code failed;
  return std::filesystem::read_symlink(folder_of(address) + "/" + link, failed).filename().string();
}

}  // namespace

std::string pci_address(const std::string& where) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  const auto whole = [&](int used) { return static_cast<size_t>(used) == where.size(); };
  int used = 0;
  const bool is_long = std::sscanf(where.c_str(), "%8x:%2x:%2x.%1x%n", &domain, &bus, &device,
                                   &function, &used) == 4 &&
                       whole(used);
  if (!is_long) domain = used = 0;
  if (!is_long &&
      (std::sscanf(where.c_str(), "%2x:%2x.%1x%n", &bus, &device, &function, &used) != 3 ||
       !whole(used)))
    return {};
  char text[32];
  (void)std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

Result<void> find_pci_device(const std::string& address) {
  if (::access(folder_of(address).c_str(), F_OK) == 0) return {};
  return Error{Code::not_found, "dpdk: there is no PCI device " + address + ": lspci -D lists all"};
}

Error pci_refusal(const std::string& address, const std::string& what_dpdk_said) {
  const std::string driver = link_of(address, "driver"), group = link_of(address, "iommu_group");
  const std::string begin = "dpdk: PCI device " + address + ": " + what_dpdk_said;
  const std::string vfio = "/dev/vfio/" + group;
  if (driver == "vfio-pci" && !group.empty() && ::access(vfio.c_str(), R_OK | W_OK) != 0)
    return {Code::permission_denied, begin + "; this user needs the right to read and write " +
                                         vfio + ", and to lock as much memory (ulimit -l)"};
  if (::geteuid() != 0)
    return {Code::permission_denied,
            begin + "; without root it must be bound to vfio-pci, and " +
                (group.empty() ? "have an IOMMU group" : vfio + " be this user's")};
  return {Code::not_supported,
          begin + "; the kernel's driver is " + (driver.empty() ? "none" : driver) +
              ". If DPDK has a driver for this device, bind it to vfio-pci (dpdk-devbind.py "
              "--bind=vfio-pci " +
              address + "; mlx4 and mlx5 devices stay with the kernel's driver)"};
}

}  // namespace weft::port::dpdk
