// SPDX-License-Identifier: Apache-2.0
//
// How the records of one kernel event become protobuf: compiled once (event_compile.h), run for
// each record.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/kernel_strings.h"
#include "producer/sources/ftrace/page.h"
#include "producer/sources/pid_feed.h"

// Fields of FtraceEvent for events that no table knows: this and the kernel's id of the event.
// Perfetto's readers expect them from 65536 on; ids are the same for all instances of a kernel.
#define EVENT_PLAN_GENERIC_FIELD 65536

struct plan_op {
    uint8_t kind;     // enum plan_kind
    uint8_t tag_size; // bytes of `tag`
    uint16_t offset;  // in the record
    uint16_t size;    // bytes in the record, of kinds where it varies
    uint8_t element_size;
    bool is_signed;
    uint32_t tag;         // field number and wire type, as it stands on the wire
    uint16_t prefix;      // offset in the plan's bytes: GenericFtraceEvent.field up to its value
    uint16_t prefix_size; // 0: none
};

struct event_plan {
    uint16_t id; // the kernel's
    uint16_t n_ops;
    uint16_t record_min; // bytes that the fixed fields need
    uint8_t tag_size;
    bool explained;          // bundles with it also carry a descriptor or names of functions
    uint32_t tag;            // of the event in FtraceEvent
    uint32_t fixed_max;      // bytes of an encoded event, without what varies
    uint32_t dynamic_factor; // and for each byte of the record
    uint16_t pid_changes;    // offset of a pid that ends, begins or is renamed here; 0: none
    uint16_t prefix_size;    // constant fields in front: at the start of `bytes`
    uint32_t field_number;   // of the event in FtraceEvent
    uint8_t *bytes;          // owned
    uint8_t *descriptor;     // owned: a GenericEventDescriptor; NULL for events of the table
    size_t descriptor_size;
    struct plan_op ops[];
};

struct event_plan *event_plan_free(struct event_plan *plan);

// What plans need besides the record. All borrowed; none may be NULL.
struct event_context {
    struct pid_feed *pids;
    struct kernel_symbols *symbols;
    const struct kernel_strings *strings;
};

// The room that a record of `size` bytes can take at most.
static inline size_t event_plan_room(const struct event_plan *plan, size_t size)
{
    return plan->fixed_max + (size_t)plan->dynamic_factor * size;
}

// Writes one FtraceEventBundle.event, tag included, into `out`, which has event_plan_room() bytes.
// The address behind it; NULL where the record contradicts its format.
uint8_t *event_plan_encode(const struct event_plan *plan, const struct event_context *context,
                           const struct page_record *record, uint8_t *out);
