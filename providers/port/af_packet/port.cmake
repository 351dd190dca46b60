# SPDX-License-Identifier: BSD-3-Clause
# The port af_packet shares the neighbour table and the framing of ports that see Ethernet frames.
set(PORT_ROOMS port_ethernet)
