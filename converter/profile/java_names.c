// SPDX-License-Identifier: Apache-2.0
//
// A signature is read from left to right in one pass; the position NULL means an invalid signature.
// The return type of a method is left out, because the return type does not distinguish methods.
#include "converter/profile/java_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/elements.h"
#include "common/text.h"

#define DIMENSIONS_MAX 255

struct writer {
    char *at, *end; // the final zero fits after `end`
};

static void put(struct writer *w, struct text text)
{
    for (size_t i = 0; i < text.size && w->at < w->end; i++)
        *w->at++ = text.at[i] == '/' ? '.' : text.at[i];
}

static const char *primitive(char letter)
{
    static const char *const names[] = {"Zboolean", "Bbyte",  "Cchar",   "Sshort", "Iint",
                                        "Jlong",    "Ffloat", "Ddouble", "Vvoid"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (names[i][0] == letter)
            return names[i] + 1;
    return NULL;
}

// Writes the type at `at`. Returns the text after the type; NULL: not a type.
static const char *type_put(struct writer *w, const char *at)
{
    size_t n_dimensions = strspn(at, "[");
    at += n_dimensions;
    const char *semicolon = *at == 'L' ? strchr(at, ';') : NULL;
    const char *name = primitive(*at);
    if (n_dimensions > DIMENSIONS_MAX || (!semicolon && (!*at || !name)))
        return NULL;
    if (semicolon)
        put(w, (struct text){at + 1, (size_t)(semicolon - at - 1)});
    else
        put(w, text_from(name));
    for (size_t i = 0; i < n_dimensions; i++)
        put(w, TEXT("[]"));
    return semicolon ? semicolon + 1 : at + 1;
}

static bool parameters_put(struct writer *w, const char *at)
{
    put(w, TEXT("("));
    for (bool first = true; at && *at != ')'; first = false) {
        if (!first)
            put(w, TEXT(", "));
        at = type_put(w, at);
    }
    put(w, TEXT(")"));
    return at && *at == ')';
}

// Returns the text after the return type, for example a source line.
static const char *after_return(const char *parenthesis)
{
    struct writer nowhere = {0};
    return type_put(&nowhere, parenthesis + 1);
}

static bool method_put(struct writer *w, const char *name)
{
    const char *colons = strstr(name, ";::");
    const char *method = name[0] == 'L' && colons ? colons + 3 : name;
    const char *open = strchr(method, '('), *close = open ? strchr(open, ')') : NULL;
    const char *rest = close ? after_return(close) : NULL;
    if (!rest)
        return false;
    if (method != name) {
        put(w, (struct text){name + 1, (size_t)(colons - name - 1)});
        put(w, TEXT("."));
    }
    put(w, (struct text){method, (size_t)(open - method)});
    if (!parameters_put(w, open + 1))
        return false;
    put(w, text_from(rest));
    return true;
}

void java_type_name(const char *signature, char *ret, size_t size)
{
    struct writer w = {ret, ret + size - 1};
    const char *end = type_put(&w, signature);
    *w.at = 0;
    if (!end || *end)
        snprintf(ret, size, "%s", signature);
}

void java_method_name(const char *name, char *ret, size_t size)
{
    struct writer w = {ret, ret + size - 1};
    bool is_read = method_put(&w, name);
    *w.at = 0;
    if (!is_read)
        snprintf(ret, size, "%s", name);
}
