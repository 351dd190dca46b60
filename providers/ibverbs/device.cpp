// SPDX-License-Identifier: BSD-3-Clause
// See device.hpp.
#include "providers/ibverbs/device.hpp"

#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "lib/base/interface.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

constexpr uint32_t kVendorOfRxe = 0xFFFFFF;
constexpr uint32_t kVendorOfEfa = 0x1D0F;
constexpr uint32_t kVendorOfSiw = 0x626D74;
constexpr const char* kSysfs = "/sys/class/infiniband";
constexpr const char* kSysfsVerbs = "/sys/class/infiniband_verbs";

std::string device_file(const std::string& name) { return "/dev/infiniband/" + name; }

bool exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

// Why libibverbs does not show a device that the kernel has: its file is missing (the kernel's list
// of them says which it would be), or the part of libibverbs that knows such devices.
Error hidden() {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kSysfsVerbs, none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("uverbs") && !exists(device_file(name)))
      return {Code::not_found, "there is no " + device_file(name) +
                                   " for a device of this machine: in a container, pass "
                                   "/dev/infiniband into it"};
  }
  return {Code::not_found,
          "libibverbs does not show a device of this machine: it is just being removed, or its "
          "driver is missing; install that: apt-get install ibverbs-providers, and see that the "
          "module ib_uverbs is loaded"};
}

Error no_device() {
  std::error_code none;
  if (!std::filesystem::is_empty(kSysfs, none) && !none) return hidden();
  return {Code::not_found, std::string("this machine has no RDMA device (") + kSysfs +
                               " is empty); load the driver of one, or make one of software: "
                               "rdma link add rxe0 type rxe netdev eth0"};
}

bool is_iwarp(const ibv_context& context) {
  return context.device->transport_type == IBV_TRANSPORT_IWARP;
}

std::string name_of(const ibv_context& context, uint32_t port) {
  return "port " + std::to_string(port) + " of " + context.device->name;
}

Result<void> check_port(const ibv_context& context, const PortSelection& selection,
                        const ibv_port_attr& port) {
  const std::string name = name_of(context, selection.port);
#if !WEFT_HAVE_RDMACM
  if (is_iwarp(context))
    return Error{Code::not_supported, name +
                                          " is iWARP, whose connections only a connection manager "
                                          "can make; weft was built without librdmacm-dev"};
#endif
  if (port.link_layer != IBV_LINK_LAYER_ETHERNET && !selection.srd)
    return Error{Code::not_supported,
                 name + " is InfiniBand, where a peer has a LID besides its GID; weft knows RoCE"};
  if (port.state != IBV_PORT_ACTIVE)
    return Error{Code::io_error, name +
                                     " is down: bring the network interface below it up (`rdma "
                                     "link` names it, ip link set INTERFACE up)"};
  return {};
}

Result<GidEntry> pick_gid(const std::vector<GidEntry>& entries, const PortSelection& selection,
                          const std::string& name) {
  if (!selection.gid_index) {
    const GidEntry* const best = choose_gid(entries);
    if (best == nullptr)
      return Error{Code::not_found,
                   name +
                       " has no address: give the network interface below it one (`rdma link` "
                       "names it, ip addr add ADDRESS/LENGTH dev INTERFACE)"};
    return *best;
  }
  std::string valid;
  for (const GidEntry& entry : entries) {
    if (entry.index == *selection.gid_index) return entry;
    valid += (valid.empty() ? "" : ", ") + std::to_string(entry.index) + " = " +
             to_string(entry.gid) + (entry.v2 ? " (RoCE v2)" : " (RoCE v1)");
  }
  return Error{Code::invalid_argument, "gid=" + std::to_string(*selection.gid_index) + ": " + name +
                                           " has " + (valid.empty() ? "none" : valid)};
}

// Of iWARP: the IP address that the port has in place of a GID.
std::vector<GidEntry> stand_ins(const std::vector<GidEntry>& gids) {
  std::vector<GidEntry> found;
  for (const GidEntry& entry : gids)
    if (const Gid address = address_of_mac(entry.gid); address != Gid{})
      found.push_back({entry.index, address, false});
  return found;
}

// No call says how much inline data a queue pair can have: the largest that one is made with.
uint32_t most_inline(const Library& library, ibv_context& context) {
  const Owned<ibv_pd> pd = own(library.alloc_pd(&context), library.dealloc_pd);
  const Owned<ibv_cq> cq =
      own(library.create_cq(&context, 1, nullptr, nullptr, 0), library.destroy_cq);
  if (pd == nullptr || cq == nullptr) return 0;
  for (const uint32_t size : {512u, 256u, 128u, 64u, 32u}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {1, 1, 1, 1, size};
    const Owned<ibv_qp> qp = own(library.create_qp(pd.get(), &wanted), library.destroy_qp);
    if (qp != nullptr) return std::max(size, wanted.cap.max_inline_data);
  }
  return 0;
}

// Probed, since no query reports it: with support, registering the descriptor -1 fails with EBADF.
bool has_dmabuf(const Library& library, ibv_context& context) {
  if (library.reg_dmabuf_mr == nullptr) return false;
  const Owned<ibv_pd> pd = own(library.alloc_pd(&context), library.dealloc_pd);
  if (pd == nullptr) return false;
  const Owned<ibv_mr> region = own(
      library.reg_dmabuf_mr(pd.get(), 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE), library.dereg_mr);
  return region == nullptr && errno == EBADF;
}

uint32_t positive(int value) { return static_cast<uint32_t>(std::max(value, 0)); }

void describe_limits(const ibv_device_attr& device, DeviceAttributes& a) {
  a.max_cq = positive(device.max_cq);
  a.max_pd = positive(device.max_pd);
  a.max_mr = positive(device.max_mr);
  a.max_mw = positive(device.max_mw);
  a.max_ah = positive(device.max_ah);
  a.max_srq = positive(device.max_srq);
  a.max_srq_wr = positive(device.max_srq_wr);
  a.max_srq_sge = positive(device.max_srq_sge);
  a.max_mr_size = device.max_mr_size;
  a.node_guid = be64toh(device.node_guid);
  a.resizes_srq = (device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0;
}

// By trial, as no query says so.
bool has_null_region(const Library& library, ibv_context& context) {
  const Owned<ibv_pd> pd = own(library.alloc_pd(&context), library.dealloc_pd);
  if (pd == nullptr) return false;
  return own(ibv_alloc_null_mr(pd.get()), library.dereg_mr) != nullptr;
}

// What only the extended query says.
void describe_extended(ibv_context& context, DeviceAttributes& a) {
  const verbs_context* const calls = __extension__ verbs_get_ctx_op(&context, query_device_ex);
  ibv_device_attr_ex said{};
  if (calls == nullptr || calls->query_device_ex(&context, nullptr, &said, sizeof said) != 0)
    return;
  a.has_on_demand = (said.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
  a.has_rate_limit = said.packet_pacing_caps.qp_rate_limit_max != 0 &&
                     (said.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC) != 0;
}

DeviceAttributes describe(const ibv_context& context, const ibv_device_attr& device,
                          const ibv_port_attr& port, const Gid& gid) {
  DeviceAttributes a;
  a.provider = "ibverbs";
  a.port = context.device->name;
  a.gid = gid;
  // More than the network interface takes does not arrive, whatever the device could do.
  a.max_mtu = a.active_mtu = mtu_from_verbs(port.active_mtu);
  a.max_qp = positive(device.max_qp);
  a.max_qp_wr = positive(device.max_qp_wr);
  a.max_sge = positive(device.max_sge);
  a.max_cqe = positive(device.max_cqe);
  a.max_rd_atomic = std::min(
      {positive(device.max_qp_rd_atom), positive(device.max_qp_init_rd_atom), uint32_t{UINT8_MAX}});
  a.max_message = a.max_send = port.max_msg_sz;
  a.integrity_bits = 32;
  a.pins_memory = true;
  describe_limits(device, a);
  a.has_atomics = device.atomic_cap != IBV_ATOMIC_NONE;
  if (is_iwarp(context)) {  // RFC 5040: SEND, WRITE and READ of a reliable connection
    a.only_by_cm = true;
    a.confirms = false;
    a.has_uc = a.has_ud = a.has_atomics = a.has_immediate = false;
  }
  a.invalidates_regions = false;  // verbs revoke keys of memory windows only
  return a;
}

}  // namespace

Result<DeviceList> DeviceList::read(const Library& library) {
  int count = 0;
  ibv_device** const raw = library.get_device_list(&count);
  List list(raw, library.free_device_list);
  if (raw == nullptr || count == 0) return no_device();
  return DeviceList(std::move(list), count);
}

std::string DeviceList::names() const {
  std::string names;
  for (const ibv_device* device : devices())
    names += (names.empty() ? "" : ", ") + std::string(device->name);
  return names;
}

Result<ibv_device*> DeviceList::find(const std::string& name) const {
  for (ibv_device* const device : devices())
    if (name == device->name || (name.empty() && count_ == 1)) return device;
  if (name.empty())
    return Error{
        Code::invalid_argument,
        "this machine has several RDMA devices: name one, ibverbs:NAME; there are " + names()};
  if (exists(std::string(kSysfs) + "/" + name)) return hidden();
  return Error{Code::not_found,
               "no RDMA device is called \"" + name + "\"; this machine has " + names()};
}

Result<Owned<ibv_context>> open_device(const Library& library, ibv_device& device) {
  Owned<ibv_context> context = own(library.open_device(&device), library.close_device);
  if (context != nullptr) return context;
  const int error = errno;  // not always that of the file
  const std::string file = device_file(device.dev_name);
  if (faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) != 0 && errno == EACCES)
    return Error{Code::permission_denied,
                 "no right to open " + file + " of " + device.name +
                     ": run as root, or let the user read and write that file"};
  return error_of(error, std::string("cannot open ") + device.name);
}

bool is_efa(const ibv_device_attr& device) noexcept { return device.vendor_id == kVendorOfEfa; }

Owned<ibv_cq> reserve_siw_mmap_key(const Library& library, ibv_context& context,
                                   const ibv_device_attr& device) {
  constexpr int kEntries = 32768;  // of 32 bytes: mmap keys 0 to 0x100000, which contain 0x90000
  if (device.vendor_id != kVendorOfSiw) return {};
  return own(library.create_cq(&context, kEntries, nullptr, nullptr, 0), library.destroy_cq);
}

Result<UsablePort> inspect_port(const Library& library, ibv_context& context,
                                const PortSelection& selection) {
  ibv_device_attr device{};
  if (const int error = library.query_device(&context, &device); error != 0)
    return error_of(error, std::string("cannot query ") + context.device->name);
  if (selection.port > device.phys_port_cnt)
    return Error{Code::invalid_argument, "port=" + std::to_string(selection.port) + ": " +
                                             context.device->name + " has ports 1.." +
                                             std::to_string(device.phys_port_cnt)};
  const auto number = static_cast<uint8_t>(selection.port);
  ibv_port_attr port{};  // the exported call fills in the part that all versions have
  if (const int error =
          library.query_port(&context, number, reinterpret_cast<_compat_ibv_port_attr*>(&port));
      error != 0)
    return error_of(error, "cannot query " + name_of(context, selection.port));
  if (is_efa(device) && !selection.srd)
    return Error{Code::not_supported, std::string(context.device->name) +
                                          " is an EFA, which has no RC: open it for SRD, "
                                          "ibverbs:" +
                                          context.device->name + ",srd"};
  if (const Result<void> ok = check_port(context, selection, port); !ok) return ok.error();
  std::vector<GidEntry> gids = read_gids(library, context, number, port.gid_tbl_len);
  if (is_iwarp(context)) gids = stand_ins(gids);
  const Result<GidEntry> gid = pick_gid(gids, selection, name_of(context, selection.port));
  if (!gid) return gid.error();
  const bool is_rxe = device.vendor_id == kVendorOfRxe;
  UsablePort usable{{number, gid->index, static_cast<uint8_t>(is_rxe ? 6 : 7)},
                    describe(context, device, port, gid->gid),
                    device,
                    port};
  usable.attributes.has_xrc = (device.device_cap_flags & IBV_DEVICE_XRC) != 0;
  if (!selection.srd) usable.attributes.max_inline = most_inline(library, context);
  usable.attributes.interface_index = interface_of_entry(context, number, gid->index);
  if (usable.attributes.interface_index == 0)
    usable.attributes.interface_index = base::interface_for(gid->gid);
  usable.attributes.has_dmabuf = has_dmabuf(library, context);
  // siw takes the call and ignores the address.
  usable.attributes.has_iova = library.reg_mr_iova2 != nullptr && !is_iwarp(context);
  usable.attributes.has_null_region = has_null_region(library, context);
  describe_extended(context, usable.attributes);
  return usable;
}

}  // namespace weft::ibverbs
