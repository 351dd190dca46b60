// SPDX-License-Identifier: BSD-3-Clause
// See net.hpp. One template over the tables: what differs is told from their types.
#include "tools/nccl_check/net.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

namespace weft::nccl_check {
namespace {

using namespace nccl;

int log_level = 0;

void log(int level, unsigned long, const char* file, int line, const char* format, ...) {
  if (level > log_level) return;
  char text[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "[%d] %s %s:%d %s\n", static_cast<int>(::getpid()),
               level == kLogWarn ? "WARN" : "INFO", file, line, text);
}

void check(Outcome outcome, const char* function) {
  if (outcome != Outcome::success)
    throw Failure{std::string(function) + "() returns " + name_of(outcome)};
}

template <class Table>
class NetOf final : public Net {
 public:
  NetOf(const Table& table, int number) : table_(table) { version = number; }

  Outcome init() override {
    if constexpr (std::is_same_v<decltype(Table::init), InitV4>) return table_.init(log);
    if constexpr (std::is_same_v<decltype(Table::init), InitV10>) return table_.init(log, nullptr);
    if constexpr (std::is_same_v<decltype(Table::init), InitV11>)
      return table_.init(&context_, 1, &config_, log, nullptr);
  }
  int devices() override {
    int count = 0;
    check(table_.devices(&count), "devices");
    return count;
  }
  Facts facts(int device) override { return facts_of(table_.properties, device); }

  int make_virtual(const std::vector<int>& members) override {
    int device = -1;
    if constexpr (requires { table_.make_virtual; }) {
      if (table_.make_virtual == nullptr) return -1;
      auto properties = members_of(table_.make_virtual);
      properties.count = static_cast<int>(members.size());
      std::copy(members.begin(), members.end(), properties.devices);
      check(table_.make_virtual(&device, &properties), "makeVDevice");
    }
    return device;
  }
  void* listen(int device, void* handle) override {
    void* comm = nullptr;
    if constexpr (kHasContext)
      check(table_.listen(context_, device, handle, &comm), "listen");
    else
      check(table_.listen(device, handle, &comm), "listen");
    if (comm == nullptr) throw Failure{"listen() succeeds without a listener"};
    return comm;
  }
  void* connect(int device, void* handle, Outcome& outcome) override {
    void* comm = nullptr;
    DeviceHandle* offload = nullptr;
    using Connect = decltype(Table::connect);
    if constexpr (std::is_same_v<Connect, ConnectV4>)
      outcome = table_.connect(device, handle, &comm);
    if constexpr (std::is_same_v<Connect, ConnectV7>)
      outcome = table_.connect(device, handle, &comm, &offload);
    if constexpr (std::is_same_v<Connect, ConnectV10>)
      outcome = table_.connect(device, &config_, handle, &comm, &offload);
    if constexpr (std::is_same_v<Connect, ConnectV11>)
      outcome = table_.connect(context_, device, handle, &comm, &offload);
    return comm;
  }
  void* accept(void* listener, Outcome& outcome) override {
    void* comm = nullptr;
    DeviceHandle* offload = nullptr;
    if constexpr (std::is_same_v<decltype(Table::accept), AcceptV4>)
      outcome = table_.accept(listener, &comm);
    else
      outcome = table_.accept(listener, &comm, &offload);
    return comm;
  }

  void* register_memory(void* comm, void* data, size_t size) override {
    void* memory = nullptr;
    if constexpr (std::is_same_v<decltype(Table::register_memory), Register<int>>)
      check(table_.register_memory(comm, data, static_cast<int>(size), kPointerHost, &memory),
            "regMr");
    else
      check(table_.register_memory(comm, data, size, kPointerHost, &memory), "regMr");
    return memory;
  }
  void deregister(void* comm, void* memory) override {
    check(table_.deregister(comm, memory), "deregMr");
  }

  void* isend(void* comm, void* data, size_t size, int tag, void* memory,
              Outcome& outcome) override {
    void* request = nullptr;
    using Send = decltype(Table::isend);
    if constexpr (std::is_same_v<Send, SendV4>)
      outcome = table_.isend(comm, data, static_cast<int>(size), memory, &request);
    if constexpr (std::is_same_v<Send, SendV5<int>>)
      outcome = table_.isend(comm, data, static_cast<int>(size), tag, memory, &request);
    if constexpr (std::is_same_v<Send, SendV5<size_t>>)
      outcome = table_.isend(comm, data, size, tag, memory, &request);
    if constexpr (std::is_same_v<Send, SendV10>)
      outcome = table_.isend(comm, data, size, tag, memory, nullptr, &request);
    return request;
  }
  void* irecv(void* comm, int count, void** data, const size_t* sizes, int* tags, void** memories,
              bool optional, Outcome& outcome) override {
    void* request = optional ? reinterpret_cast<void*>(kOptionalCompletion) : nullptr;
    using Receive = decltype(Table::irecv);
    std::vector<int> narrow(sizes, sizes + count);
    std::vector<size_t> wide(sizes, sizes + count);
    if constexpr (std::is_same_v<Receive, ReceiveV4>)
      outcome = table_.irecv(comm, data[0], narrow[0], memories[0], &request);
    if constexpr (std::is_same_v<Receive, ReceiveV5<int>>)
      outcome = table_.irecv(comm, count, data, narrow.data(), tags, memories, &request);
    if constexpr (std::is_same_v<Receive, ReceiveV5<size_t>>)
      outcome = table_.irecv(comm, count, data, wide.data(), tags, memories, &request);
    if constexpr (std::is_same_v<Receive, ReceiveV10>) {
      std::vector<void*> profiles(static_cast<size_t>(count));
      outcome =
          table_.irecv(comm, count, data, wide.data(), tags, memories, profiles.data(), &request);
    }
    return request;
  }
  void* iflush(void* comm, void* data, size_t size, void* memory) override {
    void* request = nullptr;
    int narrow = static_cast<int>(size);
    if constexpr (std::is_same_v<decltype(Table::iflush), FlushV4>)
      check(table_.iflush(comm, data, narrow, memory, &request), "iflush");
    else
      check(table_.iflush(comm, 1, &data, &narrow, &memory, &request), "iflush");
    return request;
  }
  Outcome test(void* request, int* done, int* sizes) override {
    return table_.test(request, done, sizes);
  }
  void close_send(void* comm) override { check(table_.close_send(comm), "closeSend"); }
  void close_receive(void* comm) override { check(table_.close_receive(comm), "closeRecv"); }
  void close_listen(void* comm) override { check(table_.close_listen(comm), "closeListen"); }
  void finalize() override {
    if constexpr (kHasContext) check(table_.finalize(context_), "finalize");
  }

 private:
  static constexpr bool kHasContext = std::is_same_v<decltype(Table::init), InitV11>;

  template <int Most>
  static VirtualDevice<Most> members_of(MakeVirtual<Most>) {
    return {};
  }
  template <class Properties>
  Facts facts_of(PropertiesOf<Properties> function, int device) {
    Properties p{};
    check(function(device, &p), "getProperties");
    Facts facts;
    if (p.name != nullptr) facts.name = p.name;
    facts.pointer_support = p.pointer_support;
    facts.speed_mbps = p.speed_mbps;
    facts.max_comms = p.max_comms;
    if constexpr (requires { p.max_receives; }) facts.max_receives = p.max_receives;
    if constexpr (requires { p.device_type; }) facts.device_type = p.device_type;
    if constexpr (requires { p.members; }) facts.members = p.members.count;
    if constexpr (requires { p.max_p2p_bytes; }) facts.max_bytes = p.max_p2p_bytes;
    return facts;
  }

  const Table& table_;
  void* context_ = nullptr;
  CommConfig config_{kTrafficClassUndefined};
};

constexpr int kFirst = 4, kLast = 12;

void* open(const std::string& library) { return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL); }

const void* table_of(void* handle, int version) {
  return ::dlsym(handle, ("ncclNetPlugin_v" + std::to_string(version)).c_str());
}

template <class Table>
std::unique_ptr<Net> made(const void* table, int version) {
  return std::make_unique<NetOf<Table>>(*static_cast<const Table*>(table), version);
}

}  // namespace

std::string name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::success:
      return "success";
    case Outcome::system_error:
      return "system error";
    case Outcome::internal_error:
      return "internal error";
    case Outcome::invalid_usage:
      return "invalid usage";
    case Outcome::remote_error:
      return "remote error";
  }
  return "error " + std::to_string(static_cast<int>(outcome));
}

void show_log(int level) { log_level = level; }

std::vector<int> exported_versions(const std::string& library, std::string& why) {
  std::vector<int> versions;
  void* const handle = open(library);
  if (handle == nullptr) {
    why = ::dlerror();
    return versions;
  }
  for (int version = kFirst; version <= kLast; ++version)
    if (table_of(handle, version) != nullptr) versions.push_back(version);
  if (versions.empty()) why = library + " exports no ncclNetPlugin_v4 to v12";
  (void)::dlclose(handle);
  return versions;
}

std::unique_ptr<Net> load(const std::string& library, int version) {
  void* const handle = open(library);
  if (handle == nullptr) throw Failure{::dlerror()};
  const void* const table = table_of(handle, version);
  if (table == nullptr) throw Failure{library + " has no version " + std::to_string(version)};
  switch (version) {
    case 4:
      return made<TableV4>(table, version);
    case 5:
      return made<TableV5>(table, version);
    case 6:
      return made<TableV6>(table, version);
    case 7:
      return made<TableV7>(table, version);
    case 8:
      return made<TableV8>(table, version);
    case 9:
      return made<TableV9>(table, version);
    case 10:
      return made<TableV10>(table, version);
    case 11:
      return made<TableV11>(table, version);
    default:
      return made<TableV12>(table, version);
  }
}

}  // namespace weft::nccl_check
