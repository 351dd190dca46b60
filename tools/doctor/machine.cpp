// SPDX-License-Identifier: BSD-3-Clause
// See machine.hpp.
#include "tools/doctor/machine.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace weft::doctor {

namespace {

constexpr const char* kGso = "generic-segmentation-offload";
constexpr const char* kGro = "generic-receive-offload";

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
}

std::map<std::string, bool> parse_ethtool(const std::string& output) {
  std::map<std::string, bool> found;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    for (const char* const name : {kGso, kGro})
      if (line.starts_with(std::string(name) + ":"))
        found[name] = trimmed(line.substr(std::strlen(name) + 1)).starts_with("on");
  return found;
}

std::map<std::string, bool> ask_kernel(const std::string& interface) {
  std::map<std::string, bool> found;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return found;
  for (const auto& [name, command] : {std::pair{kGso, ETHTOOL_GGSO}, {kGro, ETHTOOL_GGRO}}) {
    ethtool_value value{};
    value.cmd = static_cast<uint32_t>(command);
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    if (::ioctl(fd, SIOCETHTOOL, &request) == 0) found[name] = value.data != 0;
  }
  ::close(fd);
  return found;
}

}  // namespace

bool Machine::has(const std::string& path) const {
  std::error_code failed;
  return std::filesystem::exists(root_ + path, failed);
}

std::optional<std::string> Machine::read(const std::string& path) const {
  std::ifstream file(root_ + path);
  if (!file) return {};
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return {};
  return trimmed(text.str());
}

std::optional<uint64_t> Machine::number(const std::string& path) const {
  const std::optional<std::string> text = read(path);
  uint64_t value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc{})
    return {};
  return value;
}

std::optional<std::string> Machine::field(const std::string& path, const std::string& key) const {
  std::istringstream lines(read(path).value_or(""));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
  return {};
}

std::vector<std::string> Machine::list(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(root_ + path, failed))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, bool> Machine::offloads(const std::string& interface) const {
  if (root_.empty()) return ask_kernel(interface);
  return parse_ethtool(read("/ethtool/" + interface).value_or(""));
}

}  // namespace weft::doctor
