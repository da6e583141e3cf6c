// SPDX-License-Identifier: Apache-2.0
//
// The table comes from the compiler's own view of <sys/syscall.h> (gen_syscalls.py), so it is right
// for the machine that the program is built for.
#include "producer/sources/ftrace/syscall_numbers.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/elements.h"
#include "common/str.h"

static const struct {
    const char *name;
    long number;
} syscalls[] = {
#include "producer/sources/ftrace/syscall_names.inc"
};

long syscall_number(const char *name)
{
    if (str_starts_with(name, "sys_"))
        name += strlen("sys_");
    size_t low = 0, high = ELEMENTS(syscalls);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, syscalls[middle].name);
        if (order == 0)
            return syscalls[middle].number;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}
