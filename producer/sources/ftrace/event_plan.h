// SPDX-License-Identifier: Apache-2.0
//
// A plan encodes the records of one kernel event as protobuf. The plan is compiled once
// (event_compile.h) and run for each record.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/kernel_strings.h"
#include "producer/sources/ftrace/page.h"
#include "producer/sources/pid_feed.h"

// The FtraceEvent field of an event that is not in the generated table is this base plus the
// kernel's event id. Perfetto's readers expect these fields from 65536 on. Ids are the same in all
// instances of a kernel.
#define EVENT_PLAN_GENERIC_FIELD 65536

// Kinds with a faster encoding than the others.
enum plan_quick {
    PLAN_QUICK_NONE,
    PLAN_QUICK_WORD,
    PLAN_QUICK_PID,
    PLAN_QUICK_TEXT16,
};

struct plan_op {
    uint8_t kind;     // enum plan_kind
    uint8_t tag_size; // bytes of `tag`
    uint16_t offset;  // in the record
    uint16_t size;    // bytes in the record, for kinds where the size varies
    uint8_t element_size;
    bool is_signed;
    uint32_t tag;         // field number and wire type, in wire format
    uint16_t prefix;      // offset in the plan's bytes: GenericFtraceEvent.field up to its value
    uint16_t prefix_size; // 0: none
    // Most fields are integers. They are read without a look at their kind: a word that ends with
    // the field is shifted down, and its sign extended.
    uint8_t quick; // enum plan_quick
    uint8_t word_shift;
    uint16_t word; // offset in the record
    uint64_t sign; // the field's sign bit; 0: unsigned
};

struct event_plan {
    uint16_t id; // the kernel's
    uint16_t n_ops;
    uint16_t record_min; // minimum size of a record: the fixed fields
    uint8_t tag_size;
    bool explained;          // bundles with this event also have a descriptor or function names
    uint32_t tag;            // of the event in FtraceEvent
    uint32_t fixed_max;      // maximum bytes of an encoded event without its dynamic fields
    uint32_t dynamic_factor; // additional bytes for each byte of the record
    uint16_t pid_changes;  // offset of a pid that begins, ends or is renamed by the event; 0: none
    uint16_t prefix_size;  // size of the constant fields at the start of `bytes`
    uint32_t field_number; // of the event in FtraceEvent
    uint8_t *bytes;        // owned
    uint8_t *descriptor;   // owned: a GenericEventDescriptor; NULL for events of the table
    size_t descriptor_size;
    struct plan_op ops[];
};

struct event_plan *event_plan_free(struct event_plan *plan);

// Everything besides the record that plans need. The pointers are borrowed, and none may be NULL.
struct event_context {
    struct pid_feed *pids;
    struct kernel_symbols *symbols;
    const struct kernel_strings *strings;
    // The upper bits of the last time, and their varint. All 0 at the start.
    uint64_t time_high, time_high_bytes;
    uint8_t time_high_size;
};

// Returns the maximum encoded size of a record of `size` bytes.
static inline size_t event_plan_room(const struct event_plan *plan, size_t size)
{
    return plan->fixed_max + (size_t)plan->dynamic_factor * size;
}

// Writes one FtraceEventBundle.event, with its tag, to `out`, which has event_plan_room() bytes.
// Returns the address after it, or NULL if the record contradicts its format.
uint8_t *event_plan_encode(const struct event_plan *plan, struct event_context *context,
                           const struct page_record *record, uint8_t *out);
