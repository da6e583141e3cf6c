// SPDX-License-Identifier: Apache-2.0
//
// TraceStats: what the tracing service counted, per buffer and in all.
#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct count {
    uint32_t field;
    enum stat stat;
};

static const struct count totals[] = {
    {PB_TraceStats_producers_connected, STAT_traced_producers_connected},
    {PB_TraceStats_producers_seen, STAT_traced_producers_seen},
    {PB_TraceStats_data_sources_registered, STAT_traced_data_sources_registered},
    {PB_TraceStats_data_sources_seen, STAT_traced_data_sources_seen},
    {PB_TraceStats_tracing_sessions, STAT_traced_tracing_sessions},
    {PB_TraceStats_total_buffers, STAT_traced_total_buffers},
    {PB_TraceStats_chunks_discarded, STAT_traced_chunks_discarded},
    {PB_TraceStats_patches_discarded, STAT_traced_patches_discarded},
    {PB_TraceStats_flushes_requested, STAT_traced_flushes_requested},
    {PB_TraceStats_flushes_succeeded, STAT_traced_flushes_succeeded},
    {PB_TraceStats_flushes_failed, STAT_traced_flushes_failed},
};

static const struct count of_buffer[] = {
    {PB_TraceStats_BufferStats_buffer_size, STAT_traced_buf_buffer_size},
    {PB_TraceStats_BufferStats_bytes_written, STAT_traced_buf_bytes_written},
    {PB_TraceStats_BufferStats_bytes_overwritten, STAT_traced_buf_bytes_overwritten},
    {PB_TraceStats_BufferStats_bytes_read, STAT_traced_buf_bytes_read},
    {PB_TraceStats_BufferStats_padding_bytes_written, STAT_traced_buf_padding_bytes_written},
    {PB_TraceStats_BufferStats_padding_bytes_cleared, STAT_traced_buf_padding_bytes_cleared},
    {PB_TraceStats_BufferStats_chunks_written, STAT_traced_buf_chunks_written},
    {PB_TraceStats_BufferStats_chunks_rewritten, STAT_traced_buf_chunks_rewritten},
    {PB_TraceStats_BufferStats_chunks_overwritten, STAT_traced_buf_chunks_overwritten},
    {PB_TraceStats_BufferStats_chunks_discarded, STAT_traced_buf_chunks_discarded},
    {PB_TraceStats_BufferStats_chunks_read, STAT_traced_buf_chunks_read},
    {PB_TraceStats_BufferStats_chunks_relocated, STAT_traced_buf_chunks_relocated},
    {PB_TraceStats_BufferStats_chunks_committed_out_of_order,
     STAT_traced_buf_chunks_committed_out_of_order},
    {PB_TraceStats_BufferStats_write_wrap_count, STAT_traced_buf_write_wrap_count},
    {PB_TraceStats_BufferStats_patches_succeeded, STAT_traced_buf_patches_succeeded},
    {PB_TraceStats_BufferStats_patches_failed, STAT_traced_buf_patches_failed},
    {PB_TraceStats_BufferStats_readaheads_succeeded, STAT_traced_buf_readaheads_succeeded},
    {PB_TraceStats_BufferStats_readaheads_failed, STAT_traced_buf_readaheads_failed},
    {PB_TraceStats_BufferStats_abi_violations, STAT_traced_buf_abi_violations},
    {PB_TraceStats_BufferStats_trace_writer_packet_loss, STAT_traced_buf_trace_writer_packet_loss},
};

static const struct count of_filter[] = {
    {PB_TraceStats_FilterStats_errors, STAT_filter_errors},
    {PB_TraceStats_FilterStats_input_bytes, STAT_filter_input_bytes},
    {PB_TraceStats_FilterStats_input_packets, STAT_filter_input_packets},
    {PB_TraceStats_FilterStats_output_bytes, STAT_filter_output_bytes},
    {PB_TraceStats_FilterStats_time_taken_ns, STAT_filter_time_taken_ns},
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
