# SPDX-License-Identifier: BSD-3-Clause
"""Queue pairs: posts and transitions."""
from weft import _library
from weft._library import Element, Handle, QpState, QpType, check, created, ffi, lib, structure
from weft.address import gid_of, gid_text, path_of


def entries_of(pieces):
    """Scatter/gather entries of a piece of a region, a list of them, or bytes, which are sent
    inline. Returns the array, how many, flags, and what has to live during the call."""
    if isinstance(pieces, (bytes, bytearray, memoryview)):
        memory = ffi.from_buffer(pieces)
        entry = {"address": ffi.cast("void *", memory), "length": ffi.sizeof(memory), "lkey": 0}
        return ffi.new("weft_sge[]", [entry]), 1, lib.WEFT_SEND_INLINE, memory
    if pieces is None:
        return ffi.NULL, 0, 0, None
    if hasattr(pieces, "region"):
        pieces = (pieces,)
    entries = [{"address": ffi.cast("void *", piece.address), "length": piece.length,
                "lkey": piece.region.lkey} for piece in pieces]
    return ffi.new("weft_sge[]", entries), len(entries), 0, pieces


class QueuePair(Handle):
    """A queue pair. Each post names memory by pieces of regions (region[a:b]), one or a list; that
    memory belongs to the device until the completion. A full queue raises QueueFull: poll, and post
    again. Arguments of every request that sends:

    id: returned in the completion. signaled=False: success has no completion. fence, solicited,
    ordered: as WEFT_SEND_* of weft_types.h. to: the Destination, for UD and SRD.
    """

    def __init__(self, domain, send_cq, recv_cq, type, sizes):
        self._queues = send_cq, recv_cq
        if sizes.get("congestion") is not None:
            sizes = dict(sizes, congestion=ffi.new("char[]", sizes["congestion"].encode()))
        options = structure("weft_qp_options", type=int(type), send_cq=send_cq._handle,
                            recv_cq=recv_cq._handle, **sizes)
        self._handle = created(lib.weft_qp_create, lib.weft_qp_destroy, domain._handle, options)

    @property
    def number(self):
        """The queue pair number."""
        return lib.weft_qp_number(self._handle)

    @property
    def type(self):
        """The transport service."""
        return QpType(lib.weft_qp_type_of(self._handle))

    @property
    def state(self):
        """The state now."""
        return QpState(lib.weft_qp_state_of(self._handle))

    # ---- posts ----------------------------------------------------------------------------------

    def _post(self, opcode, pieces, *, id=0, signaled=True, fence=False, solicited=False,
              ordered=False, to=None, flags=0, imm=None, **members):
        entries, count, inline, kept = entries_of(pieces)
        request = ffi.new("weft_send_request *")
        request.id, request.opcode, request.sges, request.sge_count = id, opcode, entries, count
        request.flags = (flags | inline | signaled * lib.WEFT_SEND_SIGNALED |
                         fence * lib.WEFT_SEND_FENCE | solicited * lib.WEFT_SEND_SOLICITED |
                         ordered * lib.WEFT_SEND_ORDERED)
        if imm is not None:
            request.imm, request.imm_high = imm & 0xFFFFFFFF, imm >> 32
        if to is not None:
            request.to, request.remote_qpn = to.path, to.qpn
            request.remote_qkey = to.qkey_for(self.type)
        for member, value in members.items():
            setattr(request, member, value)
        check(lib.weft_post_send(self._handle, request, 1, ffi.NULL))
        del kept

    def post_send(self, pieces, imm=None, invalidate=None, **more):
        """SEND, with immediate data if `imm` is given, or with a key of the peer to invalidate.
        `pieces` may be bytes: they are sent inline."""
        if invalidate is not None:
            self._post(lib.WEFT_OP_SEND_WITH_INVALIDATE, pieces, invalidate=invalidate, **more)
        else:
            opcode = lib.WEFT_OP_SEND if imm is None else lib.WEFT_OP_SEND_WITH_IMM
            self._post(opcode, pieces, imm=imm, **more)

    def post_write(self, pieces, remote_address, rkey, imm=None, **more):
        """WRITE to memory of the peer; with `imm` a receive completes there."""
        opcode = lib.WEFT_OP_WRITE if imm is None else lib.WEFT_OP_WRITE_WITH_IMM
        self._post(opcode, pieces, remote_address=remote_address, rkey=rkey, imm=imm, **more)

    def post_read(self, pieces, remote_address, rkey, **more):
        """READ from memory of the peer into `pieces`."""
        self._post(lib.WEFT_OP_READ, pieces, remote_address=remote_address, rkey=rkey, **more)

    def post_fetch_add(self, piece, remote_address, rkey, add, **more):
        """Adds to 8 bytes of the peer, whose former value goes to the 8 bytes of `piece`."""
        self._post(lib.WEFT_OP_FETCH_ADD, piece, remote_address=remote_address, rkey=rkey,
                   compare_add=add & (1 << 64) - 1, **more)

    def post_compare_swap(self, piece, remote_address, rkey, compare, swap, **more):
        """Replaces 8 bytes of the peer by `swap` if they are `compare`; the former value goes to
        `piece`."""
        self._post(lib.WEFT_OP_COMPARE_SWAP, piece, remote_address=remote_address, rkey=rkey,
                   compare_add=compare & (1 << 64) - 1, swap=swap & (1 << 64) - 1, **more)

    def post_write_add(self, pieces, remote_address, rkey, element=Element.INT32, **more):
        """SRD: adds elements to memory of the peer, each exactly once."""
        self._post(lib.WEFT_OP_WRITE_ADD, pieces, remote_address=remote_address, rkey=rkey,
                   element=int(element), **more)

    def post_atomic_write(self, remote_address, rkey, value, **more):
        """RC: replaces 8 bytes of the peer atomically."""
        self._post(lib.WEFT_OP_ATOMIC_WRITE, None, remote_address=remote_address, rkey=rkey,
                   swap=value & (1 << 64) - 1, **more)

    def post_flush(self, remote_address, rkey, length, persistent=False, **more):
        """RC: completes when earlier writes to this memory are visible at the peer, or persist."""
        self._post(lib.WEFT_OP_FLUSH, None, remote_address=remote_address, rkey=rkey,
                   flush_length=length, flags=persistent * lib.WEFT_SEND_FLUSH_PERSISTENT, **more)

    def post_recv(self, pieces=None, id=0):
        """A receive: a buffer for one SEND, or without memory the notice of one WRITE with
        immediate data."""
        entries, count, inline, kept = entries_of(pieces)
        if inline:
            raise TypeError("a receive needs pieces of a region: region[a:b]")
        request = ffi.new("weft_recv_request *", {"id": id, "sges": entries, "sge_count": count})
        check(lib.weft_post_recv(self._handle, request, 1, ffi.NULL))
        del kept

    # ---- states ---------------------------------------------------------------------------------

    def modify(self, **attributes):
        """Makes a transition. Attributes are the members of weft_qp_attributes (weft_types.h);
        `path` is an address as text. weft.connect() makes all transitions."""
        to = structure("weft_qp_attributes")
        for name, value in attributes.items():
            bit = getattr(lib, "WEFT_ATTR_" + name.upper(), None)
            if bit is None:
                raise TypeError(f"a queue pair has no attribute {name!r}")
            to.mask |= bit
            setattr(to, name, path_of(value)[0] if name == "path" else int(value))
        check(lib.weft_qp_modify(self._handle, to))

    def query(self):
        """The attributes that were set since RESET, by name."""
        has = structure("weft_qp_attributes")
        check(lib.weft_qp_query(self._handle, has))
        values = {}
        for name, _ in ffi.typeof("weft_qp_attributes").fields:
            if has.mask & getattr(lib, "WEFT_ATTR_" + name.upper(), 0):
                values[name] = getattr(has, name)
        if "path" in values:
            values["path"] = gid_text(ffi.addressof(has, "path", "destination"))
        if "state" in values:
            values["state"] = QpState(values["state"])
        return values

    def attach_multicast(self, group):
        """UD: joins a group, say "239.1.2.3"."""
        check(lib.weft_qp_attach_multicast(self._handle, gid_of(group)))

    def detach_multicast(self, group):
        """UD: leaves a group."""
        check(lib.weft_qp_detach_multicast(self._handle, gid_of(group)))

    def __repr__(self):
        return f"<QueuePair {self.type.name} {self.number:#x} {_library.QpState(self.state).name}>"
