// SPDX-License-Identifier: BSD-3-Clause
// The binary interface between NCCL (or RCCL) and a network plug-in: the tables of functions that a
// plug-in exports as ncclNetPlugin_v4 .. ncclNetPlugin_v12, and what they pass.
//
// Layouts and numbers are those of the ABI, as NCCL 2.30.7 declares them in plugins/net/example;
// names and text are ours. Which NCCL asks for which: v4 2.8, v5 2.12, v6 2.13 to 2.18, v7 2.19,
// v8 2.20 to 2.23, v9 2.24 and 2.25, v10 2.26 and 2.27, v11 2.28 and 2.29, v12 2.30. Each looks for
// older ones, down to v6, if its own is missing. AWS Neuron's loader takes v4 and v5.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::nccl {

// What every function returns (ncclResult_t).
enum class Outcome : int {
  success = 0,
  system_error = 2,    // the operating system, the device or the network failed
  internal_error = 3,  // NCCL called out of the contract
  invalid_usage = 5,   // the user's configuration, or sizes that do not fit
  remote_error = 6,    // the peer died, left or refused
};

inline constexpr size_t kHandleSize = 128;         // bytes of a handle, from v5 on
inline constexpr size_t kHandleSizeV4 = 64;        // and before
inline constexpr int kMaxRequests = 32;            // requests that NCCL has in flight per comm
inline constexpr int kPointerHost = 1;             // bits of pointer_support and of `type` of regMr
inline constexpr int kPointerCuda = 2;             //
inline constexpr int kPointerDmabuf = 4;           //
inline constexpr int kTrafficClassUndefined = -1;  // CommConfig::traffic_class
inline constexpr int kIdUndefined = -1;            // PropertiesV12::rail_id, plane_id
// *request at irecv (v9 and newer): the caller does not need to know when it completes.
inline constexpr uintptr_t kOptionalCompletion = 1;

// Levels and subsystems of a log line.
enum LogLevel : int { kLogWarn = 2, kLogInfo = 3 };
inline constexpr unsigned long kLogInit = 1, kLogNet = 16;
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);
using Profiler = Outcome (*)(void** event, int type, void* profile, int64_t plugin, void* data);

template <int Most>
struct VirtualDevice {
  int count;
  int devices[Most];
};
struct CommConfig {
  int traffic_class;
};
struct CommAttributes {
  int32_t max_concurrent_peers, min_concurrent_peers, max_flows_per_peer, min_flows_per_peer;
};
struct NetAttributes {
  CommAttributes send, receive;
  uint32_t operation, algorithm, protocol;
};
// Offload of a connection to the GPU, which weft does not have.
struct DeviceHandle {
  int type, version;
  void* handle;
  size_t size;
  int needs_progress;
};

struct PropertiesV4 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int speed_mbps;
  int port;
  int max_comms;
};
struct PropertiesV6 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int speed_mbps;
  int port;
  float latency_us;
  int max_comms;
  int max_receives;
};
struct PropertiesV7 : PropertiesV6 {
  int device_type;
  int device_version;
};
struct PropertiesV8 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed_mbps;
  int port;
  float latency_us;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
};
// v9 and v10 with 4 members.
template <int Most>
struct PropertiesV9Form {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbps;
  int port;
  float latency_us;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  VirtualDevice<Most> members;
  size_t max_p2p_bytes;
  size_t max_collective_bytes;
};
using PropertiesV9 = PropertiesV9Form<4>;
struct PropertiesV11 : PropertiesV9 {
  int max_multi_request;
};
struct PropertiesV12 : PropertiesV9Form<8> {
  int max_multi_request;
  int16_t rail_id;
  int16_t plane_id;
};
// Where a version adds fields to another's, none of them lies in that one's padding.
static_assert(sizeof(PropertiesV6) == 48 && sizeof(PropertiesV7) == 56 &&
              sizeof(PropertiesV9) == 104 && sizeof(PropertiesV11) == 112 &&
              sizeof(PropertiesV9Form<8>) == 120 && sizeof(PropertiesV12) == 128);

// The functions, by the form that they have in some versions.
using InitV4 = Outcome (*)(Logger);
using InitV10 = Outcome (*)(Logger, Profiler);
using InitV11 = Outcome (*)(void** context, uint64_t comm_id, CommConfig*, Logger, Profiler);
using Devices = Outcome (*)(int* count);
template <class Properties>
using PropertiesOf = Outcome (*)(int device, Properties*);
using ListenV4 = Outcome (*)(int device, void* handle, void** listen_comm);
using ListenV11 = Outcome (*)(void* context, int device, void* handle, void** listen_comm);
using ConnectV4 = Outcome (*)(int device, void* handle, void** send_comm);
using ConnectV7 = Outcome (*)(int device, void* handle, void** send_comm, DeviceHandle**);
using ConnectV10 = Outcome (*)(int device, CommConfig*, void* handle, void** send_comm,
                               DeviceHandle**);
using ConnectV11 = Outcome (*)(void* context, int device, void* handle, void** send_comm,
                               DeviceHandle**);
using AcceptV4 = Outcome (*)(void* listen_comm, void** receive_comm);
using AcceptV7 = Outcome (*)(void* listen_comm, void** receive_comm, DeviceHandle**);
template <class Size>
using Register = Outcome (*)(void* comm, void* data, Size size, int type, void** memory);
using RegisterDmabuf = Outcome (*)(void* comm, void* data, size_t size, int type, uint64_t offset,
                                   int fd, void** memory);
using Deregister = Outcome (*)(void* comm, void* memory);
using SendV4 = Outcome (*)(void* comm, void* data, int size, void* memory, void** request);
template <class Size>
using SendV5 = Outcome (*)(void* comm, void* data, Size size, int tag, void* memory,
                           void** request);
using SendV10 = Outcome (*)(void* comm, void* data, size_t size, int tag, void* memory,
                            void* profile, void** request);
using ReceiveV4 = Outcome (*)(void* comm, void* data, int size, void* memory, void** request);
template <class Size>
using ReceiveV5 = Outcome (*)(void* comm, int count, void** data, Size* sizes, int* tags,
                              void** memories, void** request);
using ReceiveV10 = Outcome (*)(void* comm, int count, void** data, size_t* sizes, int* tags,
                               void** memories, void** profiles, void** request);
using FlushV4 = Outcome (*)(void* comm, void* data, int size, void* memory, void** request);
using FlushV5 = Outcome (*)(void* comm, int count, void** data, int* sizes, void** memories,
                            void** request);
using Test = Outcome (*)(void* request, int* done, int* sizes);
using Close = Outcome (*)(void* comm);
using DeviceMemory = Outcome (*)(void* comm, void* memory, void** on_device);
using ReceiveConsumed = Outcome (*)(void* comm, int count, void* request);
template <int Most>
using MakeVirtual = Outcome (*)(int* device, VirtualDevice<Most>*);
using Finalize = Outcome (*)(void* context);
using SetAttributes = Outcome (*)(void* context, NetAttributes*);

// The runs of functions that tables consist of.
template <class Init, class Properties, class Listen, class Connect, class Accept, class Size>
struct SetupFunctions {
  const char* name;
  Init init;
  Devices devices;
  PropertiesOf<Properties> properties;
  Listen listen;
  Connect connect;
  Accept accept;
  Register<Size> register_memory;
};
struct DmabufFunctions {
  RegisterDmabuf register_dmabuf;
};
template <class Send, class Receive, class Flush>
struct DataFunctions {
  Deregister deregister;
  Send isend;
  Receive irecv;
  Flush iflush;
  Test test;
  Close close_send, close_receive, close_listen;
};
struct OffloadFunctions {
  DeviceMemory device_memory;
  ReceiveConsumed receive_consumed;
};
template <int Most>
struct VirtualFunctions {
  MakeVirtual<Most> make_virtual;
};
struct ContextFunctions {
  Finalize finalize;
  SetAttributes set_attributes;
};

// The tables: bases lie one behind the other.
struct TableV4 : SetupFunctions<InitV4, PropertiesV4, ListenV4, ConnectV4, AcceptV4, int>,
                 DataFunctions<SendV4, ReceiveV4, FlushV4> {};
using SetupV5 = SetupFunctions<InitV4, PropertiesV6, ListenV4, ConnectV4, AcceptV4, int>;
template <class Size>
using DataV5 = DataFunctions<SendV5<Size>, ReceiveV5<Size>, FlushV5>;
struct TableV5 : SetupV5, DataV5<int> {};
struct TableV6 : SetupV5, DmabufFunctions, DataV5<int> {};
template <class Properties, class Size>
using SetupV7 = SetupFunctions<InitV4, Properties, ListenV4, ConnectV7, AcceptV7, Size>;
struct TableV7 : SetupV7<PropertiesV7, int>, DmabufFunctions, DataV5<int>, OffloadFunctions {};
struct TableV8 : SetupV7<PropertiesV8, size_t>, DmabufFunctions, DataV5<int>, OffloadFunctions {};
struct TableV9 : SetupV7<PropertiesV9, size_t>,
                 DmabufFunctions,
                 DataV5<size_t>,
                 OffloadFunctions,
                 VirtualFunctions<4> {};
using DataV10 = DataFunctions<SendV10, ReceiveV10, FlushV5>;
struct TableV10 : SetupFunctions<InitV10, PropertiesV9, ListenV4, ConnectV10, AcceptV7, size_t>,
                  DmabufFunctions,
                  DataV10,
                  OffloadFunctions,
                  VirtualFunctions<4> {};
// v11 with PropertiesV11 and 4 members, v12 with PropertiesV12 and 8.
template <class Properties, int Most>
struct TableV11Form : SetupFunctions<InitV11, Properties, ListenV11, ConnectV11, AcceptV7, size_t>,
                      DmabufFunctions,
                      DataV10,
                      OffloadFunctions,
                      VirtualFunctions<Most>,
                      ContextFunctions {};
using TableV11 = TableV11Form<PropertiesV11, 4>;
using TableV12 = TableV11Form<PropertiesV12, 8>;
static_assert(sizeof(TableV4) == 16 * sizeof(void*) && sizeof(TableV6) == 17 * sizeof(void*) &&
              sizeof(TableV8) == 19 * sizeof(void*) && sizeof(TableV10) == 20 * sizeof(void*) &&
              sizeof(TableV12) == 22 * sizeof(void*));

}  // namespace weft::nccl
