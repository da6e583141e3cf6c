# SPDX-License-Identifier: Apache-2.0
"""Debug data in DWARF 4, as assembler text, that no compiler writes: a careless reader of the data
never comes to an end."""

# Abbreviations: 1 a unit from low_pc on, 2 a namespace with a sibling, 3 a function with ranges, 4
# a unit with ranges.
ABBREVIATIONS = """
.text
.globl main
main: .zero 64
.section .note.GNU-stack,"",%progbits
.section .debug_abbrev,"",%progbits
.Labbreviations:
.uleb128 1, 0x11; .byte 1; .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
.uleb128 2, 0x39; .byte 1; .uleb128 0x01, 0x13, 0, 0
.uleb128 3, 0x2e; .byte 0; .uleb128 0x55, 0x17, 0, 0
.uleb128 4, 0x11; .byte 1; .uleb128 0x55, 0x17, 0, 0
.byte 0
"""
UNIT = """
.section .debug_info,"",%progbits
.Lunit{n}: .long .Lend{n} - .Lbegin{n}
.Lbegin{n}: .short 4
.long .Labbreviations
.byte 8
{entries}
.Lend{n}:
"""


def nested_namespaces(n):
    """`n` namespaces in each other. The sibling of each one is its own first child."""
    entries = [".uleb128 1; .quad 0, 0x7fffffff"]
    entries += [f".uleb128 2; .long .Lchild{i} - .Lunit0\n.Lchild{i}:" for i in range(n)]
    entries += [".byte 0"] * (n + 1)
    return ABBREVIATIONS + UNIT.format(n=0, entries="\n".join(entries))


def ranges(n_units, n_ranges):
    """Units that share one list of ranges, each with a function that has the same list."""
    entries = ".uleb128 4; .long .Lranges; .uleb128 3; .long .Lranges; .byte 0"
    units = "".join(UNIT.format(n=i, entries=entries) for i in range(n_units))
    return (f"{ABBREVIATIONS}{units}\n.section .debug_ranges,\"\",%progbits\n.Lranges:\n"
            f".rept {n_ranges}\n.quad 0, 0x7fffffff\n.endr\n.quad 0, 0\n")
