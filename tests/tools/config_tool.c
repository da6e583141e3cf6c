// SPDX-License-Identifier: Apache-2.0
//
// Reads a trace config and shows the result, for tests in Python:
//
//     config_tool print|encode|check [--txt] FILE
//
// print: as canonical text; encode: the bytes; check: warnings on standard output (the
// machine has 1 GiB). Errors go to standard error, exit status 1.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/pbtext.h"
#include "producer/service/config/config.h"
#include "producer/service/config/config_check.h"
#include "producer/sources/source.h"

static void print_warning(void *userdata, enum log_level level, const char *line)
{
    (void)userdata;
    (void)level;
    printf("warning: %s\n", line);
}

static int check(const struct config *config, struct err *err)
{
    const char *sources[64];
    source_class_names(sources, ELEMENTS(sources));
    struct log log = {.max_level = LOG_LEVEL_WARNING, .write = print_warning};
    struct config_check_env env = {
        .log = &log, .source_names = sources, .memory_bytes = (uint64_t)1 << 30};
    return config_check(config->trace, &env, err);
}

static void print(const struct config *config)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    pbtext_print(&config->trace->base, &text);
    fwrite(text.text, 1, text.size, stdout);
}

int main(int argc, char **argv)
{
    bool is_text = argc == 4 && strcmp(argv[2], "--txt") == 0;
    if (argc != 3 + is_text) {
        fprintf(stderr, "usage: config_tool print|encode|check [--txt] FILE\n");
        return 2;
    }
    const char *path = argv[argc - 1], *verb = argv[1], *slash = strrchr(path, '/');
    CLEANUP(fclosep) FILE *file = fopen(path, "rbe");
    static uint8_t bytes[CONFIG_SIZE_MAX + 1];
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    struct err err = {0};
    CLEANUP(config_done) struct config config = {0};
    int r = config_load(slash ? slash + 1 : path, bytes, size,
                        is_text ? CONFIG_FORMAT_TEXT : CONFIG_FORMAT_ANY, &config, &err);
    if (r == 0 && strcmp(verb, "check") == 0)
        r = check(&config, &err);
    if (r < 0) {
        err_print(&err, "config_tool");
        return 1;
    }
    if (strcmp(verb, "print") == 0)
        print(&config);
    else if (strcmp(verb, "encode") == 0)
        fwrite(config.bytes, 1, config.size, stdout);
    return 0;
}
