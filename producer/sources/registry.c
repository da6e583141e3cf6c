// SPDX-License-Identifier: Apache-2.0
//
// The table of data sources. process_stats comes first, because it must listen before others
// publish pids; perf_map comes before heap profiles for the same reason.
#include "common/str.h"
#include "producer/sources/source.h"

#define LIMITED_WAIT (300 * NSEC_PER_MSEC)

int source_add_timer(const struct source_env *env, nsec_t first, nsec_t period, loop_fn fire,
                     void *userdata, struct loop_timer **ret)
{
    int r = loop_add_timer(env->loop, first, period, fire, userdata, ret);
    if (r == 0)
        loop_set_share(*ret, env->shares ? &env->shares->readings : NULL);
    return r;
}

// Ends ask both shares: else each source of a session could wait once in the flush and once in the
// stop.
nsec_t source_wait_until(const struct source_env *env, nsec_t most)
{
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    if (env->shares && (!loop_share_is_left(&env->shares->readings, now) ||
                        !loop_share_is_left(&env->shares->sessions, now)))
        most = 0;
    else if (env->shares && most > LIMITED_WAIT)
        most = LIMITED_WAIT;
    return nsec_now(CLOCK_MONOTONIC) + most;
}

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

const struct source_class *source_class_of_config(const char *field)
{
    for (const struct source_class *const *class = source_classes; *class; class ++)
        if ((*class)->config && str_eq((*class)->config, field))
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
