// SPDX-License-Identifier: Apache-2.0
//
// A trace config, from the bytes of a file to a struct. What the values mean together is judged by
// config_check.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "protos/config/trace_config.pb-c.h"

#define CONFIG_BUFFER_KB_MIN 4 // smaller buffers are raised to it
#define CONFIG_BUFFER_KB_MAX (UINT32_MAX / 1024)
#define CONFIG_SIZE_MAX      ((size_t)8 << 20) // bytes

enum config_format {
    CONFIG_FORMAT_ANY, // text or binary, whatever it looks like
    CONFIG_FORMAT_TEXT,
};

// All zero is no config.
struct config {
    Pb__TraceConfig *trace; // owned
    uint8_t *bytes;         // owned: `trace` encoded, as it goes into the trace_config packet
    size_t size;
};

// Loads `bytes` (at most CONFIG_SIZE_MAX), which `name` stands for in errors. On failure *ret stays
// untouched. -EINVAL: not a config; -E2BIG; -ENOMEM.
int config_load(const char *name, const void *bytes, size_t size, enum config_format format,
                struct config *ret, struct err *err);

// Takes over `trace`, also on failure. For configs that a program puts together.
int config_from_message(Pb__TraceConfig *trace, struct config *ret, struct err *err);

// A message of its own; NULL: no memory.
Pb__TraceConfig *config_copy_message(const Pb__TraceConfig *trace);

// Brings `bytes` up to date after a change of `trace`.
int config_encode(struct config *config, struct err *err);

// Makes all strings in an encoded trace config UTF-8, in place: a trace is read by decoders that
// want it, while paths and names in a config may be any bytes.
void config_mend_texts(uint8_t *bytes, size_t size);

void config_done(struct config *config);

// The buffer that a data source of `trace` writes to, by name or number: an index below n_buffers,
// or -ENOENT.
int config_target_buffer(const Pb__TraceConfig *trace, const Pb__DataSourceConfig *source,
                         uint32_t *ret);

// The part of a buffer's size_kb that keeps the first packets and is never overwritten; 0: none.
// A RING_BUFFER of a session that START_TRACING begins keeps a quarter unless keep_first_kb says
// otherwise.
uint32_t config_keep_first_kb(const Pb__TraceConfig *trace,
                              const Pb__TraceConfig__BufferConfig *buffer);

// Time between two writes into the file: 5000 when absent or 0, 100 at least.
uint32_t config_file_write_period_ms(const Pb__TraceConfig *trace);
