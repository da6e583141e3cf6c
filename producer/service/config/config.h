// SPDX-License-Identifier: Apache-2.0
//
// A trace config, from the bytes of a file to a struct. config_check.h checks the values.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "protos/config/trace_config.pb-c.h"

#define CONFIG_BUFFER_KB_MIN 4 // smaller buffers are raised to this size
#define CONFIG_BUFFER_KB_MAX (UINT32_MAX / 1024)
#define CONFIG_SIZE_MAX      ((size_t)8 << 20) // bytes

enum config_format {
    CONFIG_FORMAT_ANY, // text or binary, according to the bytes
    CONFIG_FORMAT_TEXT,
};

// All zero: there is no config.
struct config {
    Pb__TraceConfig *trace; // owned
    uint8_t *bytes;         // owned: `trace` encoded, as it goes into the trace_config packet
    size_t size;
};

// Loads a config from `bytes`. `name` is the name of the bytes in errors. Returns 0, -EINVAL if the
// bytes are not a config, -E2BIG above CONFIG_SIZE_MAX, or -ENOMEM.
int config_load(const char *name, const void *bytes, size_t size, enum config_format format,
                struct config *ret, struct err *err);

// Makes a config from a message of the program. Takes over `trace`, also on failure. Returns 0 or
// -ENOMEM.
int config_from_message(Pb__TraceConfig *trace, struct config *ret, struct err *err);

// Returns a copy (owned by the caller), or NULL if memory ran out.
Pb__TraceConfig *config_copy_message(const Pb__TraceConfig *trace);

// Encodes a changed `trace` into `bytes` again. Returns 0 or -ENOMEM.
int config_encode(struct config *config, struct err *err);

// Makes all strings in an encoded trace config UTF-8, in place. Paths and names in a config may
// have any bytes, but some decoders of traces accept only UTF-8.
void config_mend_texts(uint8_t *bytes, size_t size);

void config_done(struct config *config);

// Finds the buffer of a data source of `trace`, by name or number. Returns 0 with the index, or
// -ENOENT.
int config_target_buffer(const Pb__TraceConfig *trace, const Pb__DataSourceConfig *source,
                         uint32_t *ret);

// Returns the size in kB of the part of a buffer that keeps the first packets and is never
// overwritten; 0: none. The default is a quarter for a RING_BUFFER of a session with START_TRACING,
// 0 for others.
uint32_t config_keep_first_kb(const Pb__TraceConfig *trace,
                              const Pb__TraceConfig__BufferConfig *buffer);

// Returns the time between two writes into the file in ms: at least 100, and 5000 if the config has
// none.
uint32_t config_file_write_period_ms(const Pb__TraceConfig *trace);
