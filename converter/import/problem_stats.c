// SPDX-License-Identifier: Apache-2.0
//
// See problem_stats.h.
#include "converter/import/problem_stats.h"

#include "protos/fields.h"

#define FIELD_LEFT_OUT_MAX 10000 // larger field numbers share a row

static enum stat sequence_missing_stat(uint32_t field)
{
    switch (field) {
    case PB_TracePacket_incremental_state_cleared:
        return STAT_incremental_state_cleared_missing_sequence_id;
    case PB_TracePacket_previous_packet_dropped:
        return STAT_previous_packet_dropped_missing_sequence_id;
    case PB_TracePacket_trace_packet_defaults:
        return STAT_trace_packet_defaults_missing_sequence_id;
    default:
        return STAT_interned_data_missing_sequence_id;
    }
}

void problem_count(struct stats *stats, enum trace_problem problem, uint32_t detail)
{
    static const enum stat counted[N_TRACE_PROBLEMS] = {
        [PROBLEM_PACKET_DAMAGED] = STAT_mmsql_packets_damaged,
        [PROBLEM_MESSAGE_DAMAGED] = STAT_mmsql_packets_damaged,
        [PROBLEM_COMPRESSED_DAMAGED] = STAT_mmsql_compressed_damaged,
        [PROBLEM_COMPRESSED_UNSUPPORTED] = STAT_mmsql_compression_unknown,
        [PROBLEM_CLOCK_UNKNOWN] = STAT_clock_sync_failure_unknown_source_clock,
        [PROBLEM_CLOCK_UNRELATED] = STAT_clock_sync_failure_no_path,
        [PROBLEM_TIME_NEGATIVE] = STAT_trace_sorter_negative_timestamp_dropped,
        [PROBLEM_CLOCK_SNAPSHOT] = STAT_invalid_clock_snapshots,
        [PROBLEM_STATE_MISSING] = STAT_packet_skipped_seq_needs_incremental_state_invalid,
        [PROBLEM_BUNDLE_DAMAGED] = STAT_ftrace_bundle_tokenizer_errors,
        [PROBLEM_COMPACT_SCHED_DAMAGED] = STAT_compact_sched_has_parse_errors,
        [PROBLEM_PACKETS_LOST] = STAT_previous_packet_dropped,
        [PROBLEM_INTERNED_IGNORED] = STAT_interned_data_skipped_incremental_state_invalid,
        [PROBLEM_THREAD_TIME_UNSET] = STAT_track_event_skipped_timestamp_delta_without_valid_state,
        [PROBLEM_THREAD_TIME_NEGATIVE] = STAT_track_event_invalid_timestamp,
        [PROBLEM_ETW_DAMAGED] = STAT_mmsql_etw_events_damaged,
        [PROBLEM_MACHINES_MANY] = STAT_mmsql_machines_many,
        [PROBLEM_THREAD_TIME_IGNORED] = STAT_thread_descriptor_skipped_incremental_state_invalid,
    };
    bool is_thread_time =
        problem == PROBLEM_THREAD_TIME_UNSET || problem == PROBLEM_THREAD_TIME_NEGATIVE;
    if (problem == PROBLEM_EVENTS_LOST)
        stats_set_at(stats, STAT_ftrace_cpu_has_data_loss, detail, 1);
    else if (problem == PROBLEM_SEQUENCE_MISSING)
        stats_add(stats, sequence_missing_stat(detail), 1);
    else if (problem == PROBLEM_FIELD_LEFT_OUT)
        stats_add_at(stats, STAT_mmsql_packets_left_out,
                     detail < FIELD_LEFT_OUT_MAX ? detail : FIELD_LEFT_OUT_MAX, 1);
    else if (problem == PROBLEM_INTERNED_MISSING)
        stats_add(stats, STAT_interned_data_tokenizer_errors, detail);
    else if (problem == PROBLEM_INTERNED_WITHHELD)
        stats_add(stats, STAT_mmsql_interned_data_withheld, detail);
    else if (is_thread_time && detail == PB_TracePacket_streaming_profile_packet)
        stats_add(stats, STAT_streaming_profile_invalid_timestamp, 1);
    else
        stats_add(stats, counted[problem], 1);
    if (problem == PROBLEM_CLOCK_UNKNOWN || problem == PROBLEM_CLOCK_UNRELATED)
        stats_add(stats, STAT_clock_sync_failure_undeferrable_packet_loss, 1);
}
