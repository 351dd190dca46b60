#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The first process of the guest, whose root is this machine's, read only. It makes an rxe device on
# the wire to the host and then is told what to do. The kernel command line sets the variables.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /run
ip link set lo up
ip link set "$weft_wire" name wire0
ip link set wire0 address "02:00:00:00:00:0$weft_number" mtu "$weft_mtu"
ip addr add "10.77.0.$weft_number/24" dev wire0
ip link set wire0 up
ip addr add "fd77::$weft_number/64" dev wire0 nodad
# modify_qp waits a second for an IPv6 neighbour, which is not always enough for the first one.
ip neigh replace fd77::1 lladdr 02:00:00:00:00:01 dev wire0
rdma link add rxe0 type rxe netdev wire0 || echo "guest: no rxe device"
"$weft_puppet" "$weft_port"
echo "guest: $weft_puppet ended"
while :; do sleep 1000; done
