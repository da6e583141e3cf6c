// SPDX-License-Identifier: Apache-2.0
//
// The table of data sources. process_stats comes first: it must listen before others publish
// pids; perf_map before heap profiles do.
#include "common/str.h"
#include "producer/sources/ftrace/ftrace_source.h"
#include "producer/sources/heap/heap_source.h"
#include "producer/sources/perf_map/perf_map_source.h"
#include "producer/sources/process_stats/process_stats_source.h"
#include "producer/sources/residency/residency_sampler.h"
#include "producer/sources/source.h"
#include "producer/sources/sys_stats/sys_stats_source.h"
#include "producer/sources/system_info/system_info_source.h"

const struct source_class *const source_classes[] = {
    // clang-format off
    &process_stats_class,
    &ftrace_source_class,
    &sys_stats_class,
    &page_residency_class,
    &perf_map_class,
    &heap_source_class,
    &system_info_class,
    NULL,
    // clang-format on
};

bool source_class_is(const struct source_class *class, const char *name)
{
    if (str_eq(class->name, name))
        return true;
    for (const char *const *alias = class->aliases; alias && *alias; alias++)
        if (str_eq(*alias, name))
            return true;
    return false;
}

const struct source_class *source_class_find(const char *name)
{
    for (const struct source_class *const *class = source_classes; *class; class ++)
        if (source_class_is(*class, name))
            return *class;
    return NULL;
}

void source_class_names(const char **ret, size_t n)
{
    size_t i = 0;
    for (const struct source_class *const *class = source_classes; *class; class ++) {
        if (i < n - 1)
            ret[i++] = (*class)->name;
        for (const char *const *alias = (*class)->aliases; alias && *alias && i < n - 1; alias++)
            ret[i++] = *alias;
    }
    ret[i] = NULL;
}
