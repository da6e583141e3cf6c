#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run protoc-c over the schema with the package name `pb`, so that C types are called
Pb__TraceConfig.

usage: gen_pbc.py PROTOC_C SOURCE_ROOT OUTPUT_ROOT DEPFILE OUTPUT PROTO...

PROTO names are relative to SOURCE_ROOT ("protos/config/trace_config.proto"); the .pb-c.[ch] files
end up below OUTPUT_ROOT under the same path. Their imports are found below SOURCE_ROOT/protos.
DEPFILE says that OUTPUT depends on all .proto files and their folders.
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def check_lists(source_root, texts, protos):
    """Checks that the imports of each listed file are listed, too. Otherwise a generated header
    includes a header that does not exist."""
    for proto in protos:
        if proto not in texts:
            sys.exit(f"{proto}, which {pathlib.Path(proto).parent}/meson.build lists, does not "
                     "exist")
        for name in re.findall(r'^import "(.*)";', texts[proto], re.MULTILINE):
            folder, stem = pathlib.Path(name).parent, pathlib.Path(name).stem
            if name not in protos and f"'{stem}'" not in (
                    source_root / folder / "meson.build").read_text(encoding="utf-8"):
                sys.exit(f"{proto} imports {name}: add '{stem}' to {folder}/meson.build")


def main():
    protoc_c, source_root, output_root, depfile, output, *protos = sys.argv[1:]
    source_root = pathlib.Path(source_root)
    paths = sorted(source_root.glob("protos/*/*.proto"))
    texts = {str(path.relative_to(source_root)): path.read_text(encoding="utf-8") for path in paths}
    check_lists(source_root, texts, protos)
    with tempfile.TemporaryDirectory() as copies:
        for name, text in texts.items():
            copy = pathlib.Path(copies) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text.replace("\npackage perfetto.protos;\n", "\npackage pb;\n", 1),
                            encoding="utf-8")
        subprocess.run([protoc_c, f"-I{copies}", f"--c_out={output_root}", *protos], check=True)
    needs = [str(path).replace(" ", "\\ ") for path in [*{path.parent for path in paths}, *paths]]
    pathlib.Path(depfile).write_text(f"{output}: {' '.join(needs)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
