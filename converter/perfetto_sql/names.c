// SPDX-License-Identifier: Apache-2.0
//
// Names of objects that SQL created. SQLite compares names without regard to case.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "converter/perfetto_sql/engine_state.h"

char *engine_name(struct sql_part part)
{
    char quote = part.size >= 2 ? part.text[0] : '\0';
    char end = quote == '[' ? ']' : quote;
    if (quote != '"' && quote != '`' && quote != '[')
        return strndup(part.text, part.size);
    char *name = calloc(1, part.size);
    for (size_t i = 1, n = 0; name && i + 1 < part.size; i++) {
        name[n++] = part.text[i];
        i += part.text[i] == end && end != ']';
    }
    return name;
}

static char **name_find(const struct sql_names *names, const char *name)
{
    vec_foreach(names, known)
        if (strcasecmp(*known, name) == 0)
            return known;
    return NULL;
}

bool names_have(const struct sql_names *names, const char *name)
{
    return name_find(names, name);
}

int names_add(struct sql_names *names, const char *name)
{
    if (names_have(names, name))
        return 0;
    char *copy = strdup(name);
    int r = copy ? sql_names_push(names, copy) : -ENOMEM;
    if (r < 0)
        free(copy);
    return r;
}

void names_remove(struct sql_names *names, const char *name)
{
    char **known = name_find(names, name);
    if (!known)
        return;
    free(*known);
    *known = names->items[--names->n];
}

void names_done(struct sql_names *names)
{
    vec_foreach(names, name)
        free(*name);
    sql_names_done(names);
}
