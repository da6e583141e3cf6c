// SPDX-License-Identifier: Apache-2.0
//
// Loads and checks any bytes as a config, text or binary. A config that passes has a buffer for
// every data source.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/pbtext.h"
#include "common/str.h"
#include "producer/service/config/config.h"
#include "producer/service/config/config_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(void *userdata, enum log_level level, const char *line)
{
    (void)userdata;
    (void)level;
    for (const char *p = line; *p; p++)
        if ((unsigned char)*p < 0x20 && *p != '\t')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sources[] = {"linux.ftrace", "linux.sys_stats", NULL};
    struct log log = {.max_level = LOG_LEVEL_WARNING, .write = check_line};
    struct config_check_env env = {
        .log = &log, .source_names = sources, .memory_bytes = (uint64_t)1 << 32};
    struct config config;
    struct err err = {0};
    if (config_load("input", data, size, CONFIG_FORMAT_ANY, &config, &err) < 0) {
        if (!err.text[0])
            abort();
        return 0;
    }
    struct strbuf text = {0};
    pbtext_print(&config.trace->base, &text);
    strbuf_done(&text);
    if (config_check(config.trace, &env, &err) == 0) {
        for (size_t i = 0; i < config.trace->n_data_sources; i++) {
            uint32_t target;
            const Pb__DataSourceConfig *source = config.trace->data_sources[i]->config;
            if (config_target_buffer(config.trace, source, &target) < 0 ||
                target >= config.trace->n_buffers)
                abort();
        }
    } else if (!err.text[0]) {
        abort();
    }
    config_done(&config);
    return 0;
}
