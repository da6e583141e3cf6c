// SPDX-License-Identifier: Apache-2.0
//
// The functions of debug data by the addresses of their code, as libdw's own look-ups miss some:
//
// - libdw before 0.191 finds a unit only by the table .debug_aranges. gcc writes the table, clang
//   does not, and a program of several compilers has the table for a part of its units.
// - dwarf_getscopes() does not look into namespaces, where Rust's functions stand.
#pragma once

#include <elfutils/libdw.h>
#include <stddef.h>

struct debug_units;

// Reads the addresses of all units, and none of their functions yet. `debug` must outlive the
// result. Returns 0 or -ENOMEM.
int debug_units_new(Dwarf *debug, struct debug_units **ret);
struct debug_units *debug_units_free(struct debug_units *units);

// Finds the function whose code has `address` of the debug data, and the functions that are inlined
// there. Writes at most `size` entries, the innermost first, and the entry of the unit. Returns
// their number.
size_t debug_units_find(struct debug_units *units, Dwarf_Addr address, Dwarf_Die *ret_unit,
                        Dwarf_Die *ret, size_t size);
