// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/vec.h"
#include "converter/perfetto_sql/library_docs.h"
#include "converter/perfetto_sql/packages.h"

VEC_DEFINE(text_vec, char *);

void modules_print(const struct sql_packages *packages)
{
    vec_foreach(&packages->modules, module) {
        CLEANUP(strbuf_done) struct strbuf summary = {0};
        library_summary_add(&summary, module);
        printf("%-34s %s\n", module->name, summary.text ? summary.text : "");
    }
}

// Prints the documentation of the objects of this name, with `object`; otherwise of the modules
// that `name` means.
static bool documentation_print(const struct sql_packages *packages, const char *name,
                                bool of_objects)
{
    bool found = false;
    vec_foreach(&packages->modules, module) {
        CLEANUP(strbuf_done) struct strbuf text = {0};
        if (!of_objects && !module_matches(module, name, strlen(name)))
            continue;
        if (!library_text_add(&text, module, of_objects ? name : NULL) || !text.size)
            continue;
        if (of_objects)
            printf("INCLUDE PERFETTO MODULE %s;\n\n", module->name);
        printf("%s%s", found ? "\n" : "", text.text);
        found = true;
    }
    return found;
}

bool module_print(const struct sql_packages *packages, const char *name)
{
    return documentation_print(packages, name, false) || documentation_print(packages, name, true);
}

static void name_take(void *userdata, const char *name, size_t size)
{
    char *copy = strndup(name, size);
    if (!copy || text_vec_push(userdata, copy) < 0)
        free(copy);
}

char *module_nearest(const struct sql_packages *packages, const char *name)
{
    struct text_vec names = {0};
    vec_foreach(&packages->modules, module) {
        name_take(&names, module->name, strlen(module->name));
        library_names(module, name_take, &names);
    }
    const char *nearest = str_nearest(name, (const char *const *)names.items, names.n);
    char *copy = nearest ? strdup(nearest) : NULL;
    vec_foreach(&names, text)
        free(*text);
    text_vec_done(&names);
    return copy;
}
