// SPDX-License-Identifier: Apache-2.0
//
// The C++ runtime of the compiler knows its own names. Rust's older names are mangled in the same
// way, with a hash at their end that says nothing and is left out.
#include "converter/symbols/demangle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CXA_DEMANGLE
char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);
#endif

#define NAME_BYTES_MAX  16384
#define RUST_HASH_BYTES 19 // "::h" and 16 digits

#ifdef HAVE_CXA_DEMANGLE
static void rust_hash_cut(char *name)
{
    size_t n = strlen(name);
    if (n <= RUST_HASH_BYTES || strncmp(name + n - RUST_HASH_BYTES, "::h", 3) != 0)
        return;
    if (strspn(name + n - RUST_HASH_BYTES + 3, "0123456789abcdef") == RUST_HASH_BYTES - 3)
        name[n - RUST_HASH_BYTES] = '\0';
}
#endif

char *symbol_demangle(const char *name)
{
#ifdef HAVE_CXA_DEMANGLE
    int status;
    bool is_mangled = strncmp(name, "_Z", 2) == 0 || strncmp(name, "___Z", 4) == 0;
    if (!is_mangled || strlen(name) > NAME_BYTES_MAX)
        return NULL;
    char *readable = __cxa_demangle(name, NULL, NULL, &status);
    if (readable)
        rust_hash_cut(readable);
    return readable;
#else
    (void)name;
    return NULL;
#endif
}
