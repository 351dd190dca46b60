// SPDX-License-Identifier: BSD-3-Clause
// From a device string to an open device: ibverbs[:NAME][,port=N][,gid=N][,library=FILE]
// [,cm_library=FILE][,srd[,efa_library=FILE]]. And the rows of this provider in the list of what a
// machine can open.
#include "providers/ibverbs/open.hpp"

#include <charconv>

#include "providers/ibverbs/device.hpp"
#if WEFT_HAVE_EFA
#include "providers/ibverbs/efa/efa_srd.hpp"
#endif

namespace weft::ibverbs {

namespace {

struct OpenOptions {
  PortSelection port;
  std::string library = kLibraryName;
  std::string cm_library = "librdmacm.so.1";
  std::string efa_library = "libefa.so.1";
};

// A key whose value is the name of a library; nullptr for others.
std::string* library_of(OpenOptions& wanted, const std::string& key) {
  if (key == "library") return &wanted.library;
  if (key == "cm_library") return &wanted.cm_library;
  return key == "efa_library" ? &wanted.efa_library : nullptr;
}

Result<uint32_t> number(const std::string& key, const std::string& value, uint32_t smallest) {
  const char* const end = value.data() + value.size();
  uint32_t result = 0;
  const auto [at, error] = std::from_chars(value.data(), end, result);
  if (error != std::errc() || at != end || result < smallest || result > UINT8_MAX)
    return Error{Code::invalid_argument,
                 key + "=" + value + ": must be " + std::to_string(smallest) + "..255"};
  return result;
}

Result<OpenOptions> read_options(const verbs::DeviceSpec& spec) {
  OpenOptions wanted;
  if (!spec.port.empty())
    return Error{Code::invalid_argument,
                 "provider ibverbs has no ports of weft's: name an RDMA device, ibverbs:NAME"};
  for (const auto& [key, value] : spec.options) {
    if (std::string* const library = library_of(wanted, key)) {
      *library = value;
      continue;
    }
    if (key == "srd") {
      if (value != "0" && value != "1")
        return Error{Code::invalid_argument, "srd=" + value + ": say srd, or leave it out"};
      wanted.port.srd = value == "1";
      continue;
    }
    if (key != "port" && key != "gid")
      return Error{Code::invalid_argument,
                   "unknown key \"" + key +
                       "\"; valid keys: port (of the device, 1), gid (index "
                       "of its address), srd (of an EFA), library (a libibverbs), cm_library (a "
                       "librdmacm), efa_library (a libefa)"};
    const Result<uint32_t> value_read = number(key, value, key == "port" ? 1 : 0);
    if (!value_read) return value_read.error();
    if (key == "port")
      wanted.port.port = *value_read;
    else
      wanted.port.gid_index = *value_read;
  }
  return wanted;
}

// Under weft-run the name of libibverbs means weft's own: its devices would be weft over weft.
Result<const Library*> load_with_devices(const std::string& name) {
  const Result<const Library*> library = load_library(name);
  if (!library || !(*library)->is_drop_in || name != kLibraryName) return library;
  return Error{Code::not_supported,
               "libibverbs.so.1 of this process is weft's own, of weft-run: open the device that "
               "it stands for, or name a library, ibverbs:NAME,library=FILE"};
}

// "ibverbs,gid=1" with the name of the device that was chosen.
std::string filled_in(const verbs::DeviceSpec& spec, const std::string& device) {
  if (!spec.where.empty()) return spec.text;
  const size_t comma = spec.text.find(',');
  return spec.provider + ":" + device + (comma == std::string::npos ? "" : spec.text.substr(comma));
}

// libefa, if it is asked for: null if not. What it lacks is said before a device is looked for.
struct EfaSelection {
#if WEFT_HAVE_EFA
  const EfaLibrary* library = nullptr;
#endif
};
Result<EfaSelection> load_for(const OpenOptions& wanted) {
  EfaSelection efa;
  if (!wanted.port.srd) return efa;
#if WEFT_HAVE_EFA
  const Result<const EfaLibrary*> library = load_efa(wanted.efa_library);
  if (!library) return library.error();
  efa.library = *library;
  return efa;
#else
  return Error{Code::not_supported,
               "srd: weft was built without infiniband/efadv.h of libibverbs-dev; weft's own SRD "
               "runs over any network: srd+udp:lo"};
#endif
}

// Queries what the device supports of SRD; describes it in port.attributes. Null without `srd`.
Result<std::shared_ptr<EfaSrd>> query_srd(const EfaSelection& wanted, ibv_context& context,
                                          UsablePort& port) {
#if WEFT_HAVE_EFA
  if (wanted.library == nullptr) return std::shared_ptr<EfaSrd>();
  const Result<efadv_device_attr> efa = query_efa(*wanted.library, context);
  if (!efa) return efa.error();
  const SrdLimits limits = srd_limits(*efa, port.device, port.port);
  describe_srd(port.attributes, limits, *efa);
  return std::shared_ptr<EfaSrd>(new EfaSrd{*wanted.library, limits, {}});
#else
  return (void)wanted, (void)context, (void)port, std::shared_ptr<EfaSrd>();
#endif
}

// One that cannot be asked is none: opening it says why.
bool opens_as_efa(const Library& library, ibv_device& device) {
  const Result<Owned<ibv_context>> context = open_device(library, device);
  ibv_device_attr said{};
  return context && library.query_device(context->get(), &said) == 0 && is_efa(said);
}

}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec) {
  const Result<OpenOptions> wanted = read_options(spec);
  if (!wanted) return wanted.error();
  const Result<const Library*> library = load_with_devices(wanted->library);
  if (!library) return library.error();
  const Result<EfaSelection> efa = load_for(*wanted);
  if (!efa) return efa.error();
  const Result<DeviceList> list = DeviceList::read(**library);
  if (!list) return list.error();
  const Result<ibv_device*> device = list->find(spec.where);
  if (!device) return device.error();
  Result<Owned<ibv_context>> context = open_device(**library, **device);
  if (!context) return context.error();
  Result<UsablePort> port = inspect_port(**library, **context, wanted->port);
  if (!port) return port.error();
  const Result<std::shared_ptr<EfaSrd>> srd = query_srd(*efa, **context, *port);
  if (!srd) return srd.error();
  Owned<ibv_cq> siw_reserved_cq = reserve_siw_mmap_key(**library, **context, port->device);
  port->attributes.spec = filled_in(spec, port->attributes.port);
  return std::shared_ptr<verbs::Context>(
      new Context(**library, std::move(*context), std::move(siw_reserved_cq), port->choice,
                  std::move(port->attributes), wanted->cm_library, *srd));
}

void list(std::vector<DeviceListing>& out, LoadModules) {
  const auto none = [&out](const Error& why) { out.push_back({"ibverbs", false, why.message}); };
  const Result<const Library*> library = load_with_devices(kLibraryName);
  if (!library) return none(library.error());
  const Result<DeviceList> devices = DeviceList::read(**library);
  if (!devices) return none(devices.error());
  for (ibv_device* const device : devices->devices()) {
    verbs::DeviceSpec spec{std::string("ibverbs:") + device->name, "ibverbs", {}, device->name, {}};
    if (opens_as_efa(**library, *device)) {
      spec.text += ",srd";
      spec.options.emplace_back("srd", "1");
    }
    const Result<std::shared_ptr<verbs::Context>> opened = open(spec);
    out.push_back({spec.text, opened.ok(), opened ? "" : opened.error().message});
  }
}

}  // namespace weft::ibverbs
