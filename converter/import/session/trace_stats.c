// SPDX-License-Identifier: Apache-2.0
//
// TraceStats: counts of the tracing service, per buffer and in total. The packet also has the
// buffer of each sequence, so losses of sequences are counted by buffer.
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

// Stats by DataLossReason, from bit 1 on.
static const enum stat of_cause[LOSS_CAUSES] = {
    STAT_traced_buf_data_loss_read_gap,
    STAT_traced_buf_data_loss_chunk_corrupted,
    STAT_traced_buf_data_loss_orphan_continuation,
    STAT_traced_buf_data_loss_reassembly_gap,
    STAT_traced_buf_data_loss_reassembly_broken_chain,
    STAT_traced_buf_data_loss_overwrite,
    STAT_traced_buf_data_loss_writer_abort,
    STAT_traced_buf_data_loss_smb_full,
};

static void losses_clear(struct stats *stats, uint32_t buffer)
{
    stats_set_at(stats, STAT_traced_buf_sequence_packet_loss, buffer, 0);
    stats_set_at(stats, STAT_traced_buf_incremental_sequences_dropped, buffer, 0);
    for (size_t i = 0; i < LOSS_CAUSES; i++)
        stats_set_at(stats, of_cause[i], buffer, 0);
}

static void losses_add(struct stats *stats, uint32_t buffer, const struct sequence_losses *losses)
{
    bool is_useless = losses->n_left_out > 0 && losses->n_left_out == losses->n_with_need;
    stats_add_at(stats, STAT_traced_buf_sequence_packet_loss, buffer, losses->n_gaps);
    stats_add_at(stats, STAT_traced_buf_incremental_sequences_dropped, buffer, is_useless);
    for (size_t i = 0; i < LOSS_CAUSES; i++)
        stats_add_at(stats, of_cause[i], buffer, losses->n_by_cause[i]);
}

// Sums up the losses of sequences. A later packet replaces the sums of an earlier packet, so each
// buffer starts from 0 (`is_start`).
static void losses_read(struct import *im, const struct packet *packet, bool is_start)
{
    for (struct fields each = fields_of(packet->message, PB_TraceStats_writer_stats);
         fields_next(&each);) {
        MESSAGE(writer, TraceStats_WriterStats, &each.field);
        const struct sequence_losses *losses = sequences_losses(
            packet->sequences, im->machine->number, (uint32_t)field_u64(&writer.sequence_id));
        uint32_t buffer = (uint32_t)field_u64(&writer.buffer);
        if (losses && is_start)
            losses_clear(&im->stats, buffer);
        else if (losses)
            losses_add(&im->stats, buffer, losses);
    }
}

static void filter_read(struct stats *stats, const struct wire_field *message)
{
    MESSAGE(filter, TraceStats_FilterStats, message);
    for (size_t i = 0; i < ELEMENTS(of_filter); i++)
        stats_set(stats, of_filter[i].stat, field_i64(&filter.at[of_filter[i].field]));
    struct values bytes = values_of(message, PB_TraceStats_FilterStats_bytes_discarded_per_buffer);
    uint64_t value;
    for (uint32_t buffer = 0; values_next(&bytes, &value); buffer++)
        stats_set_at(stats, STAT_traced_buf_bytes_filtered_out, buffer, (int64_t)value);
}

static void trace_stats_now(struct import *im, const struct packet *packet)
{
    struct stats *stats = &im->stats;
    losses_read(im, packet, true);
    losses_read(im, packet, false);
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
            filter_read(stats, &field);
        }
    }
}

const struct importer importer_trace_stats = {
    .field = PB_TracePacket_trace_stats,
    .now = trace_stats_now,
};
