#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Modules of libweft.so: what is absent, broken or of another version is named with its remedy, by
weft_info and by the error of Device::open; WEFT_MODULE_PATH is for processes without more rights
than their caller; what needs no module loads none."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import suite  # noqa: E402

BUILD = pathlib.Path(os.environ["WEFT_BUILD"])
BIN, LIB = BUILD / "bin", BUILD / "lib"
LOCAL = LIB / "local_modules/port_local.so"
VERSION = re.search(rb"WEFT_INTERNAL_([0-9.]+)", LOCAL.read_bytes())[1] if LOCAL.exists() else b""


def run(*command, **environment):
    """Its standard output, standard error and status."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    done = subprocess.run([str(part) for part in command], env={**inherited, **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.stdout, done.stderr, done.returncode


class WithFolder(unittest.TestCase):
    """A copy of libweft.so, beside which lies no module but what a test puts there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(LIB / "libweft.so.0", self.folder)
        self.modules = self.folder / "weft/modules"
        self.modules.mkdir(parents=True)

    def put(self, name, *changes):
        """The module `local` as `name`, with other bytes at some places."""
        content = LOCAL.read_bytes()
        for old, new in changes:
            self.assertIn(old, content)
            self.assertEqual(len(old), len(new))
            content = content.replace(old, new)
        (self.modules / name).write_bytes(content)

    def info(self, *arguments, **environment):
        return run(BIN / "weft_info", *arguments, LD_LIBRARY_PATH=str(self.folder), **environment)

    def reason(self, device):
        """Why `device` cannot be opened: the list and Device::open say the same."""
        listed, errors, status = self.info()
        self.assertEqual((errors, status), ("", 0))
        row = re.search(rf"^{re.escape(device)}[: ].*", listed, re.M)
        self.assertIsNotNone(row, listed)
        opened, errors, status = self.info("-d", device)
        self.assertEqual((errors, status), ("", 1))
        reason = opened.split("not usable: ", 1)[1].strip()
        self.assertIn(re.sub(r"^(roce|srd): ", "", reason), row[0])
        return reason


class Absent(WithFolder):
    def test_the_package_is_named(self):
        for device, module, package in (
                ("roce+dpdk", "port_dpdk.so", "libweft-dpdk|libdpdk-dev"),
                ("srd+dpdk", "port_dpdk.so", "libweft-dpdk|libdpdk-dev"),
                ("roce+af_xdp", "port_af_xdp.so", "libweft-xdp|libxdp-dev"),
                ("ibverbs", "provider_ibverbs.so", "libweft-ibverbs|libibverbs-dev")):
            with self.subTest(device=device):
                reason = self.reason(device)
                self.assertIn(f"no module {module} in {self.modules.resolve()}: ", reason)
                self.assertRegex(reason, f"apt-get install ({package})")

    def test_what_connects_without_the_module_of_tls(self):
        listed, errors, _ = self.info()
        self.assertEqual(errors, "")
        self.assertRegex(listed, r"(?m)^TLS +not usable: .*no module crypto_openssl.so in .*"
                                 r"apt-get install (libweft-crypto|libssl-dev)")
        _, errors, status = run(BIN / "weft_write_lat", "-d", "roce+udp:lo", "-p", "9", "127.0.0.1",
                                LD_LIBRARY_PATH=str(self.folder))
        self.assertEqual(status, 1)
        self.assertRegex(errors,
                         "authenticated by TLS.*apt-get install (libweft-crypto|libssl-dev)")

    def test_of_unknown_names(self):
        for device in ("roce+nothing", "nothing", "roce+../../x", "../x"):
            with self.subTest(device=device):
                opened, _, status = self.info("-d", device)
                self.assertEqual(status, 1)
                self.assertRegex(opened, 'no (port|provider) "')
        opened, _, _ = self.info("-d", "roce+nothing")
        self.assertIn("this build has udp, ", opened)
        self.assertIn("there is no module port_nothing.so in ", opened)


class Broken(WithFolder):
    def assert_broken(self, why, name="port_dpdk.so", device="roce+dpdk"):
        reason = self.reason(device)
        self.assertRegex(reason, f"the module {self.modules.resolve()}/{name} cannot be used: .*"
                                 f"{why}")
        self.assertIn("apt-get install --reinstall libweft-dpdk" if "dpdk" in device else
                      "build it again with this weft, or remove it", reason)

    def test_no_shared_object(self):
        for content in (b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF" + bytes(60)):
            with self.subTest(content=content):
                (self.modules / "port_dpdk.so").write_bytes(content)
                self.assert_broken("")

    def test_truncated(self):
        for kept in (0.1, 0.5, 0.9):
            with self.subTest(kept=kept):
                content = LOCAL.read_bytes()[:int(LOCAL.stat().st_size * kept)]
                (self.modules / "port_local.so").write_bytes(content)
                listed, errors, status = self.info()
                self.assertEqual((errors, status), ("", 0))
                # What follows the last segment is for debuggers.
                self.assertRegex(listed, r"roce\+local(:default +usable| .*truncated at byte)")
        content = LOCAL.read_bytes()[:4000]
        (self.modules / "port_dpdk.so").write_bytes(content)
        self.assert_broken("truncated at byte 4000")

    def test_no_regular_file(self):
        os.mkfifo(self.modules / "port_dpdk.so")
        self.assert_broken("not a regular file")

    def test_no_module_of_weft(self):
        self.put("port_local.so", (b"\0weft_module\0", b"\0left_module\0"))
        self.assert_broken("no symbol weft_module", "port_local.so", "roce+local")

    def test_another_module_under_this_name(self):
        self.put("port_dpdk.so")
        self.assert_broken("it is the module port_local.so")

    def test_another_version(self):
        other = b"9" * len(VERSION)
        self.put("port_local.so", (b"\0" + VERSION + b"\0", b"\0" + other + b"\0"))
        self.assert_broken(f"for weft {other.decode()}, and this is {VERSION.decode()}",
                           "port_local.so", "roce+local")

    def test_bound_to_another_version(self):
        """The loader refuses it before any of it runs."""
        node, other = b"WEFT_INTERNAL_" + VERSION, b"WEFT_INTERNAL_" + b"9" * len(VERSION)
        self.put("port_local.so", (node, other))
        self.assert_broken(other.decode(), "port_local.so", "roce+local")

    @unittest.skipUnless((BIN / "weft_cost").exists(), "bench/ is not built")
    def test_of_a_program_with_weft_linked_in(self):
        _, said, status = run(BIN / "weft_cost", "roce+local:x", "1",
                              WEFT_MODULE_PATH=str(LOCAL.parent))
        self.assertNotEqual(status, 0)
        self.assertIn("link the program with libweft.so (weft::weft)", said)


class SearchPath(WithFolder):
    def test_a_module_of_the_path(self):
        listed, _, _ = self.info(WEFT_MODULE_PATH=f"/nowhere::{LOCAL.parent}")
        self.assertRegex(listed, r"(?m)^roce\+local:default +usable$")
        self.assertRegex(listed, r"(?m)^srd\+local:default +usable$")

    def test_is_ignored_where_the_process_has_more_rights_than_its_caller(self):
        program = self.folder / "weft_info"
        shutil.copy(BIN / "weft_info", program)
        self.folder.chmod(0o755)
        environment = {"WEFT_MODULE_PATH": str(LOCAL.parent)}
        listed, _, _ = run(program, **environment)
        self.assertIn("roce+local:default", listed)
        if os.geteuid() != 0:
            self.skipTest("only root gives files to other users")
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")
        os.chown(program, 65534, -1)
        program.chmod(0o4755)
        listed, errors, _ = run(program, **environment)
        if "cannot open shared object file" in errors:
            self.skipTest("other users cannot read the build")
        self.assertIn("roce+udp:lo", listed, errors)
        self.assertNotIn("local", listed)


class Loading(WithFolder):
    def loaded(self, program, **environment):
        """The modules that a program loads, by the dynamic linker's own account."""
        out, errors, status = run(program, LD_DEBUG="files", **environment)
        self.assertEqual(status, 0, errors[-2000:])
        return out, set(re.findall(r"file=\S*/((?:port|provider)_\w+\.so)", errors))

    def test_lists_and_udp_load_none(self):
        environment = {"WEFT_MODULE_PATH": str(LOCAL.parent)}
        listed, modules = self.loaded(BIN / "list_devices", **environment)
        self.assertEqual(modules, set())
        self.assertIn(f"roce+local: not known: it is in the module {LOCAL}", listed)
        self.assertIn("roce+udp:lo: usable", listed)
        _, modules = self.loaded(BIN / "weft_info", **environment)
        self.assertIn("port_local.so", modules)

    def test_what_libraries_need(self):
        permitted = r"(libc|libm|libgcc_s|libstdc\+\+|libisal|libdl|libpthread|ld-linux[-\w]*)\.so"
        for file in (LIB / "libweft.so", BIN / "weft_info", BIN / "weft_write_lat"):
            said, _, _ = run("readelf", "-dW", file)
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said)
            self.assertIn("libc.so.6", needed)
            for name in needed:
                self.assertRegex(name, rf"^({permitted}|libweft\.so)[.\d]*$", f"{file} needs it")
        mapped, _, _ = run(BIN / "weft_info", LD_TRACE_LOADED_OBJECTS="1")
        self.assertLessEqual(len(mapped.splitlines()), 10, mapped)


if __name__ == "__main__":
    if not (BIN / "weft_info").exists():
        suite.skip("tools/ is not built")
        sys.exit(0)
    suite.run()
