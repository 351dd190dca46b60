# SPDX-License-Identifier: BSD-3-Clause
# Headers of libfabric only: the provider (provider_libfabric.so) loads the library when a device is
# opened, since programs that have it linked in would load libibverbs with it.
set(PROVIDER_ROOMS transport)
set(PROVIDER_MODULE libweft-libfabric)
find_path(LIBFABRIC_API_INCLUDE rdma/fi_atomic.h)
if(NOT LIBFABRIC_API_INCLUDE)
  set(PROVIDER_MISSING "libfabric: apt-get install libfabric-dev")
  return()
endif()
set(PROVIDER_LIBRARIES ${CMAKE_DL_LIBS})
set(PROVIDER_INCLUDES ${LIBFABRIC_API_INCLUDE})
