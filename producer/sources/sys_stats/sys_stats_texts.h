// SPDX-License-Identifier: Apache-2.0
//
// Converts the text of one /proc file into fields of SysStats. Each function takes the whole text
// and appends to an open SysStats message. Malformed lines are left out. Nothing is allocated.
#pragma once

#include <stdint.h>

#include "common/wire.h"
#include "producer/ground/proc_text.h"

// `counters` selects parts of /proc/stat: bits 1 << STAT_CPU_TIMES and so on.
void stat_text_write(struct span text, uint32_t counters, uint64_t ns_per_tick,
                     struct wire_writer *w);

// /proc/pressure/X; `some` and `full` are the resources of its two lines.
void psi_text_write(struct span text, uint32_t some, uint32_t full, struct wire_writer *w);

void buddyinfo_text_write(struct span text, struct wire_writer *w);
void diskstats_text_write(struct span text, struct wire_writer *w);
void slabinfo_text_write(struct span text, struct wire_writer *w);
