# SPDX-License-Identifier: BSD-3-Clause
"""The smallest ELF files that say how a program is loaded. They cannot be run."""
import pathlib
import struct

X86_64, AARCH64 = 62, 183
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
HEADER, SEGMENT = 64, 56


def own_machine():
    return struct.unpack_from("<H", pathlib.Path("/proc/self/exe").read_bytes(), 18)[0]


def dynamic(needed=1):
    """Entries DT_NEEDED and the end."""
    return b"".join(struct.pack("<qQ", 1, 0) for _ in range(needed)) + struct.pack("<qQ", 0, 0)


def interpreter(path):
    return PT_INTERP, path.encode() + b"\0"


def go_note():
    return PT_NOTE, struct.pack("<III", 4, 4, 4) + b"Go\0\0" + b"id\0\0"


def write(path, *segments, machine=None, bits=2):
    """An executable file with these (type, content) segments."""
    content, headers = b"", b""
    base = HEADER + SEGMENT * len(segments)
    for kind, data in segments:
        headers += struct.pack("<IIQQQQQQ", kind, 4, base + len(content), 0, 0, len(data),
                               len(data), 8)
        content += data
    ident = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, machine or own_machine(), 1, 0, HEADER, 0, 0,
                                 HEADER, SEGMENT, len(segments), 0, 0, 0)
    pathlib.Path(path).write_bytes(header + headers + content)
    pathlib.Path(path).chmod(0o755)
    return str(path)
