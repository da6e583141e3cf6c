// SPDX-License-Identifier: Apache-2.0
//
// Rust's legacy names have the mangling of C++, with a hash at the end. The hash has no meaning for
// people and is removed.
#include "common/mangled.h"

#include <stdbool.h>
#include <string.h>

#include "common/str.h"

#define NAME_BYTES_MAX  16384
#define RUST_HASH_BYTES 19 // "::h" and 16 digits

static void rust_hash_cut(char *name)
{
    size_t n = strlen(name);
    if (n <= RUST_HASH_BYTES || !str_starts_with(name + n - RUST_HASH_BYTES, "::h"))
        return;
    if (strspn(name + n - RUST_HASH_BYTES + 3, "0123456789abcdef") == RUST_HASH_BYTES - 3)
        name[n - RUST_HASH_BYTES] = '\0';
}

char *mangled_read(const char *name, mangled_read_fn read)
{
    int status;
    bool is_mangled = str_starts_with(name, "_Z") || str_starts_with(name, "___Z");
    if (!is_mangled || strlen(name) > NAME_BYTES_MAX)
        return NULL;
    char *readable = read(name, NULL, NULL, &status);
    if (readable)
        rust_hash_cut(readable);
    return readable;
}
