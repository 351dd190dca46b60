# SPDX-License-Identifier: BSD-3-Clause
"""Devices: opening, limits, counters, events, and what can be opened on this machine."""
import types
from typing import NamedTuple

from weft import _library
from weft._library import EventType, Handle, QpType, check, created, ffi, lib, structure
from weft.address import gid_text
from weft.completion import CompletionQueue
from weft.memory import ProtectionDomain


class Listing(NamedTuple):
    """A device that could be opened here, or the reason why not."""
    spec: str
    usable: bool
    reason: str


class Event(NamedTuple):
    """An asynchronous event."""
    type: EventType
    qp_number: int
    cq_number: int


def text(value):
    return ffi.string(value).decode() if value != ffi.NULL else ""


def rows(function, *arguments):
    """The rows of an array that the library makes."""
    block, count = ffi.new(ffi.typeof(function).args[-2]), ffi.new("size_t *")
    check(function(*arguments, block, count))
    array = ffi.gc(block[0], lib.weft_free)
    return [array[i] for i in range(count[0])], array


def list_devices(load_modules=False):
    """What can be opened on this machine, and why not the rest. `load_modules`: also what is in
    modules that were not loaded yet."""
    found, block = rows(lib.weft_list_devices, load_modules)
    listings = [Listing(text(row.spec), row.usable, text(row.reason)) for row in found]
    ffi.release(block)
    return listings


class Device(Handle):
    """An open device, named by a string: "roce+udp:lo", "roce+shm:job7", "srd+udp:eth0",
    "ibverbs:mlx5_0". None: that of WEFT_DEVICE, or roce+udp:lo."""

    def __init__(self, spec=None):
        name = ffi.NULL if spec is None else spec.encode()
        self._handle = created(lib.weft_device_open, lib.weft_device_close, name)
        self.attributes = self._query()

    def _query(self):
        has = structure("weft_device_attributes")
        check(lib.weft_device_query(self._handle, has))
        values = {}
        for name, field in ffi.typeof("weft_device_attributes").fields:
            value = getattr(has, name)
            if field.type.kind == "pointer":
                value = text(value)
            elif name == "gid":
                value = gid_text(ffi.addressof(has, "gid"))
            values[name] = value
        values["qp_type"] = QpType(values["qp_type"])
        del values["size"]
        return types.SimpleNamespace(**values)

    @property
    def gid(self):
        """The device's address as text."""
        return self.attributes.gid

    def protection_domain(self):
        """A new protection domain."""
        return ProtectionDomain(self)

    def completion_queue(self, capacity=256, engine=0):
        """A new completion queue."""
        return CompletionQueue(self, capacity, engine)

    def progress(self):
        """Receives, sends, runs timers; never blocks. For programs that wait on memory."""
        lib.weft_device_progress(self._handle)

    def counters(self):
        """All counters now, by name."""
        found, block = rows(lib.weft_device_counters, self._handle)
        counters = {text(row.name): row.value for row in found}
        ffi.release(block)
        return counters

    def event_fileno(self):
        """A descriptor that is readable while there is an event."""
        return lib.weft_device_event_fd(self._handle)

    def next_event(self):
        """The oldest asynchronous event, or None."""
        event = ffi.new("weft_event *")
        if not lib.weft_device_next_event(self._handle, event):
            return None
        return Event(EventType(event.type), event.qp_number, event.cq_number)

    def peer_address(self, source_peer):
        """SRD: the address of the device with the number Completion.source_peer."""
        gid = ffi.new("weft_gid *")
        check(lib.weft_device_peer_address(self._handle, source_peer, gid))
        return gid_text(gid)

    def __repr__(self):
        return f"Device({self.attributes.spec!r})"


def version():
    """The version of the library."""
    return text(_library.lib.weft_version())
