// SPDX-License-Identifier: Apache-2.0
//
// The table comes from the compiler's own view of <sys/syscall.h> (gen_syscalls.py), so it is right
// for the machine that the program is built for.
#include "producer/sources/ftrace/syscall_numbers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/elements.h"
#include "common/str.h"

struct syscall {
    const char *name;
    long number;
};

static const struct syscall syscalls[] = {
#include "producer/sources/ftrace/syscall_names.inc"
};

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct syscall *)entry)->name);
}

long syscall_number(const char *name)
{
    name += str_starts_with(name, "sys_") ? strlen("sys_") : 0;
    const struct syscall *found =
        bsearch(name, syscalls, ELEMENTS(syscalls), sizeof(syscalls[0]), by_name);
    return found ? found->number : -1;
}
