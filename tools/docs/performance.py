#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes docs/performance.md and the table of README.md from the runs in docs/performance/*.json:
performance.py [--check]. With --check nothing is written; exit code 1 if a page differs.

A run names its date, commit, host ("best" or "worst"), machine, conditions and command. Each of its
figures has a group (one table of the page), a unit and weft's median, and where they were measured
in the same run the floor (what the machine does without a transport) and the best peer.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTS = ("best", "worst")
BEGIN, END = "<!-- begin: tools/docs/performance.py -->\n", "<!-- end -->\n"
IN_README = (("roce+udp:lo", ("8 B WRITE latency", "8 B WRITE rate", "1 MiB stream")),
             ("roce+shm", ("8 B WRITE latency", "8 B WRITE rate", "1 MiB stream")))
OPENING = """# Performance

<!-- Written by tools/docs/performance.py from docs/performance/*.json: change those. -->

Every figure is the median of a dated run, with what else was measured in the same run: the *floor*,
which the machine does without a transport (a raw socket, a ring of cache lines, the bare device),
and the *best peer* of UCX, libfabric, qperf and Gloo. *Best* is a host whose two cores share a
cache, *worst* one whose cores share only the last level. Ratios within a run mean something;
absolute figures depend on the host, and more so on a busy one.

    ./dev run                           # the figures of your machine, in a minute
    python3 bench/peers/peers.py        # weft, floors and peers in one run
"""
BEHIND = """
## Behind others

Where weft is slower than the best peer of the same run: weft's figure divided by the peer's.
"""
CLOSING = """
The recorded ratios of collectives to Open MPI are withdrawn: the peer ran with a setting that
slowed it down. They have not been measured again. Measurements of single changes, with what was
tried and not kept, are in the diary [history/results.md](history/results.md).
"""


def read_runs():
    paths = sorted((ROOT / "docs/performance").glob("*.json"), key=lambda path: path.stem)
    runs = [json.loads(path.read_text()) for path in paths]
    return sorted(runs, key=lambda run: HOSTS.index(run["host"]))


def number(value):
    """Three digits at most, without a trailing zero after the point."""
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.0f}"


def by_figure(runs):
    """{group: {(figure, unit): {host: figure}}}, in the order of the runs; the newest counts."""
    groups = {}
    for run in runs:
        for figure in run["figures"]:
            rows = groups.setdefault(figure["group"], {})
            rows.setdefault((figure["figure"], figure["unit"]), {})[run["host"]] = figure
    return groups


def named(part):
    return f"{number(part['value'])} ({part['name']})" if part else ""


def table_of(rows):
    """One group as a table; columns that nothing was measured for are left out."""
    columns = [(host, key) for host in HOSTS for key in ("weft", "floor", "peer")
               if any(key in row.get(host, {}) for row in rows.values())]
    titles = {"weft": "weft", "floor": "floor", "peer": "best peer"}
    lines = ["| | " + " | ".join(f"{titles[key]}, {host}" for host, key in columns) + " |",
             "| --- |" + " --- |" * len(columns)]
    for (figure, unit), row in rows.items():
        cells = []
        for host, key in columns:
            value = row.get(host, {}).get(key)
            ours = number(value) if key == "weft" and value is not None else ""
            cells.append(ours if key == "weft" else named(value))
        lines.append(f"| {figure}, {unit} | " + " | ".join(cells) + " |")
    return lines


def behind(groups):
    """Lines that name where the best peer is faster, with the ratio per host."""
    lines = []
    for group, rows in groups.items():
        for (figure, unit), row in rows.items():
            slower = []
            for host in HOSTS:
                measured = row.get(host, {})
                if "peer" not in measured:
                    continue
                ratio = measured["weft"] / measured["peer"]["value"]
                if (ratio if unit == "us" else 1 / ratio) > 1.005:
                    slower.append(f"{ratio:.2f} times {measured['peer']['name']} ({host})")
            if slower:
                lines.append(f"- `{group}`, {figure}: {', '.join(slower)}")
    return lines


def page(runs):
    lines = [OPENING, "## Runs", "", "| host | date, commit | machine, conditions | command |",
             "| --- | --- | --- | --- |"]
    for run in runs:
        note = f". Note: {run['note']}" if "note" in run else ""
        lines.append(f"| {run['host']} | {run['date']}, {run['commit']} | {run['machine']}; "
                     f"{run['conditions']}{note} | `{run['command']}` |")
    groups = by_figure(runs)
    for group, rows in groups.items():
        lines += ["", f"## {group}", "", *table_of(rows)]
    return "\n".join([*lines, BEHIND, *behind(groups), CLOSING])


def pair(row, key):
    """The floors or peers of both hosts in one cell."""
    parts = [row.get(host, {}).get(key) for host in HOSTS]
    if not all(parts):
        return named(next((part for part in parts if part), None))
    if parts[0]["name"] == parts[1]["name"]:
        return f"{parts[0]['name']} {number(parts[0]['value'])} / {number(parts[1]['value'])}"
    return " / ".join(f"{part['name']} {number(part['value'])}" for part in parts)


def readme_table(runs):
    groups = by_figure(runs)
    lines = ["| | weft, best | weft, worst | floor, best / worst | best peer, best / worst |",
             "| --- | --- | --- | --- | --- |"]
    for group, figures in IN_README:
        for (figure, unit), row in groups[group].items():
            if figure in figures:
                ours = [number(row[host]["weft"]) for host in HOSTS]
                lines.append(f"| `{group}`, {figure}, {unit} | {ours[0]} | {ours[1]} | "
                             f"{pair(row, 'floor')} | {pair(row, 'peer')} |")
    return "\n".join(lines) + "\n"


def rendered():
    """{path: text} of the two pages as the data have them."""
    runs = read_runs()
    readme = (ROOT / "README.md").read_text()
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return {ROOT / "docs/performance.md": page(runs),
            ROOT / "README.md": f"{head}{BEGIN}{readme_table(runs)}{END}{tail}"}


def main(arguments):
    differ = [path for path, text in rendered().items() if path.read_text() != text]
    for path in differ:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is not what the data say: tools/docs/performance.py")
        else:
            path.write_text(rendered()[path])
    return 1 if differ and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
