// SPDX-License-Identifier: Apache-2.0
//
// Exported functions of the allocator never leave their stack frame to an inner one, so whoever is
// inside has their address on the stack. A stack whose end is not a beginning that is known (of the
// program, or of a thread, in the C library) was not followed to its end, and counts as unknown.
#include "producer/agents/heap/attach/safe_point.h"

#include <libunwind-ptrace.h>

#define FRAMES_MAX 4096
#define ENTRY_SIZE 64

static bool is_beginning(const struct target *target, uint64_t pc)
{
    // A program that is not at a fixed address: its entry's place in the page says enough.
    bool at_entry = ((pc - target->entry) & 0xfff) < ENTRY_SIZE;
    return at_entry || (pc >= target->libc.start && pc < target->libc.end);
}

static bool is_stack_safe(const struct target *target, unw_addr_space_t space, void *access)
{
    unw_cursor_t cursor;
    unw_word_t pc = 0;
    int n = 0, r = unw_init_remote(&cursor, space, access) < 0 ? -1 : 1;
    while (r > 0 && n++ < FRAMES_MAX) {
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || target_is_denied(target, pc) ||
            target_is_denied(target, pc - 1))
            return false;
        r = unw_step(&cursor);
    }
    return r == 0 && is_beginning(target, pc);
}

bool safe_point_is_here(const struct target *target, const struct tracee *tracee)
{
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    void *access = space ? _UPT_create(tracee->tid) : NULL;
    bool is_safe = access && is_stack_safe(target, space, access);
    if (access)
        _UPT_destroy(access);
    if (space)
        unw_destroy_addr_space(space);
    return is_safe;
}
