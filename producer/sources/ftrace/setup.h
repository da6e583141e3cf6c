// SPDX-License-Identifier: Apache-2.0
//
// Brings a tracefs buffer into the state that a config asks for, and lets it run.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/sources/ftrace/event_set.h"
#include "producer/sources/ftrace/tracefs.h"
#include "producer/sources/source.h"
#include "protos/config/ftrace_config.pb-c.h"

struct setup {
    struct tracefs fs;
    uint32_t clock;        // FtraceClock; 0: boot
    uint32_t buffer_pages; // of each CPU
    size_t page_size;      // of a sub-buffer
};

// Says once what of the config has no effect here, and why.
void setup_warn(const Pb__FtraceConfig *config, const struct log *log);

// Whether setup_open() will make an instance of its own. Else it changes what others may use.
bool setup_is_own(const struct source_roots *roots, const Pb__FtraceConfig *config,
                  const struct event_set *set);

// Opens the buffer and sets everything but events and tracers; nothing is recorded yet. `set` gains
// the kprobes of the config, and in `failed` those that could not be had. On failure *ret is empty.
int setup_open(const struct source_roots *roots, const Pb__FtraceConfig *config,
               struct event_set *set, const struct log *log, struct setup *ret, struct err *err);

// Switches events and tracers on, while the buffer is still off. `set` gains in `failed` what could
// not be switched on.
void setup_enable(struct setup *setup, const Pb__FtraceConfig *config, struct event_set *set,
                  const struct log *log);

// Lets the kernel record, or no longer.
int setup_switch(struct setup *setup, bool on);

// Switches events and tracers off and puts everything back. All pipes must be closed.
void setup_close(struct setup *setup, const struct log *log);

// Kilobytes of each CPU's buffer, by Perfetto's rule: as asked for, else 8 MiB on machines with 7
// GiB and more, 2 MiB on others.
uint64_t setup_buffer_kb(const Pb__FtraceConfig *config, uint64_t ram_bytes);
