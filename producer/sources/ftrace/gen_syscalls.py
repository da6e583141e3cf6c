#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the system calls of the compiler's target as C initialisers, sorted by name.

usage: gen_syscalls.py OUTPUT COMPILER...
"""
import re
import subprocess
import sys


def main():
    output, *compiler = sys.argv[1:]
    text = subprocess.run(
        [*compiler, "-E", "-dM", "-x", "c", "-"], input="#include <sys/syscall.h>\n",
        capture_output=True, text=True, check=True,
    ).stdout
    names = sorted(set(re.findall(r"^#define SYS_(\w+) ", text, re.MULTILINE)))
    with open(output, "w", encoding="utf-8") as file:
        for name in names:
            file.write(f'{{"{name}", SYS_{name}}},\n')


if __name__ == "__main__":
    main()
