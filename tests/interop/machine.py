# SPDX-License-Identifier: BSD-3-Clause
"""The two kinds of guest, as command lines: a kernel of this machine's architecture whose root is
this machine's, read only, with a folder of the test's at /mnt and a network interface on each of
the test's taps. The init script finds the name of the first in $weft_wire; they count up from 0.

UML is the fast one: a process whose rxe runs at this machine's speed, of a kernel that we configure
and build. STOCK is the kernel that Debian ships, unchanged, on a processor that QEMU interprets.
"""
import kernel
import stock_kernel


class Uml:
    """What runs under it is as fast as here; one processor."""
    name = "uml"
    slowness = 1
    why_not = staticmethod(kernel.why_not)

    @staticmethod
    def command(folder, init, variables, taps=(), mtu=1500):
        wires = [f"vec{i}:transport=tap,ifname={tap},depth=128,gro=0,mtu={mtu}"
                 for i, tap in enumerate(taps)]
        return [str(kernel.path()), "mem=768M", "root=/dev/root", "rootfstype=hostfs",
                "rootflags=/", "ro", "con0=null,fd:1", "con=null", "ssl=null",
                f"uml_dir={folder}", "umid=guest", *wires, f"init={init}", "weft_wire=vec0",
                f"weft_hostfs={folder}", *assignments(variables)]


class Stock:
    """Ten times as slow as here; two processors."""
    name = "stock"
    slowness = 5
    why_not = staticmethod(stock_kernel.why_not)

    @staticmethod
    def command(folder, init, variables, taps=(), mtu=1500):
        there = stock_kernel.path()
        words = ["console=ttyS0", "quiet", "panic=-1", "mitigations=off", f"weft_init={init}",
                 "weft_wire=eth0", *assignments(variables)]
        return ["qemu-system-x86_64", "-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max",
                "-m", "1024", "-smp", "2", "-nodefaults", "-display", "none", "-serial", "stdio",
                "-no-reboot", "-kernel", f"{there}/vmlinux", "-initrd", f"{there}/initramfs",
                "-append", " ".join(words), "-device", "virtio-rng-pci",
                *share("root", "/", ",readonly=on"), *share("folder", folder),
                *(word for tap in taps for word in network(tap, mtu))]


def assignments(variables):
    return [f"{name}={value}" for name, value in variables.items()]


def share(name, folder, options=""):
    return ["-fsdev", f"local,id={name},path={folder},security_model=none,multidevs=remap{options}",
            "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]


def network(tap, mtu):
    """Whole frames with whole checksums: what is on the tap is what a wire would carry."""
    return ["-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no,vnet_hdr=off",
            "-device", f"virtio-net-pci,netdev={tap},host_mtu={mtu}"]


UML, STOCK = Uml(), Stock()
