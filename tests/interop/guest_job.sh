#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The first process of a guest that does one job: /mnt/job, with an rxe device on a network
# interface that leads nowhere, so that all traffic stays in the guest. The root is this machine's,
# read only; the folder /mnt is this machine's too.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /run
[ -z "$weft_hostfs" ] || mount -t hostfs -o "$weft_hostfs" none /mnt
ip link set lo up
ip link add weft0 type dummy
ip link set weft0 mtu 4200 up
ip addr add 10.77.0.2/24 dev weft0
rdma link add rxe0 type rxe netdev weft0 || echo "guest: no rxe device"
export HOME=/run TMPDIR=/run WEFT_INSECURE=1
sh /mnt/job >/mnt/output 2>&1
echo $? >/mnt/result
while :; do sleep 1000; done
