# SPDX-License-Identifier: BSD-3-Clause
"""The RDMA devices of this machine, as /sys/class/infiniband describes them."""
import pathlib

CLASS = pathlib.Path("/sys/class/infiniband")
# Files of a device and of its ports.
OF_DEVICE = ("fw_ver", "hca_type", "board_id", "node_type", "node_guid", "hw_rev")
OF_PORT = ("state", "phys_state", "rate", "link_layer", "cap_mask")
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def text(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def driver_of(device):
    link = device / "device/driver"
    return link.resolve().name if link.exists() else "software"


def gids_of(port):
    """[{index, gid, type, netdev}] of the GIDs that are set."""
    found = []
    for path in sorted((port / "gids").glob("*"), key=lambda path: int(path.name)):
        gid = text(path)
        if gid and gid != ZERO_GID:
            found.append({"index": int(path.name), "gid": gid,
                          "type": text(port / "gid_attrs/types" / path.name),
                          "netdev": text(port / "gid_attrs/ndevs" / path.name)})
    return found


def port_of(path):
    port = {name: text(path / name) for name in OF_PORT}
    port["gids"] = gids_of(path)
    netdevs = sorted({gid["netdev"] for gid in port["gids"] if gid["netdev"]})
    port["mtu"] = {name: text(pathlib.Path("/sys/class/net") / name / "mtu") for name in netdevs}
    port["hw_counters"] = {each.name: text(each)
                           for each in sorted((path / "hw_counters").glob("*"))
                           if each.name != "lifespan"}
    return port


def devices(folder=CLASS):
    """[{name, driver, pci, ..., ports: {number: {...}}}], by name."""
    found = []
    for path in sorted(folder.glob("*")) if folder.exists() else ():
        device = {"name": path.name, "driver": driver_of(path),
                  "pci": {name: text(path / "device" / name)
                          for name in ("vendor", "device", "subsystem_vendor", "numa_node")}}
        device.update({name: text(path / name) for name in OF_DEVICE})
        device["ports"] = {port.name: port_of(port) for port in sorted((path / "ports").glob("*"))}
        found.append(device)
    return found
