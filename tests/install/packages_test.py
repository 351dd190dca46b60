#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Debian packages of the build, as ./dev package makes them: dpkg installs all of them into a
root of its own, which knows the packages of this machine and has the files of libibverbs1; programs
and consumers in C, C++ and Python work from there; removed, they leave nothing.

Usage: packages_test.py [BUILD]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/release").resolve()
DPKG = pathlib.Path("/var/lib/dpkg")
ALWAYS = {"libweft0", "libweft-dev", "weft-tools", "libweft-nccl", "libweft-ccl",
          "python3-weft", "weft-doc"}
LIMIT_S = 200


def call(*command, **more):
    """What a command printed; an error has it all."""
    env = dict(os.environ, **more.pop("env", {}))
    env.pop("WEFT_DEVICE", None)
    done = subprocess.run([str(word) for word in command], text=True, timeout=LIMIT_S, env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}")
    return done.stdout


def missing():
    for program in ("dpkg", "cpack", "dpkg-shlibdeps", "file", "pkg-config", "cc"):
        if not shutil.which(program):
            return f"not installed: {program}"
    if os.geteuid() != 0:
        return "dpkg installs for root only"
    return None


def files_of(package):
    """The files of an installed package of this machine."""
    said = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True).stdout
    paths = (pathlib.Path(line) for line in said.splitlines() if line)
    return [path for path in paths if path.is_symlink() or path.is_file()]


class Target:
    """A root that dpkg takes for this machine: its list of packages, and the files of some."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        info = self.root / "var/lib/dpkg/info"
        info.mkdir(parents=True)
        (self.root / "var/lib/dpkg/updates").mkdir()
        (self.root / "var/lib/dpkg/triggers").mkdir()
        shutil.copy(DPKG / "status", info.parent)
        for listing in (DPKG / "info").glob("*.list"):
            shutil.copy(listing, info)
        if (DPKG / "info/format").exists():
            shutil.copy(DPKG / "info/format", info)
        for package in ("libibverbs1", "librdmacm1"):
            for path in files_of(package):
                copy = self.root / path.relative_to("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy, follow_symlinks=False)

    def dpkg(self, *words):
        # Scripts, which call ldconfig, run outside of this root, where there is no shell.
        return call("dpkg", f"--root={self.root}", "--force-script-chrootless", "--log=/dev/null",
                    *words)

    def files(self):
        """All but dpkg's own, with their contents' size and time of change."""
        return {path.relative_to(self.root): (path.lstat().st_size, path.lstat().st_mtime_ns)
                for path in self.root.rglob("*")
                if not path.is_dir() and "var/lib/dpkg" not in path.as_posix()}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="weft-packages-")
        cls.work = pathlib.Path(cls.folder.name)
        call("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.work / "debs")
        cls.debs = {path.name.partition("_")[0]: path
                    for path in (cls.work / "debs").glob("*.deb")}
        cls.target = Target(cls.work / "root")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_which_there_are(self):
        self.assertLessEqual(ALWAYS, self.debs.keys())
        listed = (BUILD / "CPackConfig.cmake").read_text()
        for name in self.debs:
            self.assertIn(name, listed)

    def test_each_says_what_it_needs(self):
        for name, deb in self.debs.items():
            with self.subTest(package=name):
                depends = call("dpkg-deb", "-f", deb, "Depends")
                if name not in ("libweft0", "weft-doc"):
                    self.assertIn("libweft0", depends)
                if name in ("libweft0", "weft-tools"):
                    self.assertRegex(depends, r"libc6 \(>= ")
                    self.assertNotIn("dpdk", depends)
                self.assertIn(f"./usr/share/doc/{name}/copyright", call("dpkg-deb", "-c", deb))

    def test_lintian_finds_no_error(self):
        if not os.environ.get("WEFT_TEST_LONG") or not shutil.which("lintian"):
            self.skipTest("a minute, with --long, where lintian is installed")
        # The address of the maintainer is the release's: WEFT_PACKAGE_CONTACT.
        call("lintian", "--no-cfg", "--allow-root", "--fail-on", "error", "--suppress-tags",
             "bogus-mail-host,bogus-mail-host-in-debian-changelog", *self.debs.values())

    def test_the_same_build_makes_the_same_release(self):
        if not os.environ.get("WEFT_TEST_LONG"):
            self.skipTest("two minutes, with --long")
        call(ROOT / "dev", "docs", cwd=ROOT)
        made = [self.work / "one", self.work / "two"]
        for out in made:
            call("bash", ROOT / "tools/package/release.sh", BUILD, out, cwd=ROOT)
        one, two = ((out / "SHA256SUMS").read_text().splitlines() for out in made)
        self.assertEqual(one, two)
        sums = dict(reversed(line.split()) for line in one)
        bill = json.loads(next(made[0].glob("*.spdx.json")).read_text())
        listed = {entry["name"]: entry["checksums"][0]["checksumValue"]
                  for entry in bill["packages"] if "checksums" in entry}
        self.assertEqual(listed, {name: value for name, value in sums.items()
                                  if name.endswith((".tar.gz", ".deb", ".whl"))})
        self.assertIn("libc6", {entry["name"] for entry in bill["packages"]})

    def test_a_file_of_another_package_is_not_overwritten(self):
        if not files_of("libibverbs1"):
            self.skipTest("libibverbs1 is not installed")
        stolen = next(path for path in files_of("libibverbs1") if ".so" in path.name)
        tree = self.work / "intruder"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text("Package: intruder\nVersion: 1\nArchitecture: all\n"
                                             "Maintainer: weft <weft@invalid>\n"
                                             "Description: takes a file of libibverbs1\n")
        (tree / stolen.relative_to("/")).parent.mkdir(parents=True)
        (tree / stolen.relative_to("/")).write_text("")
        call("dpkg-deb", "-b", tree, self.work / "intruder.deb")
        with self.assertRaisesRegex(AssertionError, "trying to overwrite"):
            self.target.dpkg("-i", self.work / "intruder.deb")

    def test_install_use_remove(self):
        before = self.target.files()
        self.target.dpkg("-i", *self.debs.values())
        there = self.target.files()
        self.assertEqual({path: there[path] for path in before}, before)
        for path in there.keys() - before.keys():  # elsewhere it would be every program's
            if path.name.startswith(("libibverbs", "librdmacm")):
                self.assertEqual(path.parent.name, "drop-in", path)
        try:
            self.use(self.target.root / "usr")
        finally:
            self.target.dpkg("--purge", *self.debs)
        self.assertEqual(self.target.files(), before)
        left = [path for path in (self.target.root / "usr").rglob("*weft*")]
        self.assertEqual(left, [])

    def use(self, usr):
        said = call(usr / "bin/weft_info")
        self.assertRegex(said, r"roce\+udp:lo +usable")
        for program in (usr / "bin").iterdir():
            self.assertTrue((usr / f"share/man/man1/{program.name}.1.gz").is_file(), program)
        # A scenario and its workload, by name; weft_coll's networks lie beside them.
        said = call(usr / "bin/weft_sim", "run", "testbed-websearch-30", "--cc", "hpcc", "--until",
                    "100us", cwd=self.work)
        self.assertIn("HPCC's testbed", said)
        library = usr / "lib"
        env = {"PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library)}
        flags = call("pkg-config", "--cflags", "--libs", "weft", env=env).split()
        examples = usr / "share/doc/weft/examples"
        call("cc", "-std=c11", "-D_GNU_SOURCE", examples / "hello_write.c", "-o",
             self.work / "by_c", *flags)
        self.assertIn("written from C!", call(self.work / "by_c", env=env))
        flags = call("pkg-config", "--cflags", "--libs", "weft-ccl", env=env).split()
        call("cc", "-std=c11", examples / "hello_nccl.c", "-o", self.work / "by_nccl", *flags)
        self.assertIn("the sum of 4 ranks is 10", call(self.work / "by_nccl", env=env))
        call("cmake", "-S", ROOT / "tests/install/consumer", "-B", self.work / "consumer",
             f"-DCMAKE_PREFIX_PATH={usr}", "-DCMAKE_BUILD_TYPE=Debug")
        call("cmake", "--build", self.work / "consumer", "--target", "consumer_shared")
        call(self.work / "consumer/consumer_shared")
        if shutil.which("python3", path="/usr/bin") and "python3-cffi" in self.installed():
            said = call("/usr/bin/python3", "-B", "-c",
                        "import weft; print(weft.__file__, weft.Device('roce+udp:lo'))",
                        env={"PYTHONPATH": str(library / "python3/dist-packages")})
            self.assertIn(str(usr), said)
        if "libweft-verbs" in self.debs:
            said = call(usr / "bin/weft-run", "-d", "roce+udp:lo", "sh", "-c", "echo $LD_PRELOAD")
            self.assertIn(f"{library}/weft/drop-in/libibverbs.so.1", said)

    def installed(self):
        return set(call("dpkg-query", "-W", "-f", "${Package}\n").split())


if __name__ == "__main__":
    if missing():
        print(f"SKIPPED: packages: {missing()}")
        sys.exit(0)
    unittest.main()
