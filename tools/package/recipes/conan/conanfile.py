# SPDX-License-Identifier: BSD-3-Clause
"""weft for Conan 2, from the tree that this file lies in:
conan create tools/package/recipes/conan"""
import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Weft(ConanFile):
    name = "weft"
    version = "0.1.0"
    license = "BSD-3-Clause"
    description = "RDMA transport library in user space"
    settings = "os", "compiler", "build_type", "arch"
    requires = ("isa-l/2.30.0",)

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..", "..", "..")
        for folder in ("bench", "cmake", "docs", "examples", "include", "lib", "providers",
                       "scenarios", "tools"):
            copy(self, f"{folder}/*", tree, self.export_sources_folder)
        for name in ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md"):
            copy(self, name, tree, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["WEFT_TESTS"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/weft"]
