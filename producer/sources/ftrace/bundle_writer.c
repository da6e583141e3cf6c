// SPDX-License-Identifier: Apache-2.0
//
// The room of a packet is fixed when it is opened, and no event may be lost between two packets.
// Therefore `closing` counts the bytes that the end of the bundle will need (columns of scheduling
// events, descriptors, symbol names). An event is added only if these bytes stay free after it.
// Otherwise the whole event goes into the next packet.
//
// The bundle's length always takes four bytes, so that bodies need not be moved.
//
// Each bundle has the descriptors of its unknown events, because a ring may have overwritten all
// earlier packets. A symbol name is sent in the packet where its number first appears, and again in
// a packet that survives the ring.
#include "producer/sources/ftrace/bundle_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "protos/fields.h"

#define LENGTH_SIZE  4
#define HEAD_MAX     96  // tags and values of struct bundle_head, and the bundle's own tag
#define ERROR_MAX    32  // a FtraceError
#define CLOSING_BASE 16  // tag and length of interned data
#define WANT_MIN     512 // minimum size of a packet
#define WANT_MAX     (32 << 10)
#define SYMBOL_MAX   24 // a symbol without its name: tags, lengths, number

int bundle_init(struct bundle *bundle, struct packet_writer *writer, struct event_context *context,
                const struct compact_format *compact)
{
    *bundle = (struct bundle){.writer = writer, .context = context, .want = WANT_MAX};
    if (!compact)
        return 0;
    bundle->compact = memory_malloc(sizeof(*bundle->compact));
    if (!bundle->compact)
        return -ENOMEM;
    bundle->compact->format = *compact;
    compact_sched_reset(bundle->compact);
    return 0;
}

void bundle_done(struct bundle *bundle)
{
    free(bundle->compact);
    bundle->compact = NULL;
}

static void write_head(struct bundle *bundle)
{
    struct wire_writer *w = bundle->wire;
    const struct bundle_head *head = &bundle->head;
    wire_tag(w, PB_TracePacket_ftrace_events, WIRE_BYTES);
    if (wire_reserve(w, LENGTH_SIZE))
        w->pos += LENGTH_SIZE;
    bundle->body = wire_size(w);
    wire_uint(w, PB_FtraceEventBundle_cpu, head->cpu);
    if (head->lost)
        wire_uint(w, PB_FtraceEventBundle_lost_events, 1);
    wire_uint(w, PB_FtraceEventBundle_previous_bundle_end_timestamp, head->previous_end);
    if (head->clock) {
        wire_uint(w, PB_FtraceEventBundle_ftrace_clock, head->clock);
        wire_int(w, PB_FtraceEventBundle_ftrace_timestamp, head->ftrace_time);
        wire_int(w, PB_FtraceEventBundle_boot_timestamp, head->boot_time);
    }
}

// Opens a packet with at least `min` bytes after the head.
static bool open_packet(struct bundle *bundle, size_t min)
{
    size_t want = bundle->want < WANT_MIN   ? WANT_MIN
                  : bundle->want > WANT_MAX ? WANT_MAX
                                            : bundle->want;
    min += HEAD_MAX + CLOSING_BASE;
    bundle->wire = packet_writer_begin_range(bundle->writer, 0, min, want > min ? want : min);
    if (!bundle->wire)
        return false;
    bundle->closing = CLOSING_BASE;
    bundle->n_described = 0;
    bundle->n_before = bundle->n_events;
    write_head(bundle);
    bundle->head.lost = false;
    return true;
}

static void write_length(struct bundle *bundle)
{
    uint32_t size = (uint32_t)(wire_size(bundle->wire) - bundle->body);
    uint8_t *p = bundle->wire->start + bundle->body - LENGTH_SIZE;
    for (unsigned i = 0; i < LENGTH_SIZE; i++)
        p[i] = (uint8_t)((size >> (7 * i) & 0x7f) | (i + 1 < LENGTH_SIZE ? 0x80 : 0));
}

static size_t symbol_size(const struct kernel_symbols *symbols, size_t index)
{
    struct span name = kernel_symbols_name(symbols, symbols->in_order.items[index]);
    return name.pos ? span_size(name) + SYMBOL_MAX : 0;
}

static void write_symbols(const struct kernel_symbols *symbols, size_t from, size_t to,
                          struct wire_writer *w)
{
    size_t data = 0;
    bool any = false;
    for (size_t i = from; i < to; i++) {
        struct span name = kernel_symbols_name(symbols, symbols->in_order.items[i]);
        if (!name.pos)
            continue;
        if (!any)
            data = wire_begin(w, PB_TracePacket_interned_data);
        any = true;
        size_t mark = wire_begin(w, PB_InternedData_kernel_symbols);
        wire_uint(w, PB_InternedString_iid, i + 1);
        wire_text(w, PB_InternedString_str, name.pos, span_size(name));
        wire_end(w, mark);
    }
    if (any)
        wire_end(w, data);
}

// Sends the names of [from, symbols_due) in a packet of their own that survives the ring.
static void send_symbols(struct bundle *bundle, size_t from)
{
    const struct kernel_symbols *symbols = bundle->context->symbols;
    size_t room = 0;
    for (size_t i = from; i < bundle->symbols_due; i++)
        room += symbol_size(symbols, i);
    if (!room)
        return;
    struct wire_writer *w = packet_writer_begin(bundle->writer, 0, room + CLOSING_BASE);
    if (!w)
        return;
    write_symbols(symbols, from, bundle->symbols_due, w);
    packet_writer_end_retained(bundle->writer, from ? PACKET_RETAIN_APPEND : PACKET_RETAIN_REPLACE,
                               FTRACE_KEY_SYMBOLS);
}

void bundle_close(struct bundle *bundle)
{
    if (!bundle->wire)
        return;
    struct wire_writer *w = bundle->wire;
    if (bundle->compact)
        compact_sched_write(bundle->compact, w);
    for (size_t i = 0; i < bundle->n_described; i++)
        wire_bytes(w, PB_FtraceEventBundle_generic_event_descriptors,
                   bundle->described[i]->descriptor, bundle->described[i]->descriptor_size);
    write_length(bundle);
    size_t sent = bundle->symbols_sent;
    write_symbols(bundle->context->symbols, sent, bundle->symbols_due, w);
    packet_writer_end_events(bundle->writer, bundle->n_events - bundle->n_before);
    bundle->wire = NULL;
    bundle->symbols_sent = bundle->symbols_due;
    if (sent < bundle->symbols_due)
        send_symbols(bundle, sent);
}

void bundle_clear_state(struct bundle *bundle)
{
    bundle_close(bundle);
    if (!bundle->context->symbols->functions)
        return; // bundles do not refer to other packets
    packet_writer_clear_state(bundle->writer);
    send_symbols(bundle, 0);
}

// After a loss, readers ignore the sequence until its state begins anew. The new beginning also
// drops the numbers of addresses before they take too much memory: many are heap addresses, which
// never repeat.
static void renew_state(struct bundle *bundle)
{
    struct kernel_symbols *symbols = bundle->context->symbols;
    bool is_full = symbols->in_order.n >= KERNEL_SYMBOLS_NUMBERS_MAX;
    if (is_full) {
        kernel_symbols_forget_numbers(symbols);
        bundle->symbols_sent = bundle->symbols_due = 0;
    }
    if (is_full || bundle->writer->dropped)
        bundle_clear_state(bundle);
}

void bundle_start(struct bundle *bundle, const struct bundle_head *head)
{
    bundle_close(bundle);
    renew_state(bundle);
    bundle->head = *head;
    bundle->last_time = head->previous_end;
}

// Opens a new packet for an event that needs `room`. Returns false if the buffer refuses.
static bool next_packet(struct bundle *bundle, size_t room)
{
    bundle_close(bundle);
    bundle->head.previous_end = bundle->last_time;
    return open_packet(bundle, room);
}

void bundle_next(struct bundle *bundle)
{
    next_packet(bundle, ERROR_MAX);
}

static bool is_described(const struct bundle *bundle, const struct event_plan *plan)
{
    for (size_t i = bundle->n_described; i-- > 0;)
        if (bundle->described[i] == plan)
            return true;
    return false;
}

// Returns the bytes that this event adds to the end of the bundle: its descriptor and names of new
// symbols.
static size_t closing_of(const struct bundle *bundle, const struct event_plan *plan)
{
    const struct kernel_symbols *symbols = bundle->context->symbols;
    size_t size = 0;
    if (plan->descriptor && !is_described(bundle, plan))
        size += plan->descriptor_size + 4;
    if (symbols->functions)
        for (size_t i = bundle->symbols_due; i < symbols->in_order.n; i++)
            size += symbol_size(symbols, i);
    return size;
}

static void account(struct bundle *bundle, const struct event_plan *plan, size_t closing)
{
    bundle->closing += closing;
    if (plan->descriptor && !is_described(bundle, plan))
        bundle->described[bundle->n_described++] = plan;
    if (bundle->context->symbols->functions)
        bundle->symbols_due = bundle->context->symbols->in_order.n;
}

// Adds an event that has a descriptor or a function's address. This is only slightly slower.
static bool add_explained(struct bundle *bundle, const struct event_plan *plan,
                          const struct page_record *record, size_t room)
{
    for (size_t more = 0;;) {
        if (bundle->n_described == BUNDLE_DESCRIBED_MAX)
            bundle_close(bundle);
        if ((!bundle->wire || bundle_room(bundle) < room + more) &&
            !next_packet(bundle, room + more)) {
            bundle->n_refused++;
            return true;
        }
        size_t checkpoint = wire_checkpoint(bundle->wire);
        uint8_t *end = event_plan_encode(plan, bundle->context, record, bundle->wire->pos);
        if (!end)
            return false;
        bundle->wire->pos = end;
        size_t closing = closing_of(bundle, plan);
        if (wire_room(bundle->wire) >= bundle->closing + closing) {
            account(bundle, plan, closing);
            bundle_count_event(bundle, record);
            return true;
        }
        wire_rollback(bundle->wire, checkpoint);
        more = closing;
    }
}

bool bundle_add_slow(struct bundle *bundle, const struct event_plan *plan,
                     const struct page_record *record)
{
    size_t room = event_plan_room(plan, record->size);
    if (plan->explained)
        return add_explained(bundle, plan, record, room);
    if (!next_packet(bundle, room)) {
        bundle->n_refused++;
        return true;
    }
    return bundle_encode(bundle, plan, record);
}

static bool make_compact_room(struct bundle *bundle)
{
    struct compact_sched *compact = bundle->compact;
    if (bundle->wire && !compact_sched_is_full(compact)) {
        size_t before = compact->n_switch || compact->n_waking ? 0 : compact->size;
        if (bundle_room(bundle) >= before + COMPACT_ADD_MAX) {
            bundle->closing += before;
            return true;
        }
    }
    if (!next_packet(bundle, compact->size + COMPACT_ADD_MAX))
        return false;
    bundle->closing += compact->size;
    return true;
}

bool bundle_add_compact(struct bundle *bundle, const struct page_record *record)
{
    struct compact_sched *compact = bundle->compact;
    bool is_switch = record->id == compact->format.switch_id;
    if (record->size < (is_switch ? compact->format.switch_size : compact->format.waking_size))
        return false;
    if (!make_compact_room(bundle)) {
        bundle->n_refused++;
        return true;
    }
    size_t before = compact->size;
    int32_t pid = is_switch ? compact_sched_add_switch(compact, record)
                            : compact_sched_add_waking(compact, record);
    bundle->closing += compact->size - before;
    bundle_count_event(bundle, record);
    pid_feed_publish(bundle->context->pids, pid);
    return true;
}

void bundle_add_error(struct bundle *bundle, uint64_t timestamp, enum page_status status)
{
    if ((!bundle->wire || bundle_room(bundle) < ERROR_MAX) && !next_packet(bundle, ERROR_MAX))
        return;
    size_t mark = wire_begin(bundle->wire, PB_FtraceEventBundle_error);
    if (timestamp)
        wire_uint(bundle->wire, PB_FtraceEventBundle_FtraceError_timestamp, timestamp);
    wire_uint(bundle->wire, PB_FtraceEventBundle_FtraceError_status, status);
    wire_end(bundle->wire, mark);
}
