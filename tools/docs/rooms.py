#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws which room includes which, as the sources have it: rooms.py [--check] writes
docs/internals/rooms.svg, or with --check exits with 1 if it would change.

A room is a folder of lib/, the API, the providers or the ports. A box uses those that it has arrows
to, and all that those reach: an arrow that two others replace is left out. Fails on a circle.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/internals/rooms.svg"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
WIDTH, HEIGHT, GAP_X, GAP_Y = 128, 34, 22, 62


def room_of(path):
    """The box of a source file or of an include path, or None."""
    parts = path.split("/")
    if parts[0] == "weft" or parts[:2] == ["include", "weft"]:
        return "include/weft"
    if parts[0] == "lib" and len(parts) > 2:
        return "lib/" + parts[1]
    if parts[:2] == ["providers", "port"]:
        return "providers/port/sim" if parts[2] == "sim" else "providers/port"
    return "/".join(parts[:2]) if parts[0] == "providers" and len(parts) > 2 else None


def arrows():
    """{room: the rooms that its files include}."""
    used = {}
    for tree in ("include", "lib", "providers"):
        for path in sorted((ROOT / tree).rglob("*.[ch]pp")):
            name = path.relative_to(ROOT).as_posix()
            room = room_of(name)
            if room is None:
                continue
            targets = used.setdefault(room, set())
            for target in INCLUDE.findall(path.read_text(errors="replace")):
                other = room_of(target)
                if other not in (None, room):
                    targets.add(other)
    return used


def reach(used, room, path=()):
    """All rooms below a room. Raises ValueError on a circle."""
    if room in path:
        raise ValueError("a circle: " + " -> ".join([*path, room]))
    found = set()
    for other in used.get(room, ()):
        found |= {other} | reach(used, other, (*path, room))
    return found


def reduced(used):
    """Without the arrows that a longer way replaces."""
    below = {room: reach(used, room) for room in used}
    return {room: {other for other in targets
                   if not any(other in below.get(middle, ()) for middle in targets)}
            for room, targets in used.items()}


def rows(used):
    """Lists of rooms, the lowest first: each is one above the highest that it uses."""
    level = {}

    def level_of(room):
        if room not in level:
            level[room] = 1 + max((level_of(other) for other in used.get(room, ())), default=-1)
        return level[room]

    for room in used:
        level_of(room)
    result = [[] for _ in range(max(level.values()) + 1)]
    for room in sorted(level):
        result[level[room]].append(room)
    return result


def svg():
    used = arrows()
    boxes = rows(used)
    widest = max(len(row) for row in boxes)
    width = widest * (WIDTH + GAP_X) + GAP_X
    height = len(boxes) * (HEIGHT + GAP_Y)
    place = {}
    for level, row in enumerate(boxes):
        left = (width - len(row) * (WIDTH + GAP_X) + GAP_X) / 2
        for column, room in enumerate(row):
            place[room] = (left + column * (WIDTH + GAP_X), height - (level + 1) * (HEIGHT + GAP_Y))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'font-family="sans-serif" font-size="13">',
             "<!-- Written by tools/docs/rooms.py from the #include lines. -->",
             '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
             'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#678"/></marker></defs>',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for room, targets in sorted(reduced(used).items()):
        for other in sorted(targets):
            x1, y1 = place[room][0] + WIDTH / 2, place[room][1] + HEIGHT
            x2, y2 = place[other][0] + WIDTH / 2, place[other][1]
            lines.append(f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + 40:.0f} {x2:.0f} '
                         f'{y2 - 40:.0f} {x2:.0f} {y2 - 2:.0f}" fill="none" stroke="#678" '
                         f'marker-end="url(#a)"/>')
    for room, (x, y) in sorted(place.items()):
        lines.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
                     f'fill="#eef3f8" stroke="#456"/><text x="{x + WIDTH / 2:.0f}" '
                     f'y="{y + HEIGHT / 2 + 5:.0f}" text-anchor="middle" fill="#123">{room}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main(arguments):
    text = svg()
    if "--check" not in arguments:
        PICTURE.write_text(text)
        return 0
    same = PICTURE.exists() and PICTURE.read_text() == text
    print("rooms: the picture is as the sources" if same else "rooms: run tools/docs/rooms.py")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
