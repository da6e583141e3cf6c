// SPDX-License-Identifier: Apache-2.0
//
// The demanglers print a name part by part, with all their state on the stack. A name whose
// readable form gets too long is left by a jump out of the demangler, which has nothing to release.
#include "common/mangled.h"

#include <stddef.h>

#ifdef HAVE_LIBIBERTY
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "common/str.h"

#define NAME_BYTES_MAX     16384
#define READABLE_BYTES_MAX ((size_t)64 << 10)

struct reading {
    struct strbuf readable;
    jmp_buf too_long;
};

static void part_add(const char *part, size_t size, void *userdata)
{
    struct reading *reading = userdata;
    strbuf_add(&reading->readable, part, size);
    if (reading->readable.failed || reading->readable.size > READABLE_BYTES_MAX)
        longjmp(reading->too_long, 1);
}

// Rust's older names have the mangling of C++, so Rust comes first.
static bool name_read(struct reading *reading, const char *name)
{
    return setjmp(reading->too_long) == 0 &&
           (rust_demangle_callback(name, DMGL_NO_OPTS, part_add, reading) ||
            (str_starts_with(name, "_Z") &&
             cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, part_add, reading))) &&
           reading->readable.text;
}

char *mangled_read(const char *name)
{
    struct reading reading = {0};
    if (name[0] != '_' || strlen(name) > NAME_BYTES_MAX)
        return NULL;
    if (name_read(&reading, name))
        return reading.readable.text;
    strbuf_done(&reading.readable);
    return NULL;
}
#else
char *mangled_read(const char *name)
{
    (void)name;
    return NULL;
}
#endif
