// SPDX-License-Identifier: Apache-2.0
//
// The tables of memory: pages of files, mappings, snapshots that programs report. schema.h explains
// the lists.
#pragma once

#define MEMORY_TABLE_LIST(T)                                                                       \
    T(memory_snapshot, "Snapshots of memory use that applications report of themselves.")          \
    T(memory_snapshot_edge,                                                                        \
      "Owners in snapshots of memory use: the memory of the target counts as the source's.")       \
    T(memory_snapshot_node, "Memory of allocators in snapshots of memory use, as trees.")          \
    T(page_residency_change, "Runs of pages that entered or left the page cache.")                 \
    T(page_residency_file, "Files whose pages in the page cache were watched.")                    \
    T(page_residency_round,                                                                        \
      "Readings of all watched files; a file without a sample had not changed.")                   \
    T(page_residency_sample,                                                                       \
      "Number of pages of a file in the page cache, at each change of the file.")                  \
    T(page_residency_span,                                                                         \
      "Runs of resident pages; a row lasts as long as the run stays the same.")                    \
    T(process_memory_snapshot, "Processes in snapshots of memory use.")                            \
    T(profiler_smaps, "Memory mappings of processes with their sizes.")

#define COLUMNS_memory_snapshot(K, C, G)                                                           \
    K(memory_snapshot, id, "Row.")                                                                 \
    C(memory_snapshot, timestamp, INT, "Time (ns).")                                               \
    C(memory_snapshot, track_id, INT, "Track.")                                                    \
    C(memory_snapshot, detail_level, TEXT, "Level of detail.")

#define COLUMNS_memory_snapshot_edge(K, C, G)                                                      \
    K(memory_snapshot_edge, id, "Row.")                                                            \
    C(memory_snapshot_edge, source_node_id, INT, "Node that owns, see memory_snapshot_node.")      \
    C(memory_snapshot_edge, target_node_id, INT, "Node whose memory counts as the source's.")      \
    C(memory_snapshot_edge, importance, INT, "The owner with the highest value is charged first.")

#define COLUMNS_memory_snapshot_node(K, C, G)                                                      \
    K(memory_snapshot_node, id, "Row.")                                                            \
    C(memory_snapshot_node, process_snapshot_id, INT,                                              \
      "Process of the node, see process_memory_snapshot; pid 0 has the shared memory.")            \
    C(memory_snapshot_node, parent_node_id, INT, "Parent node.")                                   \
    C(memory_snapshot_node, path, TEXT, "Name, with the names of its parent nodes.")               \
    C(memory_snapshot_node, size, INT, "Bytes.")                                                   \
    C(memory_snapshot_node, effective_size, INT,                                                   \
      "Bytes, without the bytes that count for owners of the node.")                               \
    C(memory_snapshot_node, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_page_residency_change(K, C, G)                                                     \
    K(page_residency_change, id, "Row.")                                                           \
    C(page_residency_change, ts, INT, "Start of the reading that found the change (ns).")          \
    C(page_residency_change, file_id, INT, "File, see page_residency_file.")                       \
    C(page_residency_change, sample_id, INT,                                                       \
      "Sample that found the change, see page_residency_sample.")                                  \
    C(page_residency_change, came, INT, "1: the pages entered the page cache; 0: the pages left.") \
    C(page_residency_change, start_page, INT, "First page of the run, from 0.")                    \
    C(page_residency_change, end_page, INT, "Page after the run.")                                 \
    G(page_residency_change, n_pages, INT, "end_page - start_page", "Pages of the run.")

#define COLUMNS_page_residency_file(K, C, G)                                                       \
    K(page_residency_file, id, "Row; a replaced file has another row.")                            \
    C(page_residency_file, path, TEXT, "Name by which the file was found.")                        \
    C(page_residency_file, device, INT, "Device, as makedev(3) packs it.")                         \
    C(page_residency_file, inode, INT, "Inode number.")                                            \
    C(page_residency_file, page_size_bytes, INT, "Size of a page (bytes).")                        \
    C(page_residency_file, first_ts, INT, "First sample in the trace (ns).")                       \
    C(page_residency_file, gone_ts, INT, "When the file was deleted or no longer mapped (ns).")    \
    C(page_residency_file, machine_id, INT, "Machine.")

#define COLUMNS_page_residency_round(K, C, G)                                                      \
    K(page_residency_round, id, "Row.")                                                            \
    C(page_residency_round, ts, INT, "Start of the round (ns).")                                   \
    C(page_residency_round, dur, INT, "Duration (ns).")                                            \
    C(page_residency_round, files, INT, "Number of files in the round.")                           \
    C(page_residency_round, changed, INT, "Number of files with a sample of this round.")          \
    C(page_residency_round, missed, INT,                                                           \
      "Rounds left out before this one, because a round took too long.")

#define COLUMNS_page_residency_sample(K, C, G)                                                     \
    K(page_residency_sample, id, "Row, in order of time for each file.")                           \
    C(page_residency_sample, ts, INT, "Start of the reading (ns).")                                \
    C(page_residency_sample, dur, INT, "Duration of the reading (ns).")                            \
    C(page_residency_sample, file_id, INT, "File, see page_residency_file.")                       \
    C(page_residency_sample, detail, TEXT,                                                         \
      "exact: the runs are known, see page_residency_range; counts: only numbers; unknown: "       \
      "the kernel does not tell; error; gone: no longer watched.")                                 \
    C(page_residency_sample, pages, INT, "Size of the file (pages).")                              \
    C(page_residency_sample, resident_pages, INT, "Pages in the page cache.")                      \
    C(page_residency_sample, resident_bytes, INT, "Memory in the page cache (bytes).")             \
    C(page_residency_sample, dirty_pages, INT, "Changed and not yet written (pages).")             \
    C(page_residency_sample, writeback_pages, INT, "Being written (pages).")                       \
    C(page_residency_sample, evicted_pages, INT, "Evicted from the page cache (pages).")           \
    C(page_residency_sample, recently_evicted_pages, INT,                                          \
      "Evicted pages whose return would show memory pressure (pages).")                            \
    C(page_residency_sample, error, INT, "errno, if the reading failed.")

#define COLUMNS_page_residency_span(K, C, G)                                                       \
    K(page_residency_span, id, "Row.")                                                             \
    C(page_residency_span, file_id, INT, "File, see page_residency_file.")                         \
    C(page_residency_span, ts, INT, "First sample that shows the run (ns).")                       \
    C(page_residency_span, dur, INT,                                                               \
      "Time until the first sample without the run, or the end (ns).")                             \
    C(page_residency_span, first_sample_id, INT, "First sample that shows the run.")               \
    C(page_residency_span, last_sample_id, INT, "Last sample that shows the run.")                 \
    C(page_residency_span, start_page, INT, "First page of the run, from 0.")                      \
    C(page_residency_span, end_page, INT, "Page after the run.")                                   \
    G(page_residency_span, n_pages, INT, "end_page - start_page", "Pages of the run.")

#define COLUMNS_process_memory_snapshot(K, C, G)                                                   \
    K(process_memory_snapshot, id, "Row.")                                                         \
    C(process_memory_snapshot, snapshot_id, INT, "Snapshot, see memory_snapshot.")                 \
    C(process_memory_snapshot, upid, INT, "Process; pid 0 stands for shared memory.")

#define COLUMNS_profiler_smaps(K, C, G)                                                            \
    K(profiler_smaps, id, "Row.")                                                                  \
    C(profiler_smaps, upid, INT, "Process.")                                                       \
    C(profiler_smaps, ts, INT, "Time (ns).")                                                       \
    C(profiler_smaps, path, TEXT, "Mapped file or kind of memory.")                                \
    C(profiler_smaps, path_trimmed, TEXT,                                                          \
      "The path without the parts that differ between installations.")                             \
    C(profiler_smaps, aggregate_count, INT, "Mappings in this row.")                               \
    C(profiler_smaps, is_deleted, INT, "1 if the file was deleted.")                               \
    C(profiler_smaps, size_kb, INT, "Address space (KiB).")                                        \
    C(profiler_smaps, private_dirty_kb, INT, "Private dirty memory (KiB).")                        \
    C(profiler_smaps, swap_kb, INT, "Swapped out (KiB).")                                          \
    C(profiler_smaps, file_name, TEXT, "Name of the mapping.")                                     \
    C(profiler_smaps, start_address, INT, "First address.")                                        \
    C(profiler_smaps, module_timestamp, INT, "Time stamp of the module.")                          \
    C(profiler_smaps, module_debugid, TEXT, "Debug id of the module.")                             \
    C(profiler_smaps, module_debug_path, TEXT, "Path of the module's debug data.")                 \
    C(profiler_smaps, protection_flags, INT, "Access rights.")                                     \
    C(profiler_smaps, private_clean_resident_kb, INT, "Private clean memory (KiB).")               \
    C(profiler_smaps, shared_dirty_resident_kb, INT, "Shared dirty memory (KiB).")                 \
    C(profiler_smaps, shared_clean_resident_kb, INT, "Shared clean memory (KiB).")                 \
    C(profiler_smaps, locked_kb, INT, "Locked memory (KiB).")                                      \
    C(profiler_smaps, proportional_resident_kb, INT, "Proportional set size (KiB).")               \
    C(profiler_smaps, rss_kb, INT, "Resident memory (KiB).")                                       \
    C(profiler_smaps, anonymous_kb, INT, "Anonymous memory (KiB).")                                \
    C(profiler_smaps, pss_dirty_kb, INT, "Dirty part of the proportional set size (KiB).")         \
    C(profiler_smaps, swap_pss_kb, INT, "Proportional share of swap (KiB).")
