// SPDX-License-Identifier: Apache-2.0
//
// The stats table: numbers about recording and conversion. A number that Perfetto has, too, has
// Perfetto's name. Other names begin with mmsql_.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/tables/database.h"

// S(name, indexed, severity, source, description); the rows for begin, end and delta of a number
// are adjacent. Each number has a description: the compiler refuses a NULL.
#define STAT_CPU_PHASES(S, what, delta_severity, text)                                             \
    S(ftrace_cpu_##what##_begin, true, "info", "trace", text " before the start; by processor.")   \
    S(ftrace_cpu_##what##_end, true, "info", "trace", text " until the end; by processor.")        \
    S(ftrace_cpu_##what##_delta, true, delta_severity, "trace", text "; by processor.")

#define STAT_LIST(S)                                                                               \
    S(parse_trace_duration_ns, false, "info", "analysis", "Time that the conversion took (ns).")   \
    S(android_log_num_failed, false, "error", "trace",                                             \
      "Messages of the Android log that the recorder could not read.")                             \
    S(android_log_num_skipped, false, "info", "trace",                                             \
      "Messages of the Android log that the filter of the config left out.")                       \
    S(android_log_num_total, false, "info", "trace",                                               \
      "Messages of the Android log that the recorder received.")                                   \
    S(ftrace_bundle_tokenizer_errors, false, "error", "analysis",                                  \
      "Kernel events, or bundles of them, that are damaged; left out.")                            \
    STAT_CPU_PHASES(S, bytes, "info", "Bytes that wait in the buffer of the kernel")               \
    STAT_CPU_PHASES(S, commit_overrun, "error",                                                    \
                    "Kernel events lost to nested writers in a full buffer")                       \
    STAT_CPU_PHASES(S, dropped_events, "error",                                                    \
                    "Kernel events that a full buffer of the kernel refused")                      \
    STAT_CPU_PHASES(S, entries, "info", "Kernel events that wait in the buffer of the kernel")     \
    S(ftrace_cpu_now_ts_begin, true, "info", "trace",                                              \
      "The kernel's time when the recording began; by processor.")                                 \
    S(ftrace_cpu_now_ts_end, true, "info", "trace",                                                \
      "The kernel's time when the recording ended; by processor.")                                 \
    S(ftrace_cpu_oldest_event_ts_begin, true, "info", "trace",                                     \
      "Time of the oldest event in the kernel's buffer at the start; by processor.")               \
    S(ftrace_cpu_oldest_event_ts_end, true, "info", "trace",                                       \
      "Time of the oldest event in the kernel's buffer at the end; by processor.")                 \
    STAT_CPU_PHASES(S, overrun, "info", "Kernel events that the kernel overwrote")                 \
    STAT_CPU_PHASES(S, read_events, "info", "Kernel events that the recorder read")                \
    S(ftrace_cpu_has_data_loss, true, "data_loss", "trace",                                        \
      "The kernel overwrote events before they were read; begins and ends may not match.")         \
    S(ftrace_kprobe_hits_begin, false, "info", "trace", "Kprobe hits at the start.")               \
    S(ftrace_kprobe_hits_end, false, "info", "trace", "Kprobe hits at the end.")                   \
    S(ftrace_kprobe_hits_delta, false, "info", "trace", "Kprobe hits in the trace.")               \
    S(ftrace_kprobe_misses_begin, false, "info", "trace", "Kprobe misses at the start.")           \
    S(ftrace_kprobe_misses_end, false, "info", "trace", "Kprobe misses at the end.")               \
    S(ftrace_kprobe_misses_delta, false, "data_loss", "trace", "Kprobe misses in the trace.")      \
    S(ftrace_setup_errors, false, "notice", "trace", "Events that could not be switched on.")      \
    S(ftrace_abi_errors_skipped_zero_data_length, false, "info", "analysis",                       \
      "Empty records of the kernel, which the recorder skipped.")                                  \
    S(mmsql_ftrace_abi_errors, true, "error", "trace",                                             \
      "Pages of the kernel that the recorder could not read to their end; by FtraceParseStatus.")  \
    S(ftrace_missing_event_id, false, "info", "analysis",                                          \
      "Kernel events that do not say their kind; left out.")                                       \
    S(ftrace_packet_before_tracing_start, false, "info", "analysis",                               \
      "Events from before the recording, which the kernel still held; left out.")                  \
    S(ftrace_generic_descriptor_errors, false, "error", "analysis",                                \
      "Events of kinds that the trace does not describe; left out.")                               \
    S(compact_sched_has_parse_errors, false, "error", "trace",                                     \
      "Damaged columns of scheduling events; their events are left out.")                          \
    S(compact_sched_switch_skipped, false, "info", "analysis",                                     \
      "First switches of processors, whose previous thread is unknown.")                           \
    S(compact_sched_waking_skipped, false, "info", "analysis",                                     \
      "Wakeups before the first switch of their processor, without a waker.")                      \
    S(sched_switch_out_of_order, false, "error", "analysis",                                       \
      "Switches that are earlier than the switch before; left out.")                               \
    S(task_state_invalid, false, "error", "analysis", "States of threads that are unknown.")       \
    S(mismatched_sched_switch_tids, false, "error", "analysis",                                    \
      "Switches from a thread that did not run; switches before them are missing.")                \
    S(rss_stat_negative_size, false, "info", "analysis",                                           \
      "Samples of rss_stat with a negative size; left out.")                                       \
    S(rss_stat_unknown_keys, false, "error", "analysis",                                           \
      "Samples of rss_stat about a kind of memory that mmsql does not know.")                      \
    S(rss_stat_unknown_thread_for_mm_id, false, "info", "analysis",                                \
      "Samples of rss_stat of an unknown process; left out.")                                      \
    S(mm_unknown_type, false, "error", "analysis",                                                 \
      "Kernel events mm_event_record of an unknown type; left out.")                               \
    S(systrace_parse_failure, false, "error", "analysis",                                          \
      "Texts in trace_marker that are no slice, counter or instant; left out.")                    \
    S(truncated_sys_write_duration, false, "info", "analysis",                                     \
      "Slices of write(2) that end where the thread wrote into trace_marker.")                     \
    S(cpu_info_empty, false, "error", "analysis", "Empty lists of processors.")                    \
    S(cpu_info_unknown_cpu_features, false, "info", "analysis",                                    \
      "Processors with features that mmsql has no name for; see cpu_features.raw_bitmap in args.") \
    S(meminfo_unknown_keys, false, "error", "analysis",                                            \
      "Values of /proc/meminfo that mmsql has no name for; left out.")                             \
    S(vmstat_unknown_keys, false, "error", "analysis",                                             \
      "Values of /proc/vmstat that mmsql has no name for; left out.")                              \
    S(psi_unknown_resource, false, "error", "analysis",                                            \
      "Samples of pressure of an unknown resource; left out.")                                     \
    S(invalid_cpu_times, false, "error", "analysis",                                               \
      "Times of processors that do not say which processor; left out.")                            \
    S(proc_stat_unknown_counters, false, "error", "analysis",                                      \
      "Counters of processes that mmsql does not know; left out.")                                 \
    S(process_tracker_errors, false, "error", "analysis",                                          \
      "Processes and threads that contradict each other.")                                         \
    S(namespaced_thread_missing_process, false, "error", "analysis",                               \
      "Threads in a pid namespace whose process is in no known pid namespace.")                    \
    S(process_tracker_parent_pid_changed, false, "info", "analysis",                               \
      "Processes whose parent is another one than before.")                                        \
    S(slice_drop_overlapping_complete_event, false, "error", "analysis",                           \
      "Slices that begin inside another slice and end after it; left out.")                        \
    S(slice_max_depth_exceeded, false, "error", "analysis",                                        \
      "Slices nested more than 512 deep; left out.")                                               \
    S(slice_negative_duration, false, "error", "analysis",                                         \
      "Slices that end before they begin; left out.")                                              \
    S(misplaced_end_event, false, "data_loss", "analysis",                                         \
      "Slices without an end when the slice around them ended; they end there, too.")              \
    S(clock_sync_failure_unknown_source_clock, false, "error", "analysis",                         \
      "Time stamps of a clock that no snapshot has; left out.")                                    \
    S(clock_sync_failure_no_path, false, "error", "analysis",                                      \
      "Time stamps of a clock that no snapshot connects to the trace's clock; left out.")          \
    S(clock_sync_failure_undeferrable_packet_loss, false, "data_loss", "analysis",                 \
      "Packets and runs of events left out because of their clocks.")                              \
    S(trace_sorter_negative_timestamp_dropped, false, "error", "trace",                            \
      "Packets from before the trace's clock began; left out.")                                    \
    S(invalid_clock_snapshots, false, "error", "analysis",                                         \
      "Snapshots of clocks that contradict themselves or others; left out.")                       \
    S(packet_skipped_seq_needs_incremental_state_invalid, false, "notice", "analysis",             \
      "Packets that build on data that was lost; left out.")                                       \
    S(previous_packet_dropped, false, "data_loss", "trace", "Gaps in sequences of packets.")       \
    S(heapprofd_malformed_packet, true, "error", "trace",                                          \
      "Call sites whose totals are lower than in the dump before; by upid.")                       \
    S(stackprofile_invalid_callstack_id, false, "error", "trace",                                  \
      "Samples whose call chain is not in the trace; left out.")                                   \
    S(heapprofd_buffer_corrupted, true, "error", "trace",                                          \
      "The shared memory of a profiled process was damaged; by pid.")                              \
    S(heapprofd_buffer_overran, true, "data_loss", "trace",                                        \
      "A profile ended early, because its shared memory was full; by pid.")                        \
    S(heapprofd_client_disconnected, true, "info", "trace",                                        \
      "A profiled process ended, or left, before the profile ended; by pid.")                      \
    S(heapprofd_client_error, true, "error", "trace",                                              \
      "Why a profiled process ended its profile, as ClientError; by pid.")                         \
    S(heapprofd_client_spinlock_blocked, true, "info", "trace",                                    \
      "Microseconds that a profiled process had to wait; by pid.")                                 \
    S(heapprofd_hit_guardrail, true, "error", "trace",                                             \
      "A profile ended early, because it took too much memory or time; by pid.")                   \
    S(heapprofd_last_profile_timestamp, true, "info", "trace",                                     \
      "Time of the last dump of a process; by pid.")                                               \
    S(heapprofd_missing_packet, false, "error", "trace",                                           \
      "Gaps between the packets of heap dumps.")                                                   \
    S(heapprofd_non_finalized_profile, false, "error", "trace",                                    \
      "Heap dumps whose last packet is not in the trace.")                                         \
    S(heapprofd_rejected_concurrent, true, "error", "trace",                                       \
      "A process had another profile at the time; this profile is empty; by pid.")                 \
    S(heapprofd_sampling_interval_adjusted, true, "info", "trace",                                 \
      "Bytes that were added to the sampling interval; by pid.")                                   \
    S(heapprofd_unwind_samples, true, "info", "trace",                                             \
      "Samples whose call stacks were read; by pid.")                                              \
    S(heapprofd_unwind_time_us, true, "info", "trace",                                             \
      "Microseconds that the recorder needed to read call stacks; by pid.")                        \
    S(stackprofile_empty_callstack, false, "error", "trace", "Call stacks without a frame.")       \
    S(stackprofile_invalid_frame_id, false, "error", "trace",                                      \
      "Frames of call stacks that are not in the trace.")                                          \
    S(stackprofile_invalid_mapping_id, false, "error", "trace",                                    \
      "Frames and symbols whose mapping is not in the trace.")                                     \
    S(stackprofile_invalid_string_id, false, "error", "trace",                                     \
      "Names of frames and mappings that are not in the trace.")                                   \
    S(stackprofile_parser_error, false, "error", "trace",                                          \
      "Samples without a time, or without a call stack in the trace; left out.")                   \
    S(memory_snapshot_parser_failure, false, "error", "analysis",                                  \
      "Parts of snapshots of memory use that cannot be read, or are too many.")                    \
    S(streaming_profile_invalid_timestamp, false, "error", "analysis",                             \
      "Packets of samples that lack a time; the samples are left out.")                            \
    S(symbolization_tmp_build_id_not_found, false, "error", "analysis",                            \
      "Files in /data/local/tmp without a build id: no symbols can be found.")                     \
    S(perf_chosen_process_shard, true, "info", "trace",                                            \
      "The group of processes that was sampled, if only one was; by session.")                     \
    S(perf_cpu_lost_records, true, "data_loss", "trace",                                           \
      "Samples that the kernel dropped; by processor.")                                            \
    S(perf_guardrail_stop_ts, true, "data_loss", "trace",                                          \
      "Time at which a session ended early, because it took too much memory; by session.")         \
    S(perf_process_shard_count, true, "info", "trace",                                             \
      "Groups that processes were divided into, to sample one; by session.")                       \
    S(perf_samples_skipped, false, "error", "analysis",                                            \
      "Samples without call chain, because reading it failed.")                                    \
    S(perf_samples_skipped_dataloss, false, "data_loss", "trace",                                  \
      "Samples without call chain, because the recorder fell behind.")                             \
    S(perf_dummy_mapping_used, false, "info", "analysis",                                          \
      "Frames of perf samples that are in no mapping.")                                            \
    S(perf_features_skipped, true, "info", "analysis",                                             \
      "Headers of a perf.data file that mmsql does not read; by their number.")                    \
    S(perf_record_skipped, true, "error", "analysis",                                              \
      "Records of a perf.data file that cannot be read; by type.")                                 \
    S(perf_samples_cpu_mode_unknown, false, "error", "analysis",                                   \
      "Samples of perf from neither kernel, user space nor guest.")                                \
    S(perf_text_importer_sample_no_frames, false, "error", "trace",                                \
      "Samples in the text of perf without a call chain; left out.")                               \
    S(perf_unknown_record_type, true, "info", "analysis",                                          \
      "Records of a perf.data file that mmsql does not know; by type.")                            \
    S(simpleperf_missing_file_mapping, false, "data_loss", "trace",                                \
      "Samples of simpleperf whose call chain refers to a file that is missing; left out.")        \
    S(mmsql_perf_samples_lost, false, "data_loss", "trace",                                        \
      "Samples that the recorder or the kernel lost before they were written.")                    \
    S(mmsql_perf_text_lines_left_out, false, "error", "analysis",                                  \
      "Lines of the text of perf that are neither a sample nor a frame.")                          \
    S(mmsql_simpleperf_records_left_out, false, "error", "analysis",                               \
      "Records of a simpleperf report that cannot be read.")                                       \
    S(heap_graph_invalid_string_id, true, "error", "trace",                                        \
      "Texts of a Java heap dump that are not in the trace; by upid.")                             \
    S(heap_graph_malformed_packet, true, "error", "trace",                                         \
      "Damaged parts of a Java heap dump; by upid.")                                               \
    S(heap_graph_missing_packet, true, "error", "trace",                                           \
      "Gaps between the packets of a Java heap dump; by upid.")                                    \
    S(heap_graph_non_finalized_graph, false, "data_loss", "trace",                                 \
      "Java heap dumps whose last packet is missing.")                                             \
    S(smaps_parser_errors, false, "error", "trace",                                                \
      "Packets of smaps that cannot be read to their end.")                                        \
    S(packages_list_has_parse_errors, false, "error", "trace",                                     \
      "Lists of packages that the recorder could not understand.")                                 \
    S(packages_list_has_read_errors, false, "error", "trace",                                      \
      "Lists of packages that the recorder could not read.")                                       \
    S(deobfuscate_location_parse_error, false, "error", "analysis",                                \
      "Names of Java classes or methods that a mapping has in a wrong form.")                      \
    S(track_event_parser_errors, false, "info", "analysis",                                        \
      "Track events, or arguments of them, that cannot be read.")                                  \
    S(track_event_dropped_packets_outside_of_range_of_interest, false, "info", "analysis",         \
      "Track events before the range of interest, left out with --crop-track-events.")             \
    S(track_event_range_of_interest_missing_start_us, false, "error", "analysis",                  \
      "Ranges of interest without a start; left out.")                                             \
    S(flow_duplicate_id, false, "error", "trace",                                                  \
      "Flows that begin although a flow of the same id is open.")                                  \
    S(flow_end_without_start, false, "info", "trace", "Ends of flows without a start.")            \
    S(flow_invalid_id, false, "error", "trace", "Flows whose id cannot be read; left out.")        \
    S(flow_no_enclosing_slice, false, "error", "trace",                                            \
      "Steps of flows outside of any slice; left out.")                                            \
    S(flow_step_without_start, false, "info", "trace", "Steps of flows without a start.")          \
    S(flow_without_direction, false, "error", "trace",                                             \
      "Events of flows that neither enter nor leave a slice; left out.")                           \
    S(track_descriptor_missing_uuid, false, "error", "analysis",                                   \
      "Descriptions of tracks without a uuid; left out.")                                          \
    S(track_descriptor_conflicting_reservation, false, "error", "analysis",                        \
      "Descriptions of a track that an earlier description contradicts; left out.")                \
    S(track_descriptor_default_track_with_parent, false, "error", "analysis",                      \
      "Descriptions of the default track that name a parent; left out.")                           \
    S(track_descriptor_invalid_child_ordering, false, "error", "analysis",                         \
      "Descriptions of tracks with an unknown order of children; left out.")                       \
    S(track_descriptor_process_missing_pid, false, "error", "analysis",                            \
      "Descriptions of tracks of a process without its pid; left out.")                            \
    S(track_descriptor_thread_missing_pid_tid, false, "error", "analysis",                         \
      "Descriptions of tracks of a thread without its pid or tid; left out.")                      \
    S(track_hierarchy_missing_uuid, false, "info", "analysis",                                     \
      "Tracks whose parent track has no description.")                                             \
    S(track_event_counter_invalid_track_uuid, false, "error", "analysis",                          \
      "Values of counters on a track that is no counter track; left out.")                         \
    S(track_event_counter_missing_track_uuid, false, "error", "analysis",                          \
      "Values of counters that name no track; left out.")                                          \
    S(track_event_counter_missing_value, false, "error", "analysis",                               \
      "Events of counters without a value; left out.")                                             \
    S(track_event_extra_counter_invalid_track, false, "error", "analysis",                         \
      "Counters beside an event whose track is no counter track; left out.")                       \
    S(track_event_extra_counter_missing_track_uuids, false, "error", "analysis",                   \
      "Events with counters beside them that name no track; the counters are left out.")           \
    S(track_event_extra_counter_track_uuid_mismatch, false, "error", "analysis",                   \
      "Events with more counters beside them than tracks; the rest is left out.")                  \
    S(thread_descriptor_skipped_incremental_state_invalid, false, "notice", "analysis",            \
      "Descriptions of threads by sequences that had lost packets; left out.")                     \
    S(track_event_invalid_timestamp, false, "error", "analysis",                                   \
      "Track events with a negative time; left out.")                                              \
    S(track_event_skipped_timestamp_delta_without_valid_state, false, "notice", "analysis",        \
      "Track events whose time is a difference to a lost time; left out.")                         \
    S(incremental_state_cleared_missing_sequence_id, false, "error", "analysis",                   \
      "Packets that clear the state of a sequence without naming one.")                            \
    S(previous_packet_dropped_missing_sequence_id, false, "error", "analysis",                     \
      "Packets that tell of a gap in a sequence without naming one.")                              \
    S(trace_packet_defaults_missing_sequence_id, false, "error", "analysis",                       \
      "Packets with defaults of a sequence that name none.")                                       \
    S(interned_data_missing_sequence_id, false, "error", "analysis",                               \
      "Packets with interned data of a sequence that name none.")                                  \
    S(interned_data_skipped_incremental_state_invalid, false, "notice", "analysis",                \
      "Interned data of sequences that had lost packets; left out.")                               \
    S(interned_data_tokenizer_errors, false, "info", "analysis",                                   \
      "Interned data without a number, or missing data that packets refer to.")                    \
    S(thread_descriptor_missing_sequence_id, false, "error", "analysis",                           \
      "Descriptions of threads in packets that name no sequence.")                                 \
    S(track_event_missing_sequence_id, false, "error", "analysis",                                 \
      "Track events in packets that name no sequence; left out.")                                  \
    S(track_event_state_missing_track_uuid, false, "error", "analysis",                            \
      "States that name no track; left out.")                                                      \
    S(track_event_track_hierarchy_loop, false, "error", "analysis",                                \
      "Tracks that are their own ancestors.")                                                      \
    S(track_event_track_hierarchy_too_deep, false, "error", "analysis",                            \
      "Tracks with too many ancestors.")                                                           \
    S(unknown_extension_fields, false, "error", "trace",                                           \
      "Typed fields of track events without a description.")                                       \
    S(mmsql_extension_descriptors_damaged, false, "error", "analysis",                             \
      "Descriptions of typed fields that cannot be read in full.")                                 \
    S(mmsql_legacy_events_skipped, false, "info", "analysis",                                      \
      "Track events of older kinds that have no place in the tables.")                             \
    S(traced_buf_abi_violations, true, "data_loss", "trace",                                       \
      "Chunks that break the rules of the shared memory; by buffer.")                              \
    S(traced_buf_buffer_size, true, "info", "trace", "Size of the buffer in bytes; by buffer.")    \
    S(traced_buf_bytes_overwritten, true, "info", "trace",                                         \
      "Bytes that were overwritten before they were read; by buffer.")                             \
    S(traced_buf_bytes_read, true, "info", "trace",                                                \
      "Bytes that were read from the buffer; by buffer.")                                          \
    S(traced_buf_bytes_filtered_out, true, "info", "trace",                                        \
      "Bytes that the filter of the trace removed; by buffer.")                                    \
    S(traced_buf_bytes_written, true, "info", "trace",                                             \
      "Bytes that were written into the buffer; by buffer.")                                       \
    S(traced_buf_clone_done_timestamp_ns, true, "info", "trace",                                   \
      "Time at which the copy of the buffer was complete; by buffer.")                             \
    S(traced_buf_chunks_discarded, true, "info", "trace",                                          \
      "Chunks that did not fit any more into a buffer that keeps its start; by buffer.")           \
    S(traced_buf_chunks_overwritten, true, "info", "trace",                                        \
      "Chunks that were overwritten before they were read; by buffer.")                            \
    S(traced_buf_chunks_read, true, "info", "trace",                                               \
      "Chunks that were read from the buffer; by buffer.")                                         \
    S(traced_buf_chunks_relocated, true, "info", "trace",                                          \
      "Chunks that moved within the buffer; by buffer.")                                           \
    S(traced_buf_chunks_rewritten, true, "info", "trace",                                          \
      "Chunks that were written again, longer; by buffer.")                                        \
    S(traced_buf_chunks_written, true, "info", "trace",                                            \
      "Chunks that were written into the buffer; by buffer.")                                      \
    S(traced_buf_chunks_committed_out_of_order, true, "info", "trace",                             \
      "Chunks that arrived after a later chunk of their sequence; by buffer.")                     \
    S(traced_buf_padding_bytes_cleared, true, "info", "trace",                                     \
      "Bytes of padding that were overwritten; by buffer.")                                        \
    S(traced_buf_padding_bytes_written, true, "info", "trace",                                     \
      "Bytes of padding that were written; by buffer.")                                            \
    S(traced_buf_patches_failed, true, "data_loss", "trace",                                       \
      "Parts of packets came too late; those packets are lost.")                                   \
    S(traced_buf_patches_succeeded, true, "info", "trace",                                         \
      "Chunks that were completed later; by buffer.")                                              \
    S(traced_buf_readaheads_failed, true, "info", "trace",                                         \
      "Looks ahead for the rest of a packet that did not find it; by buffer.")                     \
    S(traced_buf_readaheads_succeeded, true, "info", "trace",                                      \
      "Looks ahead for the rest of a packet that found it; by buffer.")                            \
    S(traced_buf_trace_writer_packet_loss, true, "data_loss", "trace",                             \
      "Packets that a producer could not write because its buffer was full.")                      \
    S(traced_buf_sequence_packet_loss, true, "data_loss", "analysis",                              \
      "Gaps in the sequences of packets that were written into a buffer.")                         \
    S(traced_buf_incremental_sequences_dropped, true, "data_loss", "analysis",                     \
      "Sequences of which every packet builds on data that was lost.")                             \
    S(traced_buf_data_loss_read_gap, true, "data_loss", "trace",                                   \
      "Gaps because the service read a buffer too late.")                                          \
    S(traced_buf_data_loss_chunk_corrupted, true, "data_loss", "trace",                            \
      "Gaps because of chunks that a producer left damaged.")                                      \
    S(traced_buf_data_loss_orphan_continuation, true, "data_loss", "trace",                        \
      "Gaps because the start of a packet was lost.")                                              \
    S(traced_buf_data_loss_reassembly_gap, true, "data_loss", "trace",                             \
      "Gaps because a part in the middle of a packet was lost.")                                   \
    S(traced_buf_data_loss_reassembly_broken_chain, true, "data_loss", "trace",                    \
      "Gaps because the parts of a packet do not fit together.")                                   \
    S(traced_buf_data_loss_overwrite, true, "data_loss", "trace",                                  \
      "Gaps because a ring buffer overwrote packets.")                                             \
    S(traced_buf_data_loss_writer_abort, true, "data_loss", "trace",                               \
      "Gaps because a producer gave up packets that it had begun.")                                \
    S(traced_buf_data_loss_smb_full, true, "data_loss", "trace",                                   \
      "Gaps because the memory that a producer shares with the service was full.")                 \
    S(traced_buf_write_wrap_count, true, "info", "trace",                                          \
      "Times that the buffer was full and began anew; by buffer.")                                 \
    S(traced_chunks_discarded, false, "info", "trace", "Chunks that the tracing service refused.") \
    S(traced_clone_started_timestamp_ns, false, "info", "trace",                                   \
      "Time at which the copy of the session began.")                                              \
    S(traced_clone_trigger_timestamp_ns, false, "info", "trace",                                   \
      "Time of the trigger that asked for the copy of the session.")                               \
    S(traced_data_sources_registered, false, "info", "trace",                                      \
      "Data sources that were there at the end.")                                                  \
    S(traced_data_sources_seen, false, "info", "trace",                                            \
      "Data sources that were there at any time since the service began.")                         \
    S(traced_final_flush_failed, false, "data_loss", "trace",                                      \
      "The last flush failed: the newest data of some sources may be missing.")                    \
    S(traced_final_flush_succeeded, false, "info", "trace", "The last flush succeeded.")           \
    S(traced_flushes_failed, false, "data_loss", "trace",                                          \
      "Flushes that failed: data of some sources may be missing.")                                 \
    S(traced_flushes_requested, false, "info", "trace", "Flushes that were asked for.")            \
    S(traced_flushes_succeeded, false, "info", "trace", "Flushes that succeeded.")                 \
    S(traced_patches_discarded, false, "info", "trace",                                            \
      "Completions of chunks that the tracing service refused.")                                   \
    S(traced_producers_connected, false, "info", "trace",                                          \
      "Producers that were connected at the end.")                                                 \
    S(traced_producers_seen, false, "info", "trace",                                               \
      "Producers that were connected at any time since the service began.")                        \
    S(traced_total_buffers, false, "info", "trace", "Buffers of all sessions at the end.")         \
    S(traced_tracing_sessions, false, "info", "trace",                                             \
      "Sessions of the tracing service at the end.")                                               \
    S(filter_errors, false, "error", "trace",                                                      \
      "Packets that the filter of the trace could not read.")                                      \
    S(filter_input_bytes, false, "info", "trace", "Bytes that went into the filter of the trace.") \
    S(filter_input_packets, false, "info", "trace",                                                \
      "Packets that went into the filter of the trace.")                                           \
    S(filter_output_bytes, false, "info", "trace",                                                 \
      "Bytes that the filter of the trace let through.")                                           \
    S(filter_time_taken_ns, false, "info", "trace",                                                \
      "Time that the filter of the trace took (ns).")                                              \
    S(power_rail_empty_packet, false, "error", "analysis",                                         \
      "Packets of power rails without a value.")                                                   \
    S(power_rail_unknown_index, false, "error", "trace", "Values of rails without a description.") \
    S(energy_breakdown_missing_values, false, "error", "analysis",                                 \
      "Estimates of energy of an unknown consumer, or without a value; left out.")                 \
    S(energy_descriptor_invalid, false, "error", "analysis",                                       \
      "Descriptions of consumers of energy that lack a part; left out.")                           \
    S(energy_uid_breakdown_missing_values, false, "error", "analysis",                             \
      "Estimates of energy of a user without uid or value; left out.")                             \
    S(entity_state_descriptor_invalid, false, "error", "analysis",                                 \
      "Descriptions of entities and power states that lack a part; left out.")                     \
    S(entity_state_residency_invalid, false, "error", "analysis",                                  \
      "Packets of times in power states without a time.")                                          \
    S(entity_state_residency_lookup_failed, false, "error", "analysis",                            \
      "Times in power states that no packet describes; left out.")                                 \
    S(kernel_wakelock_reused_id, false, "error", "analysis",                                       \
      "Ids of wakelocks that got a second name.")                                                  \
    S(kernel_wakelock_unknown_id, false, "error", "analysis",                                      \
      "Times of wakelocks that no packet describes; left out.")                                    \
    S(kernel_wakelock_zero_value_reported, false, "info", "trace",                                 \
      "Packets in which a wakelock fell back to zero.")                                            \
    S(kernel_wakelock_non_monotonic_value_reported, false, "info", "trace",                        \
      "Packets in which the time of a wakelock shrank.")                                           \
    S(kernel_wakelock_implausibly_large_value_reported, false, "info", "trace",                    \
      "Packets in which a wakelock grew by more than the time that passed.")                       \
    S(android_aflags_errors, false, "error", "trace", "Dumps of Android's flags that failed.")     \
    S(game_intervention_has_parse_errors, false, "error", "trace",                                 \
      "1: the recorder could not understand the list of game interventions.")                      \
    S(game_intervention_has_read_errors, false, "error", "trace",                                  \
      "1: the recorder could not read the list of game interventions.")                            \
    S(network_trace_intern_errors, false, "info", "analysis",                                      \
      "Bundles of network packets whose context is not in the trace.")                             \
    S(network_trace_parse_errors, false, "info", "analysis",                                       \
      "Bundles of network packets that contradict themselves; left out.")                          \
    S(systemd_journal_num_failed, false, "error", "trace",                                         \
      "Messages of the journal that the recorder could not read.")                                 \
    S(systemd_journal_num_total, false, "info", "trace",                                           \
      "Messages of the journal that the recorder received.")                                       \
    S(user_list_errors, false, "error", "trace",                                                   \
      "Lists of users that the recorder could not read.")                                          \
    S(gpu_counters_invalid_spec, false, "error", "analysis",                                       \
      "Descriptions of GPU counters that lack a part, or repeat an id; left out.")                 \
    S(gpu_counters_missing_spec, false, "error", "analysis",                                       \
      "Values of GPU counters that no packet describes; left out.")                                \
    S(gpu_counters_missing_timestamp, false, "error", "trace",                                     \
      "Values of GPUs without a time; left out.")                                                  \
    S(gpu_render_stage_parser_errors, false, "error", "analysis",                                  \
      "Stages of the GPU that cannot be read, or lack their description.")                         \
    S(graphics_frame_event_parser_errors, false, "info", "analysis",                               \
      "Events of graphics buffers of an unknown type, or without a buffer.")                       \
    S(frame_timeline_event_parser_errors, false, "info", "analysis",                               \
      "Events of the frame timeline that lack a part, or have an unknown value.")                  \
    S(frame_timeline_unpaired_end_event, false, "info", "analysis",                                \
      "Ends of frames without a start; left out.")                                                 \
    S(vulkan_allocations_invalid_string_id, false, "error", "trace",                               \
      "Texts of Vulkan allocations that are not in the trace.")                                    \
    S(gpu_work_period_negative_duration, false, "error", "analysis",                               \
      "Periods of work of the GPU that end before they begin; left out.")                          \
    S(ftrace_thermal_exynos_acpm_unknown_tz_id, false, "error", "analysis",                        \
      "Temperatures of an unknown zone of an Exynos processor; left out.")                         \
    S(metatrace_overruns, false, "error", "trace",                                                 \
      "Events after a gap in the tracing service's own trace.")                                    \
    S(empty_chrome_metadata, false, "error", "trace",                                              \
      "Entries of Chrome's metadata without a value; left out.")                                   \
    S(v8_intern_errors, false, "data_loss", "analysis",                                            \
      "Code whose interned data the trace lacks; left out.")                                       \
    S(config_write_into_file_discard, true, "data_loss", "trace",                                  \
      "DISCARD buffers of a recording into a file, which may lack its later events; by buffer.")   \
    S(config_write_into_file_no_flush, false, "error", "trace",                                    \
      "The recording was written into a file, and the config asks for no flush of the sources.")   \
    S(long_trace_mode_bytes_overwritten, true, "data_loss", "trace",                               \
      "Bytes that the buffer overwrote before they were written into the file.")                   \
    S(v8_isolate_has_no_code_range, false, "error", "analysis",                                    \
      "Instances of V8 without the range of their code; the code is left out.")                    \
    S(v8_no_defaults, false, "data_loss", "analysis", "Code of unknown threads; left out.")        \
    S(v8_no_code_range, false, "error", "analysis",                                                \
      "Code outside of the range of its instance; left out.")                                      \
    S(v8_unknown_code_type, false, "error", "analysis",                                            \
      "JavaScript code that V8 compiled by an unknown compiler; left out.")                        \
    S(v8_code_load_missing_code_range, false, "error", "analysis",                                 \
      "Code of unknown size; left out.")                                                           \
    S(concurrent_session_event_unknown_state, false, "error", "analysis",                          \
      "Events of other sessions with an unknown state; left out.")                                 \
    S(pixel_modem_negative_timestamp, false, "error", "analysis",                                  \
      "Events of the modem with a time out of range; left out.")                                   \
    S(mmsql_modem_events_damaged, false, "error", "analysis",                                      \
      "Events of a modem, or lists of their texts, that cannot be read.")                          \
    S(missing_disk_io_event_name, false, "error", "analysis",                                      \
      "Disk events of Windows of an unknown kind; left out.")                                      \
    S(mmsql_etw_events_damaged, false, "error", "analysis",                                        \
      "Events of Windows without a time or a processor; left out.")                                \
    S(mmsql_etw_events_left_out, false, "notice", "analysis",                                      \
      "Events of Windows of a kind that is not converted.")                                        \
    S(mmsql_chrome_events_left_out, false, "data_loss", "analysis",                                \
      "Events of Chrome in a form that is no longer written; left out.")                           \
    S(mmsql_packets_left_out, true, "notice", "analysis",                                          \
      "Packets of a kind that is not converted; by field of TracePacket, 10000 for all fields "    \
      "from 10000.")                                                                               \
    S(mmsql_packets_damaged, false, "error", "analysis", "Packets that cannot be read in full.")   \
    S(mmsql_compressed_damaged, false, "error", "analysis",                                        \
      "Compressed packets that cannot be inflated to their end.")                                  \
    S(mmsql_compression_unknown, false, "error", "analysis",                                       \
      "Packets compressed in a way that this program cannot read.")                                \
    S(mmsql_debug_annotations_cut, false, "data_loss", "analysis",                                 \
      "Debug annotations with more values or longer keys than mmsql keeps; the rest is left out.") \
    S(mmsql_args_left_out, false, "data_loss", "analysis",                                         \
      "Rows with more args, deeper args or longer keys than mmsql keeps, or with args that "       \
      "cannot be read; the rest is left out.")                                                     \
    S(mmsql_interned_data_withheld, false, "data_loss", "analysis",                                \
      "Uses of long interned data that were left out, because the trace uses the data too often.") \
    S(mmsql_heap_lost_allocations, true, "data_loss", "trace",                                     \
      "Sampled allocations that did not fit into the buffer of a heap profile; later samples "     \
      "stand for the lost ones, too.")                                                             \
    S(mmsql_heap_lost_bytes, true, "info", "trace", "Bytes that the lost allocations stood for.")  \
    S(mmsql_heap_lost_frees, true, "data_loss", "trace",                                           \
      "Frees of samples that did not fit into the buffer; the freed memory counts as alive.")      \
    S(mmsql_heap_uncounted_bytes, true, "data_loss", "trace",                                      \
      "Lost bytes that no later sample stands for.")                                               \
    S(mmsql_heap_names_refused, true, "info", "trace",                                             \
      "Processes whose functions have no names, because the recorder may not read their files.")   \
    S(mmsql_perf_map_incomplete, false, "data_loss", "analysis", "Perf maps that lack symbols.")   \
    S(mmsql_perf_map_unread_bytes, false, "data_loss", "trace",                                    \
      "Bytes at the ends of perf maps that the recorder did not read in time.")                    \
    S(mmsql_perf_map_refused, false, "info", "trace",                                              \
      "Processes whose files the recorder may not read; they may have a perf map.")                \
    S(atom_timestamp_missing, false, "error", "trace",                                             \
      "Events of statsd without a time of their own.")                                             \
    S(atom_unknown, false, "info", "analysis",                                                     \
      "Events of statsd that mmsql does not know, or whose fields cannot be read.")                \
    S(generic_task_state_invalid_order, false, "error", "analysis",                                \
      "States of tasks that cannot follow each other.")                                            \
    S(mmsql_machines_many, false, "data_loss", "analysis",                                         \
      "Packets of machines beyond the number that mmsql keeps.")                                   \
    S(mmsql_page_residency_base_lost, false, "data_loss", "analysis",                              \
      "Samples of page residency whose runs build upon data that was lost; counts only.")          \
    S(mmsql_stopped_at_offset, true, "data_loss", "analysis",                                      \
      "Offset in the trace at which reading ended, because --max-memory (idx 1) or "               \
      "--max-output (idx 2) was reached.")                                                         \
    S(mmsql_stopped_at_time, true, "data_loss", "analysis",                                        \
      "Time after which events are left out, because --max-memory (idx 1) or --max-output "        \
      "(idx 2) was reached.")                                                                      \
    S(mmsql_recording_cut, false, "data_loss", "trace",                                            \
      "The recorder died before the end of the trace, or had no room to write; the rest is "       \
      "missing.")                                                                                  \
    S(json_display_time_unit, false, "info", "trace",                                              \
      "The JSON has a displayTimeUnit, which does not change the times of the events.")            \
    S(json_parser_failure, false, "error", "trace",                                                \
      "Events of JSON that lack what their phase needs; left out.")                                \
    S(json_tokenizer_failure, false, "error", "trace",                                             \
      "Events of JSON that cannot be read; left out.")                                             \
    S(slice_spill_overlapping_complete_event, false, "error", "analysis",                          \
      "Slices of JSON that overlap others of their thread; they have tracks of their own.")        \
    S(mmsql_json_samples_left_out, false, "notice", "analysis",                                    \
      "Samples of V8's profiler in JSON, which are not converted.")                                \
    S(mmsql_text_unknown_fields, false, "notice", "analysis",                                      \
      "Fields of a trace as text that mmsql does not know.")                                       \
    S(mmsql_text_wrong_packets, false, "error", "analysis",                                        \
      "Packets with wrong syntax in a trace as text; left out.")                                   \
    S(mmsql_text_wrong_values, false, "error", "analysis",                                         \
      "Values of a trace as text that their fields cannot have; left out.")                        \
    S(mmsql_truncated_at, false, "error", "analysis",                                              \
      "Offset in the trace where it ends or breaks in the middle of a packet.")

#define STAT_ID(name, indexed, severity, source, text) STAT_##name,
enum stat { STAT_LIST(STAT_ID) N_STATS };

struct single_stats {
    int64_t values[N_STATS];
};
VEC_DEFINE(single_stats_vec, struct single_stats);

// Empty when all members but `failure` are zero. The first call must be stats_enter_machine().
struct stats {
    struct single_stats_vec single; // by machine
    struct map64 indexed;           // machine, stat and index -> value
    uint32_t machine;               // the current machine
    struct failure *failure;        // borrowed
};

// Makes `machine` the machine of later calls.
void stats_enter_machine(struct stats *stats, uint32_t machine);

void stats_set(struct stats *stats, enum stat stat, int64_t value);
void stats_add(struct stats *stats, enum stat stat, int64_t value);
void stats_set_at(struct stats *stats, enum stat stat, uint32_t index, int64_t value);
void stats_add_at(struct stats *stats, enum stat stat, uint32_t index, int64_t value);
int64_t stats_get(const struct stats *stats, enum stat stat);

struct stat_name {
    const char *name, *severity;
};
// Returns true if a `wanted` stat of the current machine is more than 0.
bool stats_any(const struct stats *stats, bool (*wanted)(const struct stat_name *stat));

bool stats_get_at(const struct stats *stats, enum stat stat, uint32_t index, int64_t *ret);

// Writes all rows: single stats even if they are 0, indexed stats if they were set.
void stats_write(const struct stats *stats, struct database *db);
void stats_done(struct stats *stats);
