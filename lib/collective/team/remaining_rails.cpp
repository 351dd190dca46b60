// SPDX-License-Identifier: BSD-3-Clause
// Which rails still exist, published by rank in the store.
#include "lib/collective/team/remaining_rails.hpp"

#include <algorithm>

#include "lib/collective/run/peer_connections.hpp"
#include "weft/device.hpp"

namespace weft::collective {
namespace {

constexpr std::string_view kRails = "rails=";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char letter : text)
    if (letter == at)
      parts.emplace_back();
    else
      parts.back() += letter;
  return parts;
}

// PROVIDER+PORT:ADDRESS,KEY=VALUE,..
struct Parts {
  std::string port;  // "srd+udp:"
  std::vector<std::string> rails;
  std::vector<std::string> others;  // "KEY=VALUE"
};

Parts parse(const std::string& device) {
  Parts parts;
  std::vector<std::string> items = split(device, ',');
  const size_t where = std::min(items[0].find(':'), items[0].size() - 1) + 1;
  parts.port = items[0].substr(0, where);
  parts.rails.push_back(items[0].substr(where));
  for (size_t i = 1; i < items.size(); ++i) {
    if (!items[i].starts_with(kRails))
      parts.others.push_back(items[i]);
    else
      for (std::string& rail : split(items[i].substr(kRails.size()), '+'))
        parts.rails.push_back(std::move(rail));
  }
  return parts;
}

// IPv6 addresses need brackets behind PORT:.
std::string bracketed(const std::string& address) {
  const bool bare = address.find(':') != std::string::npos && address.front() != '[';
  return bare ? "[" + address + "]" : address;
}

// Whether the device can be opened, or only memory is missing.
bool can_open(const std::string& device) {
  const Result<Device> opened = Device::open(device);
  return opened || opened.error().code == Code::no_memory;
}

}  // namespace

std::string with_rails(const std::string& device, const std::vector<std::string>& rails) {
  const Parts parts = parse(device);
  std::string text = parts.port + bracketed(rails.front());
  for (const std::string& other : parts.others) text += "," + other;
  for (size_t i = 1; i < rails.size(); ++i)
    text += (i == 1 ? "," + std::string(kRails) : "+") + bracketed(rails[i]);
  return text;
}

std::vector<size_t> rail_order(const std::vector<std::string>& available, uint32_t rank) {
  const std::string& own = available[rank];
  std::vector<size_t> left, kept;  // of this rank; of every rank that had the rail
  bool common = false;             // a rail of all ranks is left
  for (size_t rail = 0; rail < own.size(); ++rail) {
    size_t have = 0, had = 0;
    for (const std::string& of : available) {
      had += rail < of.size();
      have += rail < of.size() && of[rail] == '1';
    }
    common |= have == available.size();
    if (own[rail] == '1') left.push_back(rail);
    if (have == had) kept.push_back(rail);
  }
  return common ? kept : left;
}

Result<std::string> device_with_remaining_rails(Store& store, const std::string& name,
                                                uint32_t rank, uint32_t ranks,
                                                const std::string& given, Duration limit) {
  const std::string device = device_or_default(given);
  if (!device.starts_with("srd")) return device;
  const Parts parts = parse(device);
  const std::vector<std::string>& rails = parts.rails;
  const bool chooses = rails.size() > 1 && !rails.front().empty();
  const auto key = [&](uint32_t of) { return name + "/rails/" + std::to_string(of); };
  std::string own;
  for (const std::string& rail : rails)
    own += !chooses || can_open(parts.port + bracketed(rail)) ? '1' : '0';
  if (Result<void> published = store.set(key(rank), own); !published) return published.error();
  if (!chooses) return device;
  std::vector<std::string> available;
  for (uint32_t of = 0; of < ranks; ++of) {
    Result<std::string> found = of == rank ? own : store.get(key(of), limit);
    if (!found) return found.error();
    available.push_back(*std::move(found));
  }
  std::vector<std::string> left;
  for (const size_t rail : rail_order(available, rank)) left.push_back(rails[rail]);
  return left.empty() || left == rails ? device : with_rails(device, left);
}

}  // namespace weft::collective
