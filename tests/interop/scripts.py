# SPDX-License-Identifier: BSD-3-Clause
"""The packet scripts of tests/script against the kernel's rxe, and the table in
docs/test-your-roce.md of those that it plays otherwise. WEFT_UPDATE_SNAPSHOTS=1 prints the rows as
they should be."""
import json
import os
import pathlib
import re
import subprocess
import time

import exchanges

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "script"
PAGE = FOLDER.parents[1] / "docs/test-your-roce.md"
# Script, line, what happened instead, why.
ROW = re.compile(r"^\| `([a-z]+/[\w-]+)` \| `(.*?)` \| (.*?) \| (.*?) \|$")
CONNECT_LIMIT_S = 20
# Those that sometimes go as they should: rxe sends what was in the buffer before, which may be 0,
# and flushes receives only when something else makes it look at them.
UNSTEADY = {"hdr/fields-of-an-atomic", "nak/middle-without-first", "nak/send-within-write"}


def play(end, wire, paths):
    """{script: what went otherwise, None if nothing did}; those that rxe cannot play are left out.
    """
    deadline = time.monotonic() + CONNECT_LIMIT_S
    while True:
        done = subprocess.run(
            [exchanges.BIN / "weft_script", "run", *paths, "--psn", "0xfffffa", "--json",
             "--against", end, "--wire", wire], capture_output=True, text=True,
            timeout=900, check=False)
        if "no responder answers" not in done.stderr or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    if not done.stdout:
        raise AssertionError(done.stderr)
    played = {}
    for row in json.loads(done.stdout)["scripts"]:
        name = pathlib.Path(row["script"]).relative_to(FOLDER).with_suffix("").as_posix()
        if row["verdict"] != "skipped":
            played[name] = None if row["verdict"] == "ok" else difference(row["why"])
    return played


def difference(why):
    """(the line of the script, what happened instead), without what depends on the moment."""
    first, *rest = why.splitlines()
    line = re.sub(r"^line \d+: ", "", first)
    received = [text.strip() for text in rest if "received: " in text]
    text = received[0].removeprefix("received: ") if received else rest[0].strip()
    text = re.sub(r" within [\d.]+ us", "", text)
    text = re.sub(r"original=0x[0-9a-f]{5,}", "original=whatever was there", text)
    if "FETCH_ADD" in text:
        text = re.sub(r"compare=\d+", "compare=whatever was there", text)
    return line, re.sub(r"\d+\.\d+ us", "some time", text)


def table():
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        found = ROW.match(line)
        if found:
            rows[found[1]] = (found[2], found[3])
    return rows


def check(test, end, wire):
    expected = table()
    seen = play(end, wire, [FOLDER])
    again = [name for name, what in seen.items() if what != expected.get(name)]
    if again:  # the machine may be busy: once more
        seen.update(play(end, wire, [FOLDER / f"{name}.script" for name in again]))
    if os.environ.get("WEFT_UPDATE_SNAPSHOTS"):
        for name, what in sorted(seen.items()):
            if what:
                print(f"| `{name}` | `{what[0]}` | {what[1]} | ? |")
    print(f"{len(seen)} packet scripts played with rxe, {sum(map(bool, seen.values()))} differ")
    test.assertGreater(len(seen), 130)
    seen = {name: what for name, what in seen.items() if what or name not in UNSTEADY}
    test.assertEqual({name: what for name, what in seen.items() if what},
                     {name: what for name, what in expected.items() if name in seen})
