// SPDX-License-Identifier: Apache-2.0
//
// The demanglers print a name part by part. A name whose readable form gets too long is left by a
// jump out of the demangler, at a part at which the demangler has nothing to release.
#include "common/mangled.h"

#include <stddef.h>

#ifdef HAVE_LIBIBERTY
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "common/str.h"
#include "common/text.h"

#define NAME_BYTES_MAX     16384
#define READABLE_BYTES_MAX ((size_t)64 << 10)
#define PACK_REFERENCES    18

struct reading {
    struct strbuf readable;
    bool is_rust;
    jmp_buf too_long;
};

// The demangler of Rust has memory while it prints a part of a name that is not ASCII.
static bool may_jump(const struct reading *reading, const char *part, size_t size)
{
    for (size_t i = 0; reading->is_rust && i < size; i++)
        if ((unsigned char)part[i] >= 0x80)
            return false;
    return true;
}

static void part_add(const char *part, size_t size, void *userdata)
{
    struct reading *reading = userdata;
    bool is_full = reading->readable.failed || reading->readable.size > READABLE_BYTES_MAX;
    if (!is_full)
        strbuf_add(&reading->readable, part, size);
    else if (may_jump(reading, part, size))
        longjmp(reading->too_long, 1);
}

// A name of C++ with a parameter pack can take 2^n steps before the first part is printed, n being
// the number of its references to earlier parts (S_, S0_).
static bool takes_long(const char *name)
{
    size_t n = 0;
    if (!strstr(name, "Dp") && !strstr(name, "sp"))
        return false;
    for (const char *at = name; (at = strchr(at, 'S')); at++)
        n += at[1] == '_' || is_digit(at[1]) || (at[1] >= 'A' && at[1] <= 'Z');
    return n > PACK_REFERENCES;
}

static bool rust_read(struct reading *reading, const char *name)
{
    reading->is_rust = true;
    if (setjmp(reading->too_long) != 0)
        return false;
    return rust_demangle_callback(name, DMGL_NO_OPTS, part_add, reading);
}

static bool cxx_read(struct reading *reading, const char *name)
{
    reading->is_rust = false;
    if (!str_starts_with(name, "_Z") || takes_long(name))
        return false;
    if (setjmp(reading->too_long) != 0)
        return false;
    return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, part_add, reading);
}

static bool is_whole(const struct reading *reading)
{
    return reading->readable.size && !reading->readable.failed &&
           reading->readable.size <= READABLE_BYTES_MAX;
}

// Rust's older names have the mangling of C++, so Rust comes first.
char *mangled_read(const char *name)
{
    struct reading reading = {0};
    if (name[0] != '_' || strlen(name) > NAME_BYTES_MAX)
        return NULL;
    if (rust_read(&reading, name) && is_whole(&reading))
        return reading.readable.text;
    strbuf_done(&reading.readable);
    if (cxx_read(&reading, name) && is_whole(&reading))
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
