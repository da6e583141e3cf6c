#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run protoc-c over the schema with the package name `pb`, so that C types are called Pb__TraceConfig.

usage: gen_pbc.py PROTOC_C SOURCE_ROOT OUTPUT_ROOT PROTO...

PROTO names are relative to SOURCE_ROOT ("protos/config/trace_config.proto"); the .pb-c.[ch] files end up
below OUTPUT_ROOT under the same path. What they import is found below SOURCE_ROOT/protos.
"""
import pathlib
import subprocess
import sys
import tempfile


def main():
    protoc_c, source_root, output_root, *protos = sys.argv[1:]
    source_root = pathlib.Path(source_root)
    with tempfile.TemporaryDirectory() as copies:
        for proto in source_root.glob("protos/*/*.proto"):
            text = proto.read_text(encoding="utf-8")
            copy = pathlib.Path(copies) / proto.relative_to(source_root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text.replace("\npackage perfetto.protos;\n", "\npackage pb;\n", 1), encoding="utf-8")
        subprocess.run([protoc_c, f"-I{copies}", f"--c_out={output_root}", *protos], check=True)


if __name__ == "__main__":
    main()
