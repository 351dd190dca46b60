# SPDX-License-Identifier: BSD-3-Clause
# The port dpdk: kernel bypass. Its drivers are loaded at run time.
set(PORT_ROOMS port_ethernet)
set(PORT_MODULE libweft-dpdk)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(DPDK QUIET libdpdk>=22.11)
endif()
if(DPDK_FOUND)
  set(PORT_LIBRARIES rte_ethdev rte_mbuf rte_mempool rte_ring rte_eal)
  set(PORT_INCLUDES ${DPDK_INCLUDE_DIRS})
  set(PORT_OPTIONS ${DPDK_CFLAGS_OTHER})
else()
  set(PORT_MISSING "libdpdk: apt-get install libdpdk-dev")
endif()
