// SPDX-License-Identifier: BSD-3-Clause
// The plug-in itself: NCCL's functions on weft's devices, and the tables that are exported.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "lib/adapters/nccl/bootstrap.hpp"
#include "lib/adapters/nccl/log.hpp"
#include "lib/adapters/nccl/tables.hpp"

namespace weft::nccl {
namespace {

// Connections that connect() has begun, by the number in their handle.
class Begun {
 public:
  static Begun& of_process() {
    static Begun all;
    return all;
  }
  std::unique_ptr<Connecting> take(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = all_.find(number);
    if (found == all_.end()) return nullptr;
    std::unique_ptr<Connecting> taken = std::move(found->second);
    all_.erase(found);
    return taken;
  }
  // Also forgets those that are not advanced any more.
  void put(uint64_t number, std::unique_ptr<Connecting> begun) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(all_, [](const auto& each) { return each.second->is_overdue(); });
    all_[number] = std::move(begun);
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Connecting>> all_;
};

// Whether NCCL_PROTO, a list with a comma between two or behind ^ of what is excluded, allows the
// protocol.
bool allows(std::string_view list, std::string_view protocol) {
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; };
  bool named = false;
  while (!list.empty()) {
    const std::string_view each = list.substr(0, list.find(','));
    named = named || std::equal(each.begin(), each.end(), protocol.begin(), protocol.end(), same);
    list.remove_prefix(std::min(list.size(), each.size() + 1));
  }
  return named != excludes;
}

// NCCL's protocols LL and LL128 have a GPU poll on the payload itself while it arrives, and need
// stores of 8 and 128 bytes in order. weft copies with the C library's memcpy(), which promises no
// order.
void exclude_low_latency_protocols() {
  const char* const protocols = std::getenv("NCCL_PROTO");
  if (protocols == nullptr) {
    (void)::setenv("NCCL_PROTO", "Simple", 0);
    log_info(
        "NCCL_PROTO=Simple is set: received bytes become visible in any order, so the protocols LL "
        "and LL128 are not used");
  } else if (allows(protocols, "LL") || allows(protocols, "LL128")) {
    log_warning(std::string("NCCL_PROTO=") + protocols +
                " allows LL or LL128, which may read wrong data: received bytes become visible in "
                "any order; use NCCL_PROTO=Simple");
  }
}

// NCCL takes devices without a PCI device for ports of one NIC, merges them, and then finds no path
// from a GPU to what it has merged, so no communicator can be created (2.28 and 2.30).
void keep_devices_apart() {
  if (DeviceList::of_process().without_pci() < 2) return;
  if (std::getenv("NCCL_NET_MERGE_LEVEL") != nullptr) return;
  (void)::setenv("NCCL_NET_MERGE_LEVEL", "LOC", 0);
  log_info(
      "NCCL_NET_MERGE_LEVEL=LOC is set: several devices have no PCI device, and NCCL cannot use "
      "what it merges of them");
}

struct Plugin {
  static constexpr const char* kName = "weft";
  static constexpr bool kMergesDevices = true;

  static void log_exception() { log_warning("out of memory"); }

  static Outcome init(Logger logger) {
    set_logger(logger);
    if (const Result<void> opened = DeviceList::of_process().open(); !opened)
      return report("init", opened.error());
    exclude_low_latency_protocols();
    keep_devices_apart();
    return Outcome::success;
  }
  // The devices serve the next communicator, too.
  static Outcome finalize() { return Outcome::success; }
  static Outcome devices(int* count) {
    *count = DeviceList::of_process().size();
    return Outcome::success;
  }
  static Outcome properties(int device, Properties& out) {
    const Result<const NetDevice*> found = DeviceList::of_process().at(device);
    if (!found) return report("getProperties", found.error());
    const NetDevice& from = **found;
    out.name = from.name.c_str();
    out.pci_path = from.pci_path.empty() ? nullptr : from.pci_path.c_str();
    out.guid = from.guid;
    out.speed_mbps = static_cast<int>(from.speed_mbps);
    out.max_comms = from.max_comms;
    out.max_bytes = size_t{from.max_part} * kMaxPartsOfReceive;
    out.members = from.members;
    return Outcome::success;
  }
  static Outcome make_virtual(int* device, std::span<const int> members) {
    const Result<int> made = DeviceList::of_process().merge(members);
    if (!made) return report("makeVDevice", made.error());
    *device = *made;
    return Outcome::success;
  }

  static Outcome listen(int device, std::span<std::byte> handle, void** comm) {
    *comm = nullptr;
    const Result<const NetDevice*> found = DeviceList::of_process().at(device);
    if (!found) return report("listen", found.error());
    Result<std::unique_ptr<ListenComm>> made = ListenComm::create(**found, handle);
    if (!made) return report("listen on " + (*found)->name, made.error());
    *comm = made->release();
    return Outcome::success;
  }
  static Result<std::unique_ptr<Connecting>> begin(int device, int traffic_class,
                                                   std::span<const std::byte> bytes) {
    const Result<const NetDevice*> found = DeviceList::of_process().at(device);
    if (!found) return found.error();
    const Result<Handle> handle = parse_handle(bytes);
    if (!handle) return handle.error();
    return Connecting::start(**found, traffic_class, *handle);
  }
  static Outcome connect(int device, int traffic_class, std::span<std::byte> bytes, void** comm) {
    *comm = nullptr;
    uint64_t number = connection_number(bytes);
    std::unique_ptr<Connecting> begun = Begun::of_process().take(number);
    if (begun == nullptr) {
      Result<std::unique_ptr<Connecting>> made = begin(device, traffic_class, bytes);
      if (!made) return report("connect", made.error());
      begun = std::move(*made);
      const Result<uint64_t> random = random_number();
      if (!random) return report("connect", random.error());
      number = std::max<uint64_t>(1, *random);
    }
    Result<std::unique_ptr<SendComm>> made = begun->advance();
    set_connection_number(bytes, made && !*made ? number : 0);
    if (!made) return report("connect", made.error());
    if (*made)
      *comm = static_cast<Comm*>(made->release());
    else
      Begun::of_process().put(number, std::move(begun));
    return Outcome::success;
  }
  static Outcome accept(void* listener, void** comm) {
    *comm = nullptr;
    Result<std::unique_ptr<ReceiveComm>> made = static_cast<ListenComm*>(listener)->accept();
    if (!made) return report("accept", made.error());
    if (*made) *comm = static_cast<Comm*>(made->release());
    return Outcome::success;
  }

  static Outcome remember(Result<Memory*> made, void** memory) {
    *memory = made ? *made : nullptr;
    return made ? Outcome::success : report("regMr", made.error());
  }
  static Outcome register_memory(void* comm, void* data, size_t size, int type, void** memory) {
    const Comm& on = *static_cast<Comm*>(comm);
    if (type == kPointerHost) return remember(on.register_memory(data, size, on.access()), memory);
    return remember(Error{Code::not_supported, "memory of type " + std::to_string(type) +
                                                   ": weft takes host memory only, as "
                                                   "getProperties() says"},
                    memory);
  }
  static Outcome register_dmabuf(void* comm, void* data, size_t size, int, uint64_t offset, int fd,
                                 void** memory) {
    const Comm& on = *static_cast<Comm*>(comm);
    return remember(on.register_dmabuf(data, size, offset, fd, on.access()), memory);
  }
  static Outcome deregister(void*, void* memory) {
    delete static_cast<Memory*>(memory);
    return Outcome::success;
  }

  static Outcome isend(void* comm, void* data, size_t size, int tag, void* memory, void** request) {
    return static_cast<SendComm*>(static_cast<Comm*>(comm))
        ->isend(data, size, tag, static_cast<const Memory*>(memory), request);
  }
  // An optional completion is a completion like any other.
  static Outcome irecv(void* comm, int count, void** data, const size_t* sizes, const int* tags,
                       void** memories, void** request) {
    return static_cast<ReceiveComm*>(static_cast<Comm*>(comm))
        ->irecv(count, data, sizes, tags, memories, request);
  }
  // Data in host memory is visible when test() says that it has arrived.
  static Outcome iflush(void*, void** request) {
    *request = nullptr;
    return Outcome::success;
  }
  static Outcome test(void* request, int* done, int* sizes) {
    auto& tested = *static_cast<Request*>(request);
    return tested.comm->test(tested, done, sizes);
  }

  static Outcome close(void* comm) {
    if (comm == nullptr) return Outcome::success;
    auto* const closed = static_cast<Comm*>(comm);
    closed->say_goodbye();
    delete closed;
    return Outcome::success;
  }
  static Outcome close_send(void* comm) { return close(comm); }
  static Outcome close_receive(void* comm) { return close(comm); }
  static Outcome close_listen(void* comm) {
    delete static_cast<ListenComm*>(comm);
    return Outcome::success;
  }
};

}  // namespace
}  // namespace weft::nccl

WEFT_NCCL_TABLES(weft::nccl::Plugin)

#ifdef WEFT_NCCL_OLD_TABLES
WEFT_NCCL_TABLES_OF_NEURON(weft::nccl::Plugin)
#endif
