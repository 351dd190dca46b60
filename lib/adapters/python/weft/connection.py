# SPDX-License-Identifier: BSD-3-Clause
"""Connections over TCP: blocking, or in an event loop."""
import select
from typing import NamedTuple

from weft._library import EXCEPTIONS, Code, Handle, check, created, ffi, lib, structure
from weft.address import Destination, gid_text
from weft.completion import ready


class Connection(NamedTuple):
    """What a side knows of its peer."""
    private_data: bytes
    gid: str
    qpn: int
    path_mtu: int

    @property
    def destination(self):
        """For requests of UD and SRD queue pairs."""
        return Destination(self.gid, self.qpn)


def connection_of(it):
    data = bytes(ffi.buffer(it.private_data, it.private_size))
    return Connection(data, gid_text(ffi.addressof(it, "peer_gid")), it.peer_qpn, it.path_mtu)


def options_of(private_data, timeout, more):
    """Options, and the memory that they name. `more`: members of weft_connect_options."""
    data = ffi.from_buffer(private_data)
    members = {name: int(value) for name, value in more.items()}
    options = structure("weft_connect_options", private_data=data, private_size=len(data),
                        limit_ms=int(timeout * 1000), **members)
    return options, data


def connect(address, qp, private_data=b"", timeout=30, **more):
    """Connects a queue pair to the listener at "host:port" and blocks until both are in RTS.
    `more`: members of weft_connect_options (weft_types.h), say access or path_mtu."""
    options, kept = options_of(private_data, timeout, more)
    peer = structure("weft_connection")
    check(lib.weft_connect(address.encode(), qp._handle, options, peer))
    del kept
    return connection_of(peer)


async def connect_async(address, qp, private_data=b"", timeout=30, **more):
    """As connect(), in an event loop."""
    options, kept = options_of(private_data, timeout, more)
    connector = created(lib.weft_connector_start, lib.weft_connector_destroy, address.encode(),
                        qp._handle, options)
    del kept
    return await finished(connector)


async def finished(connector):
    """Continues an exchange until it is over."""
    peer = structure("weft_connection")
    while True:
        code = lib.weft_connector_advance(connector, peer)
        if code == lib.WEFT_OK:
            return connection_of(peer)
        if code != lib.WEFT_WOULD_BLOCK:
            check(code)
        await ready(lib.weft_connector_fd(connector),
                    write=bool(lib.weft_connector_poll_events(connector) & select.POLLOUT))


class Listener(Handle):
    """A TCP port at which peers connect. "host:0" picks one; without an address: port 18515 of all
    addresses."""

    def __init__(self, address=""):
        self._handle = created(lib.weft_listener_create, lib.weft_listener_destroy,
                               address.encode())

    @property
    def port(self):
        """The TCP port."""
        return lib.weft_listener_port(self._handle)

    def fileno(self):
        """Readable when a peer waits."""
        return lib.weft_listener_fd(self._handle)

    def accept(self, qp, private_data=b"", timeout=30, **more):
        """Waits for a peer and connects the queue pair to it. Raises TimedOut."""
        options, kept = options_of(private_data, timeout, more)
        peer = structure("weft_connection")
        check(lib.weft_listener_accept(self._handle, qp._handle, options, peer))
        del kept
        return connection_of(peer)

    async def accept_async(self, qp, private_data=b"", timeout=30, **more):
        """As accept(), in an event loop; it waits for a peer without a limit."""
        options, kept = options_of(private_data, timeout, more)
        while True:
            try:
                connector = created(lib.weft_listener_try_accept, lib.weft_connector_destroy,
                                    self._handle, qp._handle, options)
            except EXCEPTIONS[Code.WOULD_BLOCK]:
                await ready(self.fileno())
                continue
            del kept
            return await finished(connector)
