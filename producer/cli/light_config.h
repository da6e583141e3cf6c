// SPDX-License-Identifier: Apache-2.0
//
// The config that -t, -b, -s and bare event names stand for if no config file is given.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "producer/service/config/config.h"

struct light_config {
    nsec_t duration;         // 0: not given
    uint64_t buffer_bytes;   // 0: the default, 32 MiB
    uint64_t max_file_bytes; // 0: everything stays in the buffer until the end
    char **events;           // borrowed: "group/name", "group/*"
    size_t n_events;
};

#define LIGHT_CONFIG_DURATION     (10 * NSEC_PER_SEC)
#define LIGHT_CONFIG_BUFFER_BYTES ((uint64_t)32 << 20)

int light_config_make(const struct light_config *light, struct config *ret, struct err *err);

// Appends ` FIELD: "VALUE"` to the text of a config, with escapes where they are needed.
void light_config_add_string(struct strbuf *text, const char *field, const char *value);

// Loads the text of a config that options stand for.
int light_config_load(const struct strbuf *text, struct config *ret, struct err *err);

// Applies -t, -b and -s to the config of a file. -t replaces the config's triggers. -b needs a
// config with one buffer. Returns 0, or a negative errno with text.
int light_config_override(const struct light_config *light, struct config *config, struct err *err);
