// SPDX-License-Identifier: BSD-3-Clause
// From a device string to an open device: ibverbs[:NAME][,port=N][,gid=N][,library=FILE]
// [,cm_library=FILE]. And the rows of this provider in the list of what a machine can open.
#include <charconv>

#include "providers/ibverbs/device.hpp"
#include "providers/ibverbs/provider.hpp"

namespace weft::ibverbs {

namespace {

struct Wish {
  PortWish port;
  std::string library = kLibraryName;
  std::string cm_library = "librdmacm.so.1";
};

Result<uint32_t> number(const std::string& key, const std::string& value, uint32_t smallest) {
  const char* const end = value.data() + value.size();
  uint32_t result = 0;
  const auto [at, error] = std::from_chars(value.data(), end, result);
  if (error != std::errc() || at != end || result < smallest || result > UINT8_MAX)
    return Error{Code::invalid_argument,
                 key + "=" + value + ": must be " + std::to_string(smallest) + "..255"};
  return result;
}

Result<Wish> read_options(const verbs::DeviceSpec& spec) {
  Wish wish;
  if (!spec.port.empty())
    return Error{Code::invalid_argument,
                 "provider ibverbs has no ports of weft's: name an RDMA device, ibverbs:NAME"};
  for (const auto& [key, value] : spec.options) {
    if (key == "library") {
      wish.library = value;
      continue;
    }
    if (key == "cm_library") {
      wish.cm_library = value;
      continue;
    }
    if (key != "port" && key != "gid")
      return Error{Code::invalid_argument,
                   "unknown key \"" + key +
                       "\"; valid keys: port (of the device, 1), gid (index "
                       "of its address), library (a libibverbs), cm_library (a librdmacm)"};
    const Result<uint32_t> value_read = number(key, value, key == "port" ? 1 : 0);
    if (!value_read) return value_read.error();
    if (key == "port")
      wish.port.port = *value_read;
    else
      wish.port.gid_index = *value_read;
  }
  return wish;
}

// "ibverbs,gid=1" with the name of the device that was chosen.
std::string filled_in(const verbs::DeviceSpec& spec, const std::string& device) {
  if (!spec.where.empty()) return spec.text;
  const size_t comma = spec.text.find(',');
  return spec.provider + ":" + device + (comma == std::string::npos ? "" : spec.text.substr(comma));
}

}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec) {
  const Result<Wish> wish = read_options(spec);
  if (!wish) return wish.error();
  const Result<const Library*> library = load_library(wish->library);
  if (!library) return library.error();
  const Result<DeviceList> list = DeviceList::read(**library);
  if (!list) return list.error();
  const Result<ibv_device*> device = list->find(spec.where);
  if (!device) return device.error();
  Result<Owned<ibv_context>> context = open_device(**library, **device);
  if (!context) return context.error();
  Result<UsablePort> port = inspect_port(**library, **context, wish->port);
  if (!port) return port.error();
  port->attributes.spec = filled_in(spec, port->attributes.port);
  return std::shared_ptr<verbs::Context>(new Context(
      **library, std::move(*context), port->choice, std::move(port->attributes), wish->cm_library));
}

void list(std::vector<DeviceListing>& out) {
  const auto none = [&out](const Error& why) { out.push_back({"ibverbs", false, why.message}); };
  const Result<const Library*> library = load_library(kLibraryName);
  if (!library) return none(library.error());
  const Result<DeviceList> devices = DeviceList::read(**library);
  if (!devices) return none(devices.error());
  for (const ibv_device* device : devices->devices()) {
    const std::string text = std::string("ibverbs:") + device->name;
    const Result<std::shared_ptr<verbs::Context>> opened =
        open({text, "ibverbs", {}, device->name, {}});
    out.push_back({text, opened.ok(), opened ? "" : opened.error().message});
  }
}

}  // namespace weft::ibverbs
