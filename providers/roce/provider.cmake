# SPDX-License-Identifier: BSD-3-Clause
# The protocol is in lib/roce; ports, driver and keys of a software provider in providers/software.
set(PROVIDER_ROOMS software roce driver transport congestion wire)
