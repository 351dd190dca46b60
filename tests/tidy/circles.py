# SPDX-License-Identifier: BSD-3-Clause
"""Folders that include each other, directly or through others: their arrows must run one way."""
import collections
import re

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)


def arrows(root, under):
    """{(from, to): number of includes} between the folders below those of `under`."""
    found = collections.Counter()
    for tree in under:
        for path in sorted((root / tree).rglob("*.[ch]pp")):
            folder = path.parent.relative_to(root).as_posix()
            for target in INCLUDE.findall(path.read_text(encoding="utf-8")):
                other = target.rsplit("/", 1)[0]
                inside = any(other == t or other.startswith(t + "/") for t in under)
                if inside and other != folder:
                    found[folder, other] += 1
    return found


def circles(edges):
    """The lists of folders that include each other, directly or through others."""
    graph = collections.defaultdict(set)
    for a, b in edges:
        graph[a].add(b)
    reach = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reach[start] = seen
    found = {tuple(sorted(n for n in reach if n in reach[start] and start in reach.get(n, ())))
             for start in reach if start in reach[start]}
    return sorted(found)
