# SPDX-License-Identifier: BSD-3-Clause
# The port af_xdp needs libxdp and libbpf.
set(PORT_ROOMS port_ethernet)
set(PORT_MODULE libweft-xdp)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(XDP QUIET libxdp>=1.2 libbpf>=0.8)
endif()
if(XDP_FOUND)
  set(PORT_LIBRARIES xdp bpf)
else()
  set(PORT_MISSING "libxdp: apt-get install libxdp-dev libbpf-dev")
endif()
