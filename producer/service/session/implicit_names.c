// SPDX-License-Identifier: Apache-2.0
//
// Nothing is scanned or polled: each task costs the reading of three files. A config with
// linux.process_stats and DISABLE_ON_DEMAND prevents even this reading.
#include "producer/service/session/implicit_names.h"

#include <string.h>

#include "common/str.h"

static const Pb__ProcessStatsConfig names_only = {
    .base = PROTOBUF_C_MESSAGE_INIT(&pb__process_stats_config__descriptor),
    .has_record_thread_names = true,
    .record_thread_names = true,
};

const Pb__DataSourceConfig implicit_names_config = {
    .base = PROTOBUF_C_MESSAGE_INIT(&pb__data_source_config__descriptor),
    .name = (char *)"linux.process_stats",
    .process_stats_config = (Pb__ProcessStatsConfig *)&names_only,
};

// Returns whether the source records tasks by number.
static bool meets_tasks(const char *name)
{
    return str_eq(name, "linux.ftrace") || str_eq(name, "android.heapprofd") ||
           str_eq(name, "linux.heap") || str_eq(name, "linux.perf");
}

bool wants_implicit_names(const Pb__TraceConfig *config)
{
    bool wants = false;
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = config->data_sources[i]->config;
        if (source && source->name && str_eq(source->name, implicit_names_config.name))
            return false;
        wants |= source && source->name && meets_tasks(source->name);
    }
    return wants;
}

static bool is_switched_off(const Pb__ProcessStatsConfig *config)
{
    for (size_t i = 0; config && i < config->n_quirks; i++)
        if (config->quirks[i] == PB__PROCESS_STATS_CONFIG__QUIRKS__DISABLE_ON_DEMAND)
            return true;
    return false;
}

// Returns whether a source looks up the tasks that other sources record.
static bool looks_up_tasks(const Pb__TraceConfig *config)
{
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = config->data_sources[i]->config;
        if (source && source->name && str_eq(source->name, implicit_names_config.name) &&
            !is_switched_off(source->process_stats_config))
            return true;
    }
    return wants_implicit_names(config);
}

// Returns whether the config has events with task names: events of scheduling and of new tasks.
static bool events_name_tasks(const Pb__TraceConfig *config)
{
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = config->data_sources[i]->config;
        const Pb__FtraceConfig *ftrace = source ? source->ftrace_config : NULL;
        for (size_t e = 0; ftrace && e < ftrace->n_ftrace_events; e++)
            if (strstr(ftrace->ftrace_events[e], "sched") ||
                strstr(ftrace->ftrace_events[e], "task"))
                return true;
        if (ftrace && ftrace->n_atrace_categories > 0)
            return true;
    }
    return false;
}

bool wants_names_of_ended(const Pb__TraceConfig *config)
{
    return looks_up_tasks(config) && !events_name_tasks(config);
}
