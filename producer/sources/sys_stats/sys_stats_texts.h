// SPDX-License-Identifier: Apache-2.0
//
// From the text of one /proc file to the fields of SysStats. Each takes the whole text and appends
// to an open SysStats message; lines that do not look as they should are left out. None allocates.
#pragma once

#include <stdint.h>

#include "common/wire.h"
#include "producer/ground/proc_text.h"

// Which parts of /proc/stat are wanted: bits 1 << STAT_CPU_TIMES and so on.
void stat_text_write(struct span text, uint32_t counters, uint64_t ns_per_tick,
                     struct wire_writer *w);

// /proc/pressure/X; the resources of its `some` and `full` lines.
void psi_text_write(struct span text, uint32_t some, uint32_t full, struct wire_writer *w);

void buddyinfo_text_write(struct span text, struct wire_writer *w);
void diskstats_text_write(struct span text, struct wire_writer *w);
void slabinfo_text_write(struct span text, struct wire_writer *w);
