# SPDX-License-Identifier: BSD-2-Clause
# nix-build -E 'with import <nixpkgs> { }; callPackage ./contrib/uroce.nix { }': uroce of this tree.
{ lib, stdenv, meson, ninja, pkg-config, cjson, rdma-core }:

stdenv.mkDerivation {
  pname = "uroce";
  version = builtins.head (builtins.match ".*project\\([^)]* version: '([^']*)'.*" (builtins.readFile ../meson.build));
  src = lib.cleanSource ../.;

  nativeBuildInputs = [ meson ninja pkg-config ];
  buildInputs = [ cjson rdma-core ];
  mesonBuildType = "plain";
  mesonFlags = [ "-Doptimization=3" "-Dtests=false" ];

  meta = {
    description = "RDMA without RDMA hardware: a RoCEv2 adapter in a user-space library";
    license = lib.licenses.bsd2;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "uroce";
  };
}
