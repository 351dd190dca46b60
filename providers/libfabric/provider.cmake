# SPDX-License-Identifier: BSD-3-Clause
# The module links libfabric, which looks for its own providers when a device is opened.
set(PROVIDER_ROOMS transport)
set(PROVIDER_MODULE libweft-libfabric)
find_path(LIBFABRIC_API_INCLUDE rdma/fi_atomic.h)
find_library(LIBFABRIC_LIBRARY fabric)
if(NOT LIBFABRIC_API_INCLUDE OR NOT LIBFABRIC_LIBRARY)
  set(PROVIDER_MISSING "libfabric: apt-get install libfabric-dev")
  return()
endif()
set(PROVIDER_LIBRARIES fabric)
set(PROVIDER_INCLUDES ${LIBFABRIC_API_INCLUDE})
