// SPDX-License-Identifier: Apache-2.0
//
// Configures a tracefs buffer as a config demands, and starts it.
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

// Reads the layout of the kernel's pages; takes the default if the kernel does not state it.
// Returns 0 or a negative errno.
int setup_read_layout(const char *root, struct page_layout *ret, struct err *err);

// Logs the settings without effect here, with the reason.
void setup_warn(const Pb__FtraceConfig *config, const struct log *log);

// Returns whether setup_open() will make an instance of its own. Otherwise it changes a buffer that
// others may use.
bool setup_is_own(const struct source_roots *roots, const Pb__FtraceConfig *config,
                  const struct event_set *set);

// Opens the buffer and sets everything except events and tracers. Nothing is recorded yet. Adds the
// config's kprobes to `set`; a kprobe that cannot be created goes into `set->failed`. The buffer of
// a processor takes at most `most_kb`.
int setup_open(const struct source_roots *roots, const Pb__FtraceConfig *config,
               struct event_set *set, uint64_t most_kb, const struct log *log, struct setup *ret,
               struct err *err);

// Switches events and tracers on, while the buffer is still off. An event that cannot be switched
// on goes into `set->failed`.
void setup_enable(struct setup *setup, const Pb__FtraceConfig *config, struct event_set *set,
                  const struct log *log);

// Starts or stops recording in the kernel. Returns 0 or a negative errno.
int setup_switch(struct setup *setup, bool on);

// Switches events and tracers off and restores all settings. All pipes must be closed.
void setup_close(struct setup *setup, const struct log *log);

uint64_t setup_ram_bytes(void); // of the machine

// Returns the kilobytes of each CPU's buffer by Perfetto's rule: as configured, otherwise 8 MiB on
// machines with at least 7 GiB, and 2 MiB on others. A configured size is lowered if the buffers of
// all CPUs would take too much of the machine: the kernel allocates any requested size, and kills
// processes for the memory.
uint64_t setup_buffer_kb(const Pb__FtraceConfig *config, uint64_t ram_bytes, uint64_t n_cpus);
