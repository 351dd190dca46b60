# SPDX-License-Identifier: BSD-3-Clause
# The protocol is in lib/srd; ports, driver and keys of a software provider in providers/software.
set(PROVIDER_ROOMS software srd driver transport congestion wire)
