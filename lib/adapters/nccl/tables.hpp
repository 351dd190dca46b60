// SPDX-License-Identifier: BSD-3-Clause
// The tables of all versions over one class Net (calls.hpp), and their export.
#pragma once

#include "lib/adapters/nccl/calls.hpp"

namespace weft::nccl {

// The tables.
template <class Net>
struct Tables {
  using Setup = SetupCalls<Net>;
  using Data = DataCalls<Net>;

  static constexpr TableV4 v4() {
    return {Net::kName,          Setup::init_v4,
            Setup::devices,      Setup::template properties<PropertiesV4>,
            Setup::listen_v4,    Setup::connect_v4,
            Setup::accept_v4,    Data::template register_memory<int>,
            Data::deregister,    Data::send_v4,
            Data::receive_v4,    Data::flush_v4,
            Data::test,          Data::close_send,
            Data::close_receive, Data::close_listen};
  }
  static constexpr TableV5 v5() {
    return {Net::kName,
            Setup::init_v4,
            Setup::devices,
            Setup::template properties<PropertiesV6>,
            Setup::listen_v5,
            Setup::connect_v5,
            Setup::accept_v4,
            Data::template register_memory<int>,
            Data::deregister,
            Data::template send_v5<int>,
            Data::template receive_v5<int>,
            Data::flush_v5,
            Data::test,
            Data::close_send,
            Data::close_receive,
            Data::close_listen};
  }
  static constexpr TableV6 v6() {
    return {Net::kName,
            Setup::init_v4,
            Setup::devices,
            Setup::template properties<PropertiesV6>,
            Setup::listen_v5,
            Setup::connect_v5,
            Setup::accept_v4,
            Data::template register_memory<int>,
            Data::register_dmabuf,
            Data::deregister,
            Data::template send_v5<int>,
            Data::template receive_v5<int>,
            Data::flush_v5,
            Data::test,
            Data::close_send,
            Data::close_receive,
            Data::close_listen};
  }
  template <class P, class Size>
  static constexpr TableV7Form<P, Size> v7_form() {
    return {Net::kName,
            Setup::init_v4,
            Setup::devices,
            Setup::template properties<P>,
            Setup::listen_v5,
            Setup::connect_v7,
            Setup::accept_v7,
            Data::template register_memory<Size>,
            Data::register_dmabuf,
            Data::deregister,
            Data::template send_v5<int>,
            Data::template receive_v5<int>,
            Data::flush_v5,
            Data::test,
            Data::close_send,
            Data::close_receive,
            Data::close_listen,
            nullptr,
            nullptr};
  }
  static constexpr TableV7 v7() { return v7_form<PropertiesV7, int>(); }
  static constexpr TableV8 v8() { return v7_form<PropertiesV8, size_t>(); }
  static constexpr TableV9 v9() {
    return {Net::kName,
            Setup::init_v4,
            Setup::devices,
            Setup::template properties<PropertiesV9>,
            Setup::listen_v5,
            Setup::connect_v7,
            Setup::accept_v7,
            Data::template register_memory<size_t>,
            Data::register_dmabuf,
            Data::deregister,
            Data::template send_v5<size_t>,
            Data::template receive_v5<size_t>,
            Data::flush_v5,
            Data::test,
            Data::close_send,
            Data::close_receive,
            Data::close_listen,
            nullptr,
            nullptr,
            virtual_function<4>()};
  }
  static constexpr TableV10 v10() {
    return {Net::kName,
            Setup::init_v10,
            Setup::devices,
            Setup::template properties<PropertiesV9>,
            Setup::listen_v5,
            Setup::connect_v10,
            Setup::accept_v7,
            Data::template register_memory<size_t>,
            Data::register_dmabuf,
            Data::deregister,
            Data::send_v10,
            Data::receive_v10,
            Data::flush_v5,
            Data::test,
            Data::close_send,
            Data::close_receive,
            Data::close_listen,
            nullptr,
            nullptr,
            virtual_function<4>()};
  }
  template <class P, int Most>
  static constexpr TableV11Form<P, Most> v11_form() {
    return {Net::kName,
            Setup::init_v11,
            Setup::devices,
            Setup::template properties<P>,
            Setup::listen_v11,
            Setup::connect_v11,
            Setup::accept_v7,
            Data::template register_memory<size_t>,
            Data::register_dmabuf,
            Data::deregister,
            Data::send_v10,
            Data::receive_v10,
            Data::flush_v5,
            Data::test,
            Data::close_send,
            Data::close_receive,
            Data::close_listen,
            nullptr,
            nullptr,
            virtual_function<Most>(),
            Setup::finalize,
            Data::set_attributes};
  }
  static constexpr TableV11 v11() { return v11_form<PropertiesV11, 4>(); }
  static constexpr TableV12 v12() { return v11_form<PropertiesV12, 8>(); }

 private:
  template <int Most>
  static constexpr MakeVirtual<Most> virtual_function() {
    return Net::kMergesDevices ? MakeVirtual<Most>(Data::template make_virtual<Most>) : nullptr;
  }
};

// Exports ncclNetPlugin_v6 .. v12 of `Net`.
#define WEFT_NCCL_EXPORT [[gnu::visibility("default")]] extern const
#define WEFT_NCCL_TABLES(Net)                                                    \
  extern "C" {                                                                   \
  WEFT_NCCL_EXPORT weft::nccl::TableV6 ncclNetPlugin_v6;                         \
  WEFT_NCCL_EXPORT weft::nccl::TableV7 ncclNetPlugin_v7;                         \
  WEFT_NCCL_EXPORT weft::nccl::TableV8 ncclNetPlugin_v8;                         \
  WEFT_NCCL_EXPORT weft::nccl::TableV9 ncclNetPlugin_v9;                         \
  WEFT_NCCL_EXPORT weft::nccl::TableV10 ncclNetPlugin_v10;                       \
  WEFT_NCCL_EXPORT weft::nccl::TableV11 ncclNetPlugin_v11;                       \
  WEFT_NCCL_EXPORT weft::nccl::TableV12 ncclNetPlugin_v12;                       \
  const weft::nccl::TableV6 ncclNetPlugin_v6 = weft::nccl::Tables<Net>::v6();    \
  const weft::nccl::TableV7 ncclNetPlugin_v7 = weft::nccl::Tables<Net>::v7();    \
  const weft::nccl::TableV8 ncclNetPlugin_v8 = weft::nccl::Tables<Net>::v8();    \
  const weft::nccl::TableV9 ncclNetPlugin_v9 = weft::nccl::Tables<Net>::v9();    \
  const weft::nccl::TableV10 ncclNetPlugin_v10 = weft::nccl::Tables<Net>::v10(); \
  const weft::nccl::TableV11 ncclNetPlugin_v11 = weft::nccl::Tables<Net>::v11(); \
  const weft::nccl::TableV12 ncclNetPlugin_v12 = weft::nccl::Tables<Net>::v12(); \
  }

// Exports v4 and v5.
#define WEFT_NCCL_TABLES_OF_NEURON(Net)                                       \
  extern "C" {                                                                \
  WEFT_NCCL_EXPORT weft::nccl::TableV4 ncclNetPlugin_v4;                      \
  WEFT_NCCL_EXPORT weft::nccl::TableV5 ncclNetPlugin_v5;                      \
  const weft::nccl::TableV4 ncclNetPlugin_v4 = weft::nccl::Tables<Net>::v4(); \
  const weft::nccl::TableV5 ncclNetPlugin_v5 = weft::nccl::Tables<Net>::v5(); \
  }

}  // namespace weft::nccl
