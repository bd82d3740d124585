#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The recipes for Spack and Nix: each is read as its tool reads it, with stand-ins for what that offers, and asks for what
meson.build needs and for options that it has."""
import json
import os
import re
import subprocess
import sys
import tempfile
import types

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPACK = "contrib/spack/spack_repo/uroce"
PACKAGES = {"libcjson": "cjson", "libibverbs": "rdma-core"}  # by what pkg-config calls them
# what the expression asks nixpkgs for; a name stands for its package
NIX = """import %s/contrib/uroce.nix {
  lib = { cleanSource = toString; licenses.bsd2 = "BSD-2-Clause"; };
  stdenv.mkDerivation = attributes: attributes;
  meson = "meson"; ninja = "ninja"; pkg-config = "pkg-config"; cjson = "cjson"; rdma-core = "rdma-core";
}"""
failed = 0


def read(name):
    with open(os.path.join(SOURCE, name)) as f:
        return f.read()


def check(what, is_so, found):
    global failed
    failed += not is_so
    print("%sok - %s%s" % ("" if is_so else "not ", what, "" if is_so else ": %s" % (found,)))


def libraries():
    """The packages that meson.build looks for without tests."""
    return {PACKAGES.get(name, name) for name in re.findall(r"^\w+ = dependency\('(lib\w+)'\)", read("meson.build"), re.M)}


def check_flags(tool, flags):
    known = set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.M)) | {"optimization"}
    wrong = [f for f in flags if not re.match(r"-D(%s)=" % "|".join(known), f)]
    check("%s: its options are meson's" % tool, flags and not wrong, wrong)


def spack_package():
    """The class of the package, and {directive: what it was called with}."""
    calls = {}
    package = types.ModuleType("spack.package")
    package.__all__ = ["license", "version", "depends_on", "conflicts", "variant"]
    for name in package.__all__:
        setattr(package, name, lambda *a, _name=name, **more: calls.setdefault(_name, []).append((a[0], more)))
    meson = types.ModuleType("spack_repo.builtin.build_systems.meson")
    meson.MesonPackage = type("MesonPackage", (), {})
    sys.modules.update({"spack.package": package, meson.__name__: meson})
    for module in (package, meson):  # and the packages that they are in
        parts = module.__name__.split(".")[:-1]
        sys.modules.update({".".join(parts[:n]): types.ModuleType(".".join(parts[:n])) for n in range(1, len(parts) + 1)})
    names = {}
    exec(compile(read(SPACK + "/packages/uroce/package.py"), "package.py", "exec"), names)
    return names["Uroce"], calls


def spack():
    recipe, calls = spack_package()
    needed = {name.split("@")[0] for name, more in calls["depends_on"] if more.get("type") != "build"}
    check("Spack: it needs what meson.build does", needed == libraries(), (needed, libraries()))
    meson = re.search(r"meson_version: '>=(\d+\.\d+)", read("meson.build")).group(1)
    check("Spack: meson's version", ("meson@%s:" % meson, {"type": "build"}) in calls["depends_on"], calls["depends_on"])
    check("Spack: a version", calls["version"] == [("main", {"branch": "main"})], calls["version"])
    check_flags("Spack", recipe().meson_args())
    # Spack imports it as spack_repo.NAMESPACE.packages.NAME.package
    namespace = re.search(r"^  namespace: (\w+)$", read(SPACK + "/repo.yaml"), re.M).group(1)
    check("Spack: the folder has the name of its namespace", namespace == os.path.basename(SPACK), namespace)


def nix():
    with tempfile.TemporaryDirectory() as state:
        try:
            done = subprocess.run(["nix-instantiate", "--readonly-mode", "--eval", "--strict", "--json", "-E", NIX % SOURCE],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                                  env={**os.environ, "NIX_STATE_DIR": state, "HOME": state})
        except FileNotFoundError:
            print("ok - Nix # SKIP there is no nix-instantiate: package nix-bin")
            return
    check("Nix: it is evaluated", done.returncode == 0, done.stderr)
    if done.returncode:
        return
    recipe = json.loads(done.stdout)
    version = re.search(r"^project\(.* version: '([^']*)'", read("meson.build"), re.M).group(1)
    check("Nix: the version is meson.build's", recipe["version"] == version, recipe["version"])
    check("Nix: the source is this tree", os.path.samefile(recipe["src"], SOURCE), recipe["src"])
    check("Nix: it needs what meson.build does", set(recipe["buildInputs"]) == libraries(), recipe["buildInputs"])
    check_flags("Nix", recipe["mesonFlags"])


if __name__ == "__main__":
    spack()
    nix()
    sys.exit(failed > 0)
