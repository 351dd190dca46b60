# SPDX-License-Identifier: BSD-3-Clause
# The port auto: the ports udp and shm as one.
set(PORT_ROOMS port_udp port_shm port_middleware)
