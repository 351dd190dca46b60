#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Recipes of package managers, the image, the GitHub action and the Kubernetes example: each
parses, has the version of the tree, and names files and options that exist. None is run here."""
import ast
import json
import pathlib
import re
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "tools/package/recipes"
VERSION = re.search(r"project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
FOLDERS_OF_YAML = (".github", "examples/kubernetes")


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def class_of(path):
    """The names that a recipe's class assigns, with their constants."""
    tree = ast.parse(text_of(path), path)
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    return {target.id: node.value.value for node in body if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant) for target in node.targets}


class Recipes(unittest.TestCase):
    def test_versions(self):
        self.assertEqual(json.loads(text_of(RECIPES / "vcpkg/vcpkg.json"))["version"], VERSION)
        self.assertEqual(class_of(RECIPES / "conan/conanfile.py")["version"], VERSION)
        spack = text_of(RECIPES / "spack/package.py")
        ast.parse(spack)
        self.assertEqual(re.findall(r'version\("(.*?)"\)', spack), [VERSION])
        for path in ("tools/package/Dockerfile", "examples/kubernetes/server.yaml",
                     "examples/kubernetes/client.yaml"):
            self.assertEqual(set(re.findall(r"weft:([\d.]+)", text_of(path))), {VERSION}, path)

    def test_every_yaml_file_parses(self):
        files = [path for folder in FOLDERS_OF_YAML for path in (ROOT / folder).rglob("*.y*ml")]
        self.assertGreaterEqual(len(files), 7)
        for path in files:
            with self.subTest(file=path.name):
                for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                    self.assertIsInstance(document, dict)

    def test_issue_forms_ask_something(self):
        for name in ("problem", "proposal"):
            form = yaml.safe_load(text_of(f".github/ISSUE_TEMPLATE/{name}.yml"))
            ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertTrue(any(part.get("validations", {}).get("required")
                                for part in form["body"]))

    def test_the_job_finds_its_target(self):
        service, pod = yaml.safe_load_all(text_of("examples/kubernetes/server.yaml"))
        job = yaml.safe_load(text_of("examples/kubernetes/client.yaml"))
        (client,) = job["spec"]["template"]["spec"]["containers"]
        (server,) = pod["spec"]["containers"]
        self.assertEqual(client["args"][:-1], server["args"])
        self.assertEqual(client["args"][-1], service["metadata"]["name"])
        self.assertEqual(service["spec"]["selector"], pod["metadata"]["labels"])

    def test_options_and_files_that_are_named_exist(self):
        options = set(re.findall(r"option\((WEFT_\w+)|set\((WEFT_\w+) ", text_of("CMakeLists.txt")))
        known = {name for pair in options for name in pair if name}
        for path in RECIPES.rglob("*.*"):
            self.assertLessEqual(set(re.findall(r"WEFT_\w+", text_of(path))), known, path)
        packages = text_of("cmake/packages.cmake")
        for name in re.findall(r"/packages/([a-z0-9-]+)_", text_of("tools/package/Dockerfile")):
            self.assertIn(f"weft_package({name} ", packages)
        for folder in re.search(r"in \((.*?)\)", text_of(RECIPES / "conan/conanfile.py"),
                                re.S).group(1).replace('"', "").replace(",", "").split():
            self.assertTrue((ROOT / folder).is_dir(), folder)


if __name__ == "__main__":
    unittest.main()
