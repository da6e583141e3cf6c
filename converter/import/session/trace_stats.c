// SPDX-License-Identifier: Apache-2.0
//
// TraceStats: counts of the tracing service, per buffer and in total.
#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct count {
    uint32_t field;
    enum stat stat;
};

#define TOTAL(name)                                                                                \
    {                                                                                              \
        PB_TraceStats_##name, STAT_traced_##name                                                   \
    }
static const struct count totals[] = {
    TOTAL(producers_connected), TOTAL(producers_seen),    TOTAL(data_sources_registered),
    TOTAL(data_sources_seen),   TOTAL(tracing_sessions),  TOTAL(total_buffers),
    TOTAL(chunks_discarded),    TOTAL(patches_discarded), TOTAL(flushes_requested),
    TOTAL(flushes_succeeded),   TOTAL(flushes_failed),
};

#define OF_BUFFER(name)                                                                            \
    {                                                                                              \
        PB_TraceStats_BufferStats_##name, STAT_traced_buf_##name                                   \
    }
static const struct count of_buffer[] = {
    OF_BUFFER(buffer_size),
    OF_BUFFER(bytes_written),
    OF_BUFFER(bytes_overwritten),
    OF_BUFFER(bytes_read),
    OF_BUFFER(padding_bytes_written),
    OF_BUFFER(padding_bytes_cleared),
    OF_BUFFER(chunks_written),
    OF_BUFFER(chunks_rewritten),
    OF_BUFFER(chunks_overwritten),
    OF_BUFFER(chunks_discarded),
    OF_BUFFER(chunks_read),
    OF_BUFFER(chunks_relocated),
    OF_BUFFER(chunks_committed_out_of_order),
    OF_BUFFER(write_wrap_count),
    OF_BUFFER(patches_succeeded),
    OF_BUFFER(patches_failed),
    OF_BUFFER(readaheads_succeeded),
    OF_BUFFER(readaheads_failed),
    OF_BUFFER(abi_violations),
    OF_BUFFER(trace_writer_packet_loss),
};

#define OF_FILTER(name)                                                                            \
    {                                                                                              \
        PB_TraceStats_FilterStats_##name, STAT_filter_##name                                       \
    }
static const struct count of_filter[] = {
    OF_FILTER(errors),       OF_FILTER(input_bytes),   OF_FILTER(input_packets),
    OF_FILTER(output_bytes), OF_FILTER(time_taken_ns),
};

static void trace_stats_now(struct import *im, const struct packet *packet)
{
    struct stats *stats = &im->stats;
    MESSAGE(all, TraceStats, packet->message);
    for (size_t i = 0; i < ELEMENTS(totals); i++)
        stats_set(stats, totals[i].stat, field_i64(&all.at[totals[i].field]));
    uint64_t outcome = field_u64(&all.final_flush_outcome);
    if (outcome == PB_FINAL_FLUSH_SUCCEEDED)
        stats_add(stats, STAT_traced_final_flush_succeeded, 1);
    if (outcome == PB_FINAL_FLUSH_FAILED)
        stats_add(stats, STAT_traced_final_flush_failed, 1);
    uint32_t index = 0;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_TraceStats_buffer_stats) {
            MESSAGE(buffer, TraceStats_BufferStats, &field);
            for (size_t i = 0; i < ELEMENTS(of_buffer); i++)
                stats_set_at(stats, of_buffer[i].stat, index,
                             field_i64(&buffer.at[of_buffer[i].field]));
            index++;
        } else if (field.number == PB_TraceStats_filter_stats) {
            MESSAGE(filter, TraceStats_FilterStats, &field);
            for (size_t i = 0; i < ELEMENTS(of_filter); i++)
                stats_set(stats, of_filter[i].stat, field_i64(&filter.at[of_filter[i].field]));
        }
    }
}

const struct importer importer_trace_stats = {
    .field = PB_TracePacket_trace_stats,
    .now = trace_stats_now,
};
