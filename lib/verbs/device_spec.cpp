// SPDX-License-Identifier: BSD-3-Clause
// Parsing device strings: see device_spec.hpp.
#include "lib/verbs/device_spec.hpp"

#include <algorithm>

namespace weft::verbs {

namespace {

constexpr const char* kForm =
    "; the form is PROVIDER[+PORT[:WHERE]][,key=value...], for example roce+udp:lo";
constexpr std::string_view kFlag = "srd";  // of ibverbs: the one key that needs no value

Error bad(std::string_view text, const std::string& why) {
  return {Code::invalid_argument, "device string \"" + std::string(text) + "\": " + why + kForm};
}

}  // namespace

Result<DeviceSpec> parse_device_spec(std::string_view text) {
  DeviceSpec spec;
  spec.text = text;
  std::string_view head = text.substr(0, text.find(','));
  std::string_view rest = text.substr(std::min(text.size(), head.size() + 1));
  const size_t colon = head.find(':');
  std::string_view names = head.substr(0, colon);
  if (colon != std::string_view::npos) spec.where = head.substr(colon + 1);
  const size_t plus = names.find('+');
  spec.provider = names.substr(0, plus);
  if (plus != std::string_view::npos) spec.port = names.substr(plus + 1);
  if (spec.provider.empty()) return bad(text, "it names no provider");
  if (plus != std::string_view::npos && spec.port.empty()) return bad(text, "no port after +");
  if (!spec.where.empty() && spec.where.front() == '[') {
    if (spec.where.back() != ']') return bad(text, "the [ is not closed");
    spec.where = spec.where.substr(1, spec.where.size() - 2);
  }
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest = rest.substr(std::min(rest.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == 0 || item.empty())
      return bad(text, "\"" + std::string(item) + "\" is not key=value");
    const bool flag = equals == std::string_view::npos;
    if (flag && item != kFlag) return bad(text, "\"" + std::string(item) + "\" is not key=value");
    spec.options.emplace_back(item.substr(0, equals), flag ? "1" : item.substr(equals + 1));
  }
  return spec;
}

std::vector<std::pair<std::string, std::string>> take_layer(
    std::vector<std::pair<std::string, std::string>>& options, std::string_view layer) {
  std::vector<std::pair<std::string, std::string>> taken;
  const std::string prefix = std::string(layer) + ".";
  std::erase_if(options, [&](const std::pair<std::string, std::string>& option) {
    if (option.first.rfind(prefix, 0) != 0) return false;
    taken.emplace_back(option.first.substr(prefix.size()), option.second);
    return true;
  });
  return taken;
}

}  // namespace weft::verbs
