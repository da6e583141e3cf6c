// SPDX-License-Identifier: Apache-2.0
//
// Nothing is scanned or polled: each task costs the reading of three files. A config
// with linux.process_stats and DISABLE_ON_DEMAND switches even this off.
#include "producer/service/session/implicit_names.h"

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

// Whether the source records tasks by number.
static bool meets_tasks(const char *name)
{
    return str_eq(name, "linux.ftrace") || str_eq(name, "android.heapprofd") ||
           str_eq(name, "linux.heap");
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
