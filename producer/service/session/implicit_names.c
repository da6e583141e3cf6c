// SPDX-License-Identifier: Apache-2.0
//
// Nothing is scanned or polled: each task in an event costs the reading of three files. A config
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

static bool has_source(const Pb__TraceConfig *config, const char *name)
{
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = config->data_sources[i]->config;
        if (source && source->name && str_eq(source->name, name))
            return true;
    }
    return false;
}

bool wants_implicit_names(const Pb__TraceConfig *config)
{
    return has_source(config, "linux.ftrace") && !has_source(config, "linux.process_stats");
}
