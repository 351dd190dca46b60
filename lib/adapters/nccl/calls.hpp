// SPDX-License-Identifier: BSD-3-Clause
// NCCL's functions in the forms that they have in its versions, over one implementation, class Net,
// whose static functions have one form each: sizes are size_t, v11's context is the traffic class
// of the communicator. An exception ends in system_error: none leaves the plug-in.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "lib/adapters/nccl/abi.hpp"

namespace weft::nccl {

inline constexpr int kMaxReceives = 8;  // grouped receives of one irecv

// The properties of a device, whatever the version. The strings live as long as the plug-in.
struct Properties {
  const char* name = nullptr;
  const char* pci_path = nullptr;  // null: virtual
  uint64_t guid = 0;
  int pointer_support = kPointerHost;
  int speed_mbps = 0;
  int max_comms = 0;
  size_t max_bytes = 0;
  std::span<const int> members;  // of a virtual device; empty: the device itself
};

// What v11 and v12 keep per communicator.
struct Context {
  int traffic_class = kTrafficClassUndefined;
};

// Calls `function`; none of its exceptions leaves.
template <class Net, class Function>
Outcome guarded(Function function) noexcept {
  try {
    return function();
  } catch (...) {
    Net::log_exception();
    return Outcome::system_error;
  }
}

// Devices and connections, in the forms of all versions, one name each: the type of the table's
// field selects the form. `HandleSize`: bytes of the version's handles.
template <class Net, size_t HandleSize>
struct SetupCalls {
  static Outcome init(Logger logger) {
    return guarded<Net>([&] { return Net::init(logger); });
  }
  static Outcome init(Logger logger, Profiler) { return init(logger); }
  static Outcome init(void** context, uint64_t, CommConfig* config, Logger logger, Profiler) {
    return guarded<Net>([&] {
      if (const Outcome ready = Net::init(logger); ready != Outcome::success) return ready;
      *context = new Context{config != nullptr ? config->traffic_class : kTrafficClassUndefined};
      return Outcome::success;
    });
  }
  static Outcome finalize(void* context) {
    delete static_cast<Context*>(context);
    return guarded<Net>([] { return Net::finalize(); });
  }
  static Outcome devices(int* count) {
    return guarded<Net>([&] { return Net::devices(count); });
  }

  template <class P>
  static Outcome properties(int device, P* out) {
    return guarded<Net>([&] {
      Properties from;
      const Outcome found = Net::properties(device, from);
      if (found == Outcome::success) *out = converted<P>(device, from);
      return found;
    });
  }

  static Outcome listen(int device, void* handle, void** comm) {
    return guarded<Net>([&] {
      return Net::listen(device, {static_cast<std::byte*>(handle), HandleSize}, comm);
    });
  }
  static Outcome listen(void*, int device, void* handle, void** comm) {
    return listen(device, handle, comm);
  }
  static Outcome connect(int device, void* handle, void** comm) {
    return connect_in(kTrafficClassUndefined, device, handle, comm);
  }
  static Outcome connect(int device, void* handle, void** comm, DeviceHandle** offload) {
    set_none(offload);
    return connect(device, handle, comm);
  }
  static Outcome connect(int device, CommConfig* config, void* handle, void** comm,
                         DeviceHandle** offload) {
    set_none(offload);
    return connect_in(config != nullptr ? config->traffic_class : kTrafficClassUndefined, device,
                      handle, comm);
  }
  static Outcome connect(void* context, int device, void* handle, void** comm,
                         DeviceHandle** offload) {
    set_none(offload);
    const Context none;
    const Context& own = context != nullptr ? *static_cast<const Context*>(context) : none;
    return connect_in(own.traffic_class, device, handle, comm);
  }
  static Outcome accept(void* listener, void** comm) {
    return guarded<Net>([&] { return Net::accept(listener, comm); });
  }
  static Outcome accept(void* listener, void** comm, DeviceHandle** offload) {
    set_none(offload);
    return accept(listener, comm);
  }

 private:
  // Nothing of the connection is offloaded to the GPU.
  static void set_none(DeviceHandle** offload) {
    if (offload != nullptr) *offload = nullptr;
  }
  static Outcome connect_in(int traffic_class, int device, void* handle, void** comm) {
    return guarded<Net>([&] {
      return Net::connect(device, traffic_class, {static_cast<std::byte*>(handle), HandleSize},
                          comm);
    });
  }
  template <class P>
  static P converted(int device, const Properties& from) {
    P out{};
    out.name = const_cast<char*>(from.name);
    out.pci_path = const_cast<char*>(from.pci_path);
    out.guid = from.guid;
    out.pointer_support = from.pointer_support;
    out.speed_mbps = from.speed_mbps;
    out.port = 1;
    out.max_comms = from.max_comms;
    if constexpr (requires { out.max_receives; }) out.max_receives = kMaxReceives;
    if constexpr (requires { out.members; }) {
      const int own[] = {device};
      const std::span<const int> members = from.members.empty() ? own : from.members;
      out.members.count =
          static_cast<int>(std::min(members.size(), std::size(out.members.devices)));
      std::copy_n(members.begin(), out.members.count, out.members.devices);
      out.max_p2p_bytes = out.max_collective_bytes = from.max_bytes;
    }
    if constexpr (requires { out.max_multi_request; }) out.max_multi_request = 1;
    if constexpr (requires { out.rail_id; })
      out.rail_id = out.plane_id = static_cast<int16_t>(kIdUndefined);
    return out;
  }
};

// Memory, sends and receives, likewise.
template <class Net>
struct DataCalls {
  template <class Size>
  static Outcome register_memory(void* comm, void* data, Size size, int type, void** memory) {
    return guarded<Net>([&] {
      return size < Size{0}
                 ? Outcome::internal_error
                 : Net::register_memory(comm, data, static_cast<size_t>(size), type, memory);
    });
  }
  static Outcome register_dmabuf(void* comm, void* data, size_t size, int type, uint64_t offset,
                                 int fd, void** memory) {
    return guarded<Net>(
        [&] { return Net::register_dmabuf(comm, data, size, type, offset, fd, memory); });
  }
  static Outcome deregister(void* comm, void* memory) {
    return guarded<Net>([&] { return Net::deregister(comm, memory); });
  }

  static Outcome isend(void* comm, void* data, int size, void* memory, void** request) {
    return isend<int>(comm, data, size, 0, memory, request);
  }
  template <class Size>
  static Outcome isend(void* comm, void* data, Size size, int tag, void* memory, void** request) {
    return guarded<Net>([&] {
      return size < Size{0}
                 ? Outcome::internal_error
                 : Net::isend(comm, data, static_cast<size_t>(size), tag, memory, request);
    });
  }
  static Outcome isend(void* comm, void* data, size_t size, int tag, void* memory, void*,
                       void** request) {
    return isend<size_t>(comm, data, size, tag, memory, request);
  }

  static Outcome irecv(void* comm, void* data, int size, void* memory, void** request) {
    int tag = 0;
    return irecv<int>(comm, 1, &data, &size, &tag, &memory, request);
  }
  template <class Size>
  static Outcome irecv(void* comm, int count, void** data, Size* sizes, int* tags, void** memories,
                       void** request) {
    return guarded<Net>([&] {
      if (count < 1 || count > kMaxReceives) return Outcome::internal_error;
      std::array<size_t, kMaxReceives> wide;
      for (int i = 0; i < count; ++i) {
        if (sizes[i] < Size{0}) return Outcome::internal_error;
        wide[i] = static_cast<size_t>(sizes[i]);
      }
      return Net::irecv(comm, count, data, wide.data(), tags, memories, request);
    });
  }
  static Outcome irecv(void* comm, int count, void** data, size_t* sizes, int* tags,
                       void** memories, void**, void** request) {
    return irecv<size_t>(comm, count, data, sizes, tags, memories, request);
  }

  static Outcome iflush(void* comm, void*, int, void*, void** request) {
    return guarded<Net>([&] { return Net::iflush(comm, request); });
  }
  static Outcome iflush(void* comm, int, void**, int*, void**, void** request) {
    return guarded<Net>([&] { return Net::iflush(comm, request); });
  }
  static Outcome test(void* request, int* done, int* sizes) {
    return guarded<Net>([&] { return Net::test(request, done, sizes); });
  }
  static Outcome close_send(void* comm) {
    return guarded<Net>([&] { return Net::close_send(comm); });
  }
  static Outcome close_receive(void* comm) {
    return guarded<Net>([&] { return Net::close_receive(comm); });
  }
  static Outcome close_listen(void* comm) {
    return guarded<Net>([&] { return Net::close_listen(comm); });
  }
  template <int Most>
  static Outcome make_virtual(int* device, VirtualDevice<Most>* members) {
    return guarded<Net>([&] {
      if (members->count < 1 || members->count > Most) return Outcome::invalid_usage;
      return Net::make_virtual(device, {members->devices, static_cast<size_t>(members->count)});
    });
  }
  static Outcome set_attributes(void*, NetAttributes*) { return Outcome::success; }
};

}  // namespace weft::nccl
