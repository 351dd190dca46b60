# SPDX-License-Identifier: BSD-3-Clause
"""Running a script's tests, so that ctest and tests/tidy/skips.py see by name what did not run.

ctest takes a script that prints the mark for skipped whatever its exit code is, so a script in
which something failed does not print it.
"""
import pathlib
import re
import sys
import unittest


def skip(reason, part=""):
    """Says that the script, or a part of it that has a name, cannot run here."""
    script = pathlib.Path(sys.argv[0]).resolve()
    name = f"{script.parent.name}/{script.stem}" + (part and f":{part}")
    print(f"SKIPPED: {name}: {reason}", flush=True)


def run(*classes):
    """The tests of these classes, without any those that the command line names or all; then the
    program ends."""
    if classes:
        load = unittest.defaultTestLoader.loadTestsFromTestCase
        result = unittest.TextTestRunner().run(unittest.TestSuite(map(load, classes)))
    else:
        result = unittest.main(exit=False).result
    for test, reason in result.skipped:
        part = name_of(test)
        if result.wasSuccessful():
            skip(reason, part)
        else:
            print(f"not run: {part}: {reason}", flush=True)
    sys.exit(not result.wasSuccessful())


def name_of(test):
    """Class, or Class.test, of a test or of what stands for a class that was not set up."""
    return re.search(r"\b[A-Z]\w*(\.\w+)?", test.id())[0]
