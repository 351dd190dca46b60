// SPDX-License-Identifier: BSD-3-Clause
// See devices.hpp.
#include "tools/run/devices.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/device_choice.hpp"
#include "weft/device.hpp"

namespace weft::run {
namespace {

std::string without_blanks(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\r') result += c;
  return result;
}

// ",fault.loss=0.01" of "loss=0.01" or "fault.loss=0.01".
Result<std::string> fault_key(const std::string& item) {
  if (item.find('=') == std::string::npos || item.find_first_of(",;") != std::string::npos)
    return Error{Code::invalid_argument, "'" + item + "' is not KEY=VALUE, like loss=0.01"};
  return (item.starts_with("fault.") ? "," : ",fault.") + item;
}

Result<std::string> keys_of_list(const std::string& text) {
  std::istringstream items(text);
  std::string keys;
  for (std::string item; std::getline(items, item, ',');) {
    const Result<std::string> key = fault_key(item);
    if (!key) return Error{key.error().code, "--faults: " + key.error().message};
    keys += *key;
  }
  return keys;
}

// It begins with a time, like 200ms.
bool is_timed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t");
  return begin != std::string::npos && std::isdigit(static_cast<unsigned char>(line[begin])) != 0;
}

// The library reads a file with times itself.
Result<std::string> key_of_timeline(const std::string& file) {
  const std::string path = std::filesystem::absolute(file).string();
  if (path.find_first_of(",;") == std::string::npos) return ",fault.timeline=" + path;
  return Error{
      Code::invalid_argument,
      "--faults: " + path + ": a device string cannot hold a comma or semicolon in a path"};
}

Result<std::string> keys_of_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    const int error = errno;
    return Error{Code::not_found, "--faults: " + path + ": " + std::strerror(error) +
                                      "; give a file of KEY=VALUE lines, or KEY=VALUE,..."};
  }
  std::string keys, line;
  if (file.peek(); file.bad())
    return Error{Code::invalid_argument, "--faults: " + path + ": cannot be read"};
  for (int number = 1; std::getline(file, line); ++number) {
    line.resize(std::min(line.size(), line.find('#')));
    if (is_timed(line)) return key_of_timeline(path);
    const std::string item = without_blanks(line);
    if (item.empty()) continue;
    const Result<std::string> key = fault_key(item);
    if (!key)
      return Error{key.error().code,
                   "--faults: " + path + ":" + std::to_string(number) + ": " + key.error().message};
    keys += *key;
  }
  return keys;
}

}  // namespace

std::string default_devices() {
  for (const char* const name : {"WEFT_VERBS_DEVICES", "WEFT_DEVICE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "roce+auto:" + base::default_interface();
}

Result<std::vector<std::string>> split_devices(const std::string& list) {
  const std::vector<std::string> devices = base::split_device_list(list);
  for (const std::string& device : devices)
    if (device.empty())
      return Error{Code::invalid_argument,
                   "'" + list +
                       "' has an empty device string: write them with one "
                       "semicolon between two, like roce+udp:eth0;roce+shm"};
  return devices;
}

Result<void> add_faults(const std::string& text, std::vector<std::string>& devices) {
  const Result<std::string> keys =
      text.find('=') != std::string::npos ? keys_of_list(text) : keys_of_file(text);
  if (!keys) return keys.error();
  for (std::string& device : devices) device += *keys;
  return {};
}

Result<void> add_pcap(const std::string& file, std::vector<std::string>& devices) {
  const std::string path = std::filesystem::absolute(file).string();
  if (path.find_first_of(",;") != std::string::npos)
    return Error{
        Code::invalid_argument,
        "--pcap: " + path + ": a device string cannot hold a comma or semicolon in a path"};
  for (size_t i = 0; i < devices.size(); ++i)
    devices[i] += ",pcap=" + path + (devices.size() > 1 ? ".weft" + std::to_string(i) : "");
  return {};
}

Result<void> check_devices(const std::vector<std::string>& devices) {
  for (const std::string& device : devices) {
    const Result<Device> opened = Device::open(device);
    if (!opened) return opened.error();
  }
  return {};
}

}  // namespace weft::run
