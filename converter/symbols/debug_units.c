// SPDX-License-Identifier: Apache-2.0
//
// The functions of a unit are read when an address of the unit is looked up first.
//
// Ranges overlap where the linker has left out a function: its range begins at 0 then.
#ifdef HAVE_LIBDW

#include "converter/symbols/debug_units.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/memory.h"
#include "common/vec.h"

#define OVERLAPS_MAX 64 // looked at for one address
#define NESTED_MAX   64 // namespaces, types, functions and blocks in each other
#define INLINED_MAX  256
#define RANGES_MAX   ((size_t)2 << 20) // of a file: entries can share a list of ranges

struct range {
    Dwarf_Addr begin, end;
    Dwarf_Addr reach; // the largest end of this range and all before it
    size_t target;    // index of the unit, or offset of the entry of the function
};

VEC_DEFINE(range_vec, struct range);

struct unit {
    Dwarf_Die die;
    bool is_read;
    struct range_vec functions;
};

VEC_DEFINE(unit_vec, struct unit);

struct debug_units {
    Dwarf *debug;
    struct unit_vec units;
    struct range_vec ranges;
    size_t n_ranges; // of units and functions
};

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void ranges_sort(struct range_vec *ranges)
{
    if (ranges->n > 0)
        qsort(ranges->items, ranges->n, sizeof(*ranges->items), by_begin);
    Dwarf_Addr reach = 0;
    vec_foreach(ranges, range) {
        reach = range->end > reach ? range->end : reach;
        range->reach = reach;
    }
}

static int ranges_add(struct debug_units *units, struct range_vec *ranges, Dwarf_Die *die,
                      size_t target)
{
    Dwarf_Addr base;
    struct range range = {.target = target};
    ptrdiff_t at = 0;
    while (units->n_ranges < RANGES_MAX &&
           (at = dwarf_ranges(die, at, &base, &range.begin, &range.end)) > 0) {
        units->n_ranges++;
        if (range.begin < range.end && range_vec_push(ranges, range) < 0)
            return -ENOMEM;
    }
    return 0;
}

static const struct range *ranges_find(const struct range_vec *ranges, Dwarf_Addr address)
{
    size_t low = 0, high = ranges->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = 0; i < OVERLAPS_MAX && low > 0 && ranges->items[low - 1].reach > address; i++)
        if (ranges->items[--low].end > address)
            return &ranges->items[low];
    return NULL;
}

// Moves to the next entry beside this one. Damaged data could lead back.
static bool sibling_next(Dwarf_Die *die)
{
    Dwarf_Off before = dwarf_dieoffset(die);
    return dwarf_siblingof(die, die) == 0 && dwarf_dieoffset(die) > before;
}

// `last` is the offset of the entry that was read last. In damaged data, an entry can be the
// sibling of its own parent: no entry is read twice.
static int functions_read(struct debug_units *units, struct range_vec *functions, Dwarf_Die *parent,
                          Dwarf_Off *last, int depth)
{
    Dwarf_Die die;
    bool is_there = depth < NESTED_MAX && dwarf_child(parent, &die) == 0;
    int r = 0;
    for (; r == 0 && is_there && dwarf_dieoffset(&die) > *last; is_there = sibling_next(&die)) {
        *last = dwarf_dieoffset(&die);
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
            r = ranges_add(units, functions, &die, dwarf_dieoffset(&die));
            r = r == 0 ? functions_read(units, functions, &die, last, depth + 1) : r;
            break;
        case DW_TAG_lexical_block: // a function in a function: a lambda, or a local class
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_enumeration_type:
            r = functions_read(units, functions, &die, last, depth + 1);
            break;
        default:
            break;
        }
    }
    return r;
}

// Moves to the entry below this one whose code has the address. Returns false if there is none.
static bool scope_enter(Dwarf_Die *scope, Dwarf_Addr address)
{
    Dwarf_Die die;
    for (bool is_there = dwarf_child(scope, &die) == 0; is_there; is_there = sibling_next(&die))
        if (dwarf_tag(&die) != DW_TAG_subprogram && dwarf_haspc(&die, address) > 0) {
            *scope = die;
            return true;
        }
    return false;
}

int debug_units_new(Dwarf *debug, struct debug_units **ret)
{
    struct debug_units *units = memory_calloc(1, sizeof(*units));
    if (!units)
        return -ENOMEM;
    Dwarf_CU *at = NULL;
    struct unit unit = {0};
    uint8_t type;
    int r = 0;
    units->debug = debug;
    while (r == 0 && dwarf_get_units(debug, at, &at, NULL, &type, &unit.die, NULL) == 0) {
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        r = ranges_add(units, &units->ranges, &unit.die, units->units.n);
        r = r == 0 ? unit_vec_push(&units->units, unit) : r;
    }
    if (r < 0) {
        debug_units_free(units);
        return r;
    }
    ranges_sort(&units->ranges);
    *ret = units;
    return 0;
}

struct debug_units *debug_units_free(struct debug_units *units)
{
    if (!units)
        return NULL;
    vec_foreach(&units->units, unit)
        range_vec_done(&unit->functions);
    unit_vec_done(&units->units);
    range_vec_done(&units->ranges);
    free(units);
    return NULL;
}

size_t debug_units_find(struct debug_units *units, Dwarf_Addr address, Dwarf_Die *ret_unit,
                        Dwarf_Die *ret, size_t size)
{
    const struct range *range = ranges_find(&units->ranges, address);
    if (!range)
        return 0;
    struct unit *unit = &units->units.items[range->target];
    Dwarf_Off last = 0;
    if (!unit->is_read && functions_read(units, &unit->functions, &unit->die, &last, 0) < 0) {
        range_vec_done(&unit->functions);
        return 0;
    }
    if (!unit->is_read)
        ranges_sort(&unit->functions);
    unit->is_read = true;
    Dwarf_Die scopes[INLINED_MAX], scope;
    range = ranges_find(&unit->functions, address);
    if (!range || !dwarf_offdie(units->debug, range->target, &scope))
        return 0;
    size_t n = 0;
    do {
        int tag = dwarf_tag(&scope);
        if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
            scopes[n++] = scope;
    } while (n < INLINED_MAX && scope_enter(&scope, address));
    *ret_unit = unit->die;
    size_t n_ret = n < size ? n : size;
    for (size_t i = 0; i < n_ret; i++)
        ret[i] = scopes[n - 1 - i];
    return n_ret;
}

#endif
