// SPDX-License-Identifier: Apache-2.0
//
// EtwTraceEventBundle: events of the Windows kernel, from any processor and in any order. Each
// event is an item of the timeline. The time stamp of an event is trace time. The events are few in
// comparison with ftrace events.
#include "converter/decode/message.h"
#include "converter/decode/reader.h"
#include "protos/fields.h"

#define ETW_CPU_MAX 1023

int etw_events_place(struct reader *reader, const struct wire_field *field, uint32_t generation)
{
    MESSAGE(bundle, EtwTraceEventBundle, field);
    struct wire_reader events = wire_sub(field);
    struct wire_field event;
    int r = 0;
    while (r == 0 && wire_next(&events, &event)) {
        if (event.number != PB_EtwTraceEventBundle_event)
            continue;
        MESSAGE(part, EtwTraceEvent, &event);
        const struct wire_field *ts = &part.timestamp;
        const struct wire_field *cpu = &part.cpu;
        if (!field_present(cpu))
            cpu = &bundle.cpu;
        if (!field_present(ts) || !field_present(cpu) || field_u64(cpu) > ETW_CPU_MAX ||
            field_i64(ts) < 0 || !event.data) {
            reader_problem(reader, PROBLEM_ETW_DAMAGED, 0);
            continue;
        }
        struct timeline_item item = {
            .ts = field_i64(ts),
            .data = event.data,
            .size = (uint32_t)event.size,
            .generation = generation,
            .kind = TIMELINE_ETW,
        };
        if (item.ts > reader->latest_ts) {
            reader->latest_ts = item.ts;
            reader->latest_is_event = true;
        }
        reader->since_forget += sizeof(item);
        r = timeline_queue(&reader->timeline, item.kind, (uint32_t)field_u64(cpu), &item.queue);
        if (r == 0)
            r = timeline_add(&reader->timeline, item);
    }
    return r;
}
