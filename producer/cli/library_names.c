// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/library_names.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/mangled.h"
#include "common/str.h"

static const char *const beginnings[] = {
    "operator new",
    "std::",
    "__gnu_cxx::",
    "alloc::",
    "core::",
    "hashbrown::",
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_",
    "__rg_",
    "__rustc::__r",
    // for a build without libiberty
    "_Znw",
    "_Zna",
    "_ZNSt",
    "_ZNKSt",
    "_ZSt",
    "_ZN9__gnu_cxx",
};

// The readable form of a template's function begins with the type of its result. Returns the name
// after this type.
static const char *skip_type(const char *readable)
{
    const char *name = readable;
    int depth = 0;
    for (const char *at = readable; *at && (*at != '(' || depth > 0); at++) {
        depth += *at == '<' || *at == '{' || *at == '(';
        depth -= *at == '>' || *at == '}' || *at == ')';
        if (*at == ' ' && depth == 0)
            name = at + 1;
    }
    return name;
}

static bool begins(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(beginnings); i++)
        if (str_starts_with(name, beginnings[i]))
            return true;
    return false;
}

// Returns the type of a function of Rust, "<&mut alloc::string::String as core::...", without the
// marks of references.
static const char *skip_marks(const char *name)
{
    static const char *const marks[] = {"<", "&", "[", "(", "mut ", "dyn ", "*const ", "*mut "};
    for (size_t i = 0; i < ELEMENTS(marks);)
        if (str_starts_with(name, marks[i])) {
            name += strlen(marks[i]);
            i = 0;
        } else {
            i++;
        }
    return name;
}

// Returns whether this is a function of Rust for a type that is built in: "<u8 as core::...".
static bool is_for_plain_type(const char *name)
{
    const char *as = strstr(name, " as "), *path = strstr(name, "::");
    return as && path && as < path && begins(as + strlen(" as "));
}

bool library_names_have(const char *name)
{
    CLEANUP(freep) char *readable = mangled_read(name);
    const char *text = readable ? readable : name;
    if (*text == '<')
        return begins(skip_marks(text)) || is_for_plain_type(text);
    return begins(str_starts_with(text, "operator ") ? text : skip_type(text));
}
