# SPDX-License-Identifier: BSD-3-Clause
"""weft for Spack, built from a clone: spack dev-build --source-path CLONE weft@0.1.0"""
from spack.package import *


class Weft(CMakePackage):
    """RDMA transport library in user space."""

    homepage = "file://README.md"
    has_code = True

    version("0.1.0")

    variant("verbs", default=True, description="provider ibverbs, drop-in libraries")
    variant("crypto", default=True, description="TLS for the rendezvous")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("isa-l")
    depends_on("rdma-core", when="+verbs")
    depends_on("openssl@3:", when="+crypto")

    generator("ninja")

    def cmake_args(self):
        return [self.define("WEFT_TESTS", False)]
