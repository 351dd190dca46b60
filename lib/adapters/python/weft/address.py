# SPDX-License-Identifier: BSD-3-Clause
"""Addresses: a GID as text, and the destination of a request of UD and SRD."""
from weft._library import QpType, check, ffi, lib


def gid_text(gid):
    """A GID of the C API as text."""
    text = ffi.new("char[]", 64)  # WEFT_GID_TEXT
    return ffi.string(lib.weft_gid_text(gid, text, len(text))).decode()


def gid_of(text):
    """The GID of a text: "127.0.0.2", "fd77::1"."""
    gid = ffi.new("weft_gid *")
    check(lib.weft_gid_parse(text.encode(), gid))
    return gid


def path_of(text, traffic_class=0):
    """The path to a device."""
    path = ffi.new("weft_address_vector *")
    path.destination = gid_of(text)[0]
    path.traffic_class = traffic_class
    return path


class Destination:
    """Where a request of a UD or SRD queue pair goes: the address of a device, the number of a
    queue pair there, and its Q_Key. Without one it is that of queue pairs that connect() has
    joined: 0x11111111 for UD, 0 for SRD."""

    def __init__(self, gid, qpn, qkey=None, traffic_class=0):
        self.gid, self.qpn, self.qkey = gid, qpn, qkey
        self.path = path_of(gid, traffic_class)

    def qkey_for(self, service):
        """The Q_Key that requests of such a queue pair name."""
        if self.qkey is not None:
            return self.qkey
        return 0x11111111 if service == QpType.UD else 0

    @classmethod
    def sender(cls, network_header, source_qpn, qkey=None):
        """UD: back to the sender, from the first 40 bytes of the receive and the completion's
        source_qpn."""
        if len(network_header) < 40:
            raise ValueError(f"a network header has 40 bytes, not {len(network_header)}")
        path = lib.weft_sender_of(ffi.from_buffer(network_header))
        return cls(gid_text(ffi.addressof(path, "destination")), source_qpn, qkey)

    def __repr__(self):
        return f"Destination({self.gid!r}, {self.qpn:#x})"
