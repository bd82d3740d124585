# SPDX-License-Identifier: BSD-2-Clause
from spack_repo.builtin.build_systems.meson import MesonPackage

from spack.package import *


class Uroce(MesonPackage):
    """RDMA without RDMA hardware: a RoCEv2 adapter in a user-space library, for unmodified programs that use libibverbs
    or librdmacm."""

    homepage = "https://github.com/OWNER/uroce"
    git = "https://github.com/OWNER/uroce.git"

    license("BSD-2-Clause")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("meson@0.56:", type="build")
    depends_on("cjson")
    depends_on("rdma-core@33:")

    conflicts("platform=darwin", msg="uroce runs on Linux")
    conflicts("platform=windows", msg="uroce runs on Linux")

    def meson_args(self):
        return ["-Dtests=false", "-Doptimization=3"]
