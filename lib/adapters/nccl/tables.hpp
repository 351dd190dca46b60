// SPDX-License-Identifier: BSD-3-Clause
// The tables of all versions over one class Net (calls.hpp), and their export.
#pragma once

#include <type_traits>

#include "lib/adapters/nccl/calls.hpp"

namespace weft::nccl {

template <class Net, class Table>
constexpr Table table_of() {
  using Setup = SetupCalls<Net, std::is_same_v<Table, TableV4> ? kHandleSizeV4 : kHandleSize>;
  using Data = DataCalls<Net>;
  Table table{};
  table.name = Net::kName;
  table.init = Setup::init;
  table.devices = Setup::devices;
  table.properties = Setup::properties;
  table.listen = Setup::listen;
  table.connect = Setup::connect;
  table.accept = Setup::accept;
  table.register_memory = Data::register_memory;
  if constexpr (requires { table.register_dmabuf; }) table.register_dmabuf = Data::register_dmabuf;
  table.deregister = Data::deregister;
  table.isend = Data::isend;
  table.irecv = Data::irecv;
  table.iflush = Data::iflush;
  table.test = Data::test;
  table.close_send = Data::close_send;
  table.close_receive = Data::close_receive;
  table.close_listen = Data::close_listen;
  if constexpr (Net::kMergesDevices && requires { table.make_virtual; })
    table.make_virtual = Data::make_virtual;
  if constexpr (requires { table.finalize; }) {
    table.finalize = Setup::finalize;
    table.set_attributes = Data::set_attributes;
  }
  return table;
}

// Exports one version of `Net`.
#define WEFT_NCCL_TABLE(Net, VERSION)                                                 \
  extern "C" {                                                                        \
  [[gnu::visibility(                                                                  \
      "default")]] extern const weft::nccl::TableV##VERSION ncclNetPlugin_v##VERSION; \
  constinit const weft::nccl::TableV##VERSION ncclNetPlugin_v##VERSION =              \
      weft::nccl::table_of<Net, weft::nccl::TableV##VERSION>();                       \
  }

// Exports v6 to v12.
#define WEFT_NCCL_TABLES(Net) \
  WEFT_NCCL_TABLE(Net, 6)     \
  WEFT_NCCL_TABLE(Net, 7)     \
  WEFT_NCCL_TABLE(Net, 8)     \
  WEFT_NCCL_TABLE(Net, 9)     \
  WEFT_NCCL_TABLE(Net, 10)    \
  WEFT_NCCL_TABLE(Net, 11)    \
  WEFT_NCCL_TABLE(Net, 12)

// Exports v4 and v5.
#define WEFT_NCCL_TABLES_OF_NEURON(Net) \
  WEFT_NCCL_TABLE(Net, 4)               \
  WEFT_NCCL_TABLE(Net, 5)

}  // namespace weft::nccl
