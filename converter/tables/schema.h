// SPDX-License-Identifier: Apache-2.0
//
// The stored tables: names, columns, types and what each column means, in one place. The lists
// below make the DDL, the column numbers (COL_table_column), the batches and the help of `mmsql
// tables`. Names and columns are Perfetto's public ones; what Perfetto computes (views) is in
// converter/sql/.
//
// T(table, doc)
// K(table, column, doc)            the row's id, INTEGER PRIMARY KEY; always the first column
// C(table, column, type, doc)      stored; type is INT, REAL, TEXT or BLOB; not shown if it begins
// with _ G(table, column, type, sql, doc) computed from the others when it is asked for
//
// A table with columns that are computed or not shown is stored under its name with a _ in front;
// its name is that of a view. (SQLite's own generated columns are computed with every insertion.)
//
// Times are nanoseconds of the trace clock (CLOCK_BOOTTIME unless the trace says otherwise).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/schema_files.h"

#define TABLE_LIST(T)                                                                              \
    T(android_game_intervention_list, "What Android may do to games, by package.")                 \
    T(clock_snapshot, "Readings of several clocks taken at one moment.")                           \
    T(counter, "Values of counters over time; join counter_track for what is counted.")            \
    T(cpu, "Processors seen in the trace.")                                                        \
    T(filedescriptor, "Open files of processes, where they were recorded.")                        \
    T(flow, "Arrows between slices: what made what happen.")                                       \
    T(gpu, "GPUs that anything is said of.")                                                       \
    T(gpu_counter_group, "Groups that counters of GPUs are of.")                                   \
    T(heap_graph, "Dumps of the objects of Java heaps.")                                           \
    T(heap_graph_class, "Classes of the objects in Java heaps.")                                   \
    T(heap_graph_object, "Objects in Java heaps.")                                                 \
    T(heap_graph_object_data, "What objects in Java heaps hold: fields of bitmaps.")               \
    T(heap_graph_primitive, "Fields of objects in Java heaps that are numbers.")                   \
    T(heap_graph_reference, "What objects in Java heaps refer to.")                                \
    T(heap_profile, "Heap dumps of processes.")                                                    \
    T(heap_profile_allocation, "Sampled allocations (positive) and frees (negative).")             \
    T(logs, "Lines of logs: Android's, those in track events, and systemd's journal.")             \
    T(machine, "Machines the trace comes from.")                                                   \
    T(malloc_arena, "What the allocator of profiled processes held, by arena.")                    \
    T(memory_snapshot, "Snapshots of memory use that applications report of themselves.")          \
    T(memory_snapshot_edge, "Whose memory counts as whose in snapshots of memory use.")            \
    T(memory_snapshot_node, "What allocators hold in snapshots of memory use, as trees.")          \
    T(metadata, "Facts about the trace as a whole.")                                               \
    T(package_list, "Installed Android packages.")                                                 \
    T(page_residency_change, "Runs of pages that came into the page cache or went out of it.")     \
    T(page_residency_file, "Files whose pages in the page cache were watched.")                    \
    T(page_residency_round, "Looks at all watched files: what was not sampled had not changed.")   \
    T(page_residency_sample, "How many pages of a file were in the page cache, when it changed.")  \
    T(page_residency_span, "Runs of resident pages, a row for as long as a run stays the same.")   \
    T(process, "Processes; upid is unique in the trace, pid may be reused.")                       \
    T(process_memory_snapshot, "Processes in snapshots of memory use.")                            \
    T(profiler_smaps, "Memory mappings of processes with their sizes.")                            \
    T(sched_slice, "Which thread ran on which processor, and why it stopped.")                     \
    T(slice, "Spans of time with a name, nested per track.")                                       \
    T(stack_profile_callsite, "Call chains: a frame and the call site that called it.")            \
    T(stack_profile_frame, "Functions and addresses in call chains.")                              \
    T(stack_profile_mapping, "Files mapped into profiled processes.")                              \
    T(stack_profile_symbol, "Source positions of frames, inlined functions included.")             \
    T(stats, "How recording and conversion went: sizes, losses, problems.")                        \
    T(thread, "Threads; utid is unique in the trace, tid may be reused.")                          \
    T(thread_state, "What each thread was doing: running, runnable, sleeping.")                    \
    T(trace_bounds, "First and last moment that the trace has data of.")                           \
    T(vulkan_memory_allocations,                                                                   \
      "Memory that Vulkan drivers and programs allocate, free and bind.")                          \
    T(_android_aflag, "Flags of Android's features: see android_aflags.")                          \
    T(_android_cpu_per_uid, "CPU time of users: see android_cpu_per_uid_track.")                   \
    T(_android_user, "Users of an Android device: see android_user_list.")                         \
    T(_arg_field, "What the values of a kind of arg set are.")                                     \
    T(_arg_kind, "Kinds of arg sets: those of a kind have the same fields.")                       \
    T(_arg_more, "Values of arg sets that have more than fit into a row.")                         \
    T(_arg_set, "Arg sets, a row each; kernel events are arg sets that have a time.")              \
    T(_network_packet, "Network packets: see android_network_packets.")                            \
    T(_profiler_async_context, "Asynchronous contexts of samples.")                                \
    T(_profiler_counter_set, "Counters that were read with a sample.")                             \
    T(_profiler_execution_context, "Where samples were taken.")                                    \
    T(_profiler_sample, "Samples of all profilers.")                                               \
    T(_profiler_session, "Sessions of all profilers.")                                             \
    T(_profiler_task_context, "What was sampled.")                                                 \
    T(_track, "All tracks, with what the public track views select by.")                           \
    FILE_TABLE_LIST(T)

#define COLUMNS_android_game_intervention_list(K, C, G)                                            \
    K(android_game_intervention_list, id, "Row.")                                                  \
    C(android_game_intervention_list, package_name, TEXT, "Package.")                              \
    C(android_game_intervention_list, uid, INT, "User id.")                                        \
    C(android_game_intervention_list, current_mode, INT,                                           \
      "Mode it is in: 1 standard, 2 performance, 3 battery.")                                      \
    C(android_game_intervention_list, standard_mode_supported, INT,                                \
      "1 if there is a standard mode.")                                                            \
    C(android_game_intervention_list, standard_mode_downscale, REAL, "Factor of its resolution.")  \
    C(android_game_intervention_list, standard_mode_use_angle, INT, "1 if it renders by ANGLE.")   \
    C(android_game_intervention_list, standard_mode_fps, REAL,                                     \
      "Frames per second that it allows.")                                                         \
    C(android_game_intervention_list, perf_mode_supported, INT,                                    \
      "1 if there is a performance mode.")                                                         \
    C(android_game_intervention_list, perf_mode_downscale, REAL, "Factor of its resolution.")      \
    C(android_game_intervention_list, perf_mode_use_angle, INT, "1 if it renders by ANGLE.")       \
    C(android_game_intervention_list, perf_mode_fps, REAL, "Frames per second that it allows.")    \
    C(android_game_intervention_list, battery_mode_supported, INT,                                 \
      "1 if there is a battery mode.")                                                             \
    C(android_game_intervention_list, battery_mode_downscale, REAL, "Factor of its resolution.")   \
    C(android_game_intervention_list, battery_mode_use_angle, INT, "1 if it renders by ANGLE.")    \
    C(android_game_intervention_list, battery_mode_fps, REAL, "Frames per second that it allows.")

#define COLUMNS_clock_snapshot(K, C, G)                                                            \
    K(clock_snapshot, id, "Row.")                                                                  \
    C(clock_snapshot, ts, INT, "When, in trace time (ns).")                                        \
    C(clock_snapshot, clock_id, INT, "Number of the clock, as in the trace.")                      \
    C(clock_snapshot, clock_name, TEXT, "Name of the clock, if it is a well-known one.")           \
    C(clock_snapshot, clock_value, INT, "What that clock showed, in its own unit.")                \
    C(clock_snapshot, snapshot_id, INT, "Readings of one moment share this.")                      \
    C(clock_snapshot, machine_id, INT, "Machine.")

#define COLUMNS_counter(K, C, G)                                                                   \
    K(counter, id, "Row.")                                                                         \
    C(counter, ts, INT, "When (ns).")                                                              \
    C(counter, track_id, INT, "Track, see counter_track.")                                         \
    C(counter, value, REAL, "Value, in the track's unit.")                                         \
    C(counter, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_cpu(K, C, G)                                                                       \
    K(cpu, id, "Unique number of the processor.")                                                  \
    G(cpu, ucpu, INT, "id", "The same as id.")                                                     \
    C(cpu, cpu, INT, "Number of the processor on its machine.")                                    \
    C(cpu, cluster_id, INT, "Processors of one kind share this.")                                  \
    C(cpu, processor, TEXT, "Model.")                                                              \
    C(cpu, machine_id, INT, "Machine.")                                                            \
    C(cpu, capacity, INT, "Computing power, 1024 is the strongest of the machine.")                \
    C(cpu, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_filedescriptor(K, C, G)                                                            \
    K(filedescriptor, id, "Row.")                                                                  \
    G(filedescriptor, ufd, INT, "id", "The same as id.")                                           \
    C(filedescriptor, fd, INT, "Number of the file descriptor.")                                   \
    C(filedescriptor, ts, INT, "When it was seen (ns).")                                           \
    C(filedescriptor, upid, INT, "Process.")                                                       \
    C(filedescriptor, path, TEXT, "File.")

#define COLUMNS_flow(K, C, G)                                                                      \
    K(flow, id, "Row.")                                                                            \
    C(flow, slice_out, INT, "Slice where the arrow starts.")                                       \
    C(flow, slice_in, INT, "Slice where the arrow ends.")                                          \
    C(flow, trace_id, INT, "Number of the flow in the trace.")                                     \
    C(flow, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_gpu(K, C, G)                                                                       \
    K(gpu, id, "Unique number of the GPU.")                                                        \
    G(gpu, ugpu, INT, "id", "The same as id.")                                                     \
    C(gpu, gpu, INT, "Number of the GPU on its machine.")                                          \
    C(gpu, name, TEXT, "Name.")                                                                    \
    C(gpu, vendor, TEXT, "Maker.")                                                                 \
    C(gpu, model, TEXT, "Model.")                                                                  \
    C(gpu, architecture, TEXT, "Architecture.")                                                    \
    C(gpu, uuid, TEXT, "UUID, in hexadecimal.")                                                    \
    C(gpu, pci_bdf, TEXT, "Where it is on the PCI bus.")                                           \
    C(gpu, machine_id, INT, "Machine.")                                                            \
    C(gpu, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_gpu_counter_group(K, C, G)                                                         \
    K(gpu_counter_group, id, "Row.")                                                               \
    C(gpu_counter_group, group_id, INT,                                                            \
      "Number of the group: 0 unclassified, 1 system, 2 vertices, 3 fragments, 4 primitives, 5 "   \
      "memory, 6 compute, 7 ray tracing; others as their name says.")                              \
    C(gpu_counter_group, track_id, INT, "Counter, see gpu_counter_track.")                         \
    C(gpu_counter_group, name, TEXT, "Name of the group, if the trace has one.")                   \
    C(gpu_counter_group, description, TEXT, "What it is about.")

#define COLUMNS_heap_graph(K, C, G)                                                                \
    K(heap_graph, id, "Row.")                                                                      \
    C(heap_graph, ts, INT, "When (ns).")                                                           \
    C(heap_graph, upid, INT, "Process.")                                                           \
    C(heap_graph, dump_reason, TEXT, "Why, where it is known.")                                    \
    C(heap_graph, heap_size, INT, "Bytes allocated in the heap.")                                  \
    C(heap_graph, truncated, INT, "1 if packets of the dump are missing.")

#define COLUMNS_heap_graph_class(K, C, G)                                                          \
    K(heap_graph_class, id, "Row.")                                                                \
    C(heap_graph_class, name, TEXT, "Name.")                                                       \
    C(heap_graph_class, deobfuscated_name, TEXT, "Its name before obfuscation.")                   \
    C(heap_graph_class, location, TEXT, "File it was loaded from.")                                \
    C(heap_graph_class, superclass_id, INT, "Class above it.")                                     \
    C(heap_graph_class, classloader_id, INT, "Object that loaded it.")                             \
    C(heap_graph_class, kind, TEXT, "KIND_NORMAL and the like.")

#define COLUMNS_heap_graph_object(K, C, G)                                                         \
    K(heap_graph_object, id, "Row.")                                                               \
    C(heap_graph_object, upid, INT, "Process.")                                                    \
    C(heap_graph_object, graph_sample_ts, INT, "When it was dumped (ns), see heap_graph.")         \
    C(heap_graph_object, self_size, INT,                                                           \
      "Bytes, without what it refers to; NULL: it was not dumped.")                                \
    C(heap_graph_object, native_size, INT, "Bytes of native memory that it owns.")                 \
    C(heap_graph_object, reference_set_id, INT, "Its rows in heap_graph_reference.")               \
    C(heap_graph_object, reachable, INT, "1 if a root leads to it.")                               \
    C(heap_graph_object, heap_type, TEXT, "Part of the heap it is in.")                            \
    C(heap_graph_object, type_id, INT, "Its class.")                                               \
    C(heap_graph_object, root_type, TEXT, "Why it is kept, if it is a root.")                      \
    C(heap_graph_object, root_distance, INT,                                                       \
      "References from the nearest root; -1: none leads to it.")                                   \
    C(heap_graph_object, object_data_id, INT, "What it holds, see heap_graph_object_data.")

#define COLUMNS_heap_graph_object_data(K, C, G)                                                    \
    K(heap_graph_object_data, id, "Row.")                                                          \
    C(heap_graph_object_data, field_set_id, INT, "Its rows in heap_graph_primitive.")              \
    C(heap_graph_object_data, value_string, TEXT, "Text, of a string.")                            \
    C(heap_graph_object_data, array_element_type, TEXT, "Type of the elements, of an array.")      \
    C(heap_graph_object_data, array_element_count, INT, "Number of elements, of an array.")        \
    C(heap_graph_object_data, array_data_id, INT, "Always NULL: dumps have no elements.")          \
    C(heap_graph_object_data, array_data_hash, INT, "Always NULL: dumps have no elements.")

#define COLUMNS_heap_graph_primitive(K, C, G)                                                      \
    K(heap_graph_primitive, id, "Row.")                                                            \
    C(heap_graph_primitive, field_set_id, INT, "Same for the fields of one object.")               \
    C(heap_graph_primitive, field_name, TEXT, "Field, with its class.")                            \
    C(heap_graph_primitive, field_type, TEXT, "int, long, ...")                                    \
    C(heap_graph_primitive, bool_value, INT, "Value, if it is a boolean.")                         \
    C(heap_graph_primitive, byte_value, INT, "Value, if it is a byte.")                            \
    C(heap_graph_primitive, char_value, INT, "Value, if it is a char: its code.")                  \
    C(heap_graph_primitive, short_value, INT, "Value, if it is a short.")                          \
    C(heap_graph_primitive, int_value, INT, "Value, if it is an int.")                             \
    C(heap_graph_primitive, long_value, INT, "Value, if it is a long.")                            \
    C(heap_graph_primitive, float_value, REAL, "Value, if it is a float.")                         \
    C(heap_graph_primitive, double_value, REAL, "Value, if it is a double.")

#define COLUMNS_heap_graph_reference(K, C, G)                                                      \
    K(heap_graph_reference, id, "Row.")                                                            \
    C(heap_graph_reference, reference_set_id, INT, "Same for what one object refers to.")          \
    C(heap_graph_reference, owner_id, INT, "Object that refers.")                                  \
    C(heap_graph_reference, owned_id, INT, "Object it refers to; NULL: nothing.")                  \
    C(heap_graph_reference, field_name, TEXT, "Field, with its class.")                            \
    C(heap_graph_reference, field_type_name, TEXT, "Type of the field.")                           \
    C(heap_graph_reference, deobfuscated_field_name, TEXT, "The field's name before obfuscation.")

#define COLUMNS_heap_profile(K, C, G)                                                              \
    K(heap_profile, id, "Row.")                                                                    \
    C(heap_profile, ts, INT, "When (ns).")                                                         \
    C(heap_profile, ts_end, INT, "End of what the dump covers (ns).")                              \
    C(heap_profile, dur, INT, "How long a time the dump covers (ns).")                             \
    C(heap_profile, upid, INT, "Process.")                                                         \
    C(heap_profile, heap_name, TEXT, "Allocator.")

#define COLUMNS_heap_profile_allocation(K, C, G)                                                   \
    K(heap_profile_allocation, id, "Row.")                                                         \
    C(heap_profile_allocation, ts, INT, "When the dump was taken (ns).")                           \
    C(heap_profile_allocation, upid, INT, "Process.")                                              \
    C(heap_profile_allocation, heap_name, TEXT, "Allocator.")                                      \
    C(heap_profile_allocation, callsite_id, INT, "Where, see stack_profile_callsite.")             \
    C(heap_profile_allocation, count, INT, "Allocations; negative: frees.")                        \
    C(heap_profile_allocation, size, INT, "Bytes; negative: freed.")

#define COLUMNS_logs(K, C, G)                                                                      \
    K(logs, id, "Row.")                                                                            \
    C(logs, ts, INT, "When (ns).")                                                                 \
    C(logs, utid, INT, "Thread that wrote it.")                                                    \
    C(logs, prio, INT, "Priority, by source: see android_logs, linux_systemd_journald_logs.")      \
    C(logs, log_source, TEXT, "android_logcat or systemd_journald.")                               \
    C(logs, tag, TEXT, "Tag, or place in the source.")                                             \
    C(logs, msg, TEXT, "Message.")                                                                 \
    C(logs, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_machine(K, C, G)                                                                   \
    K(machine, id, "Unique number of the machine.")                                                \
    C(machine, raw_id, INT, "Number of the machine in the trace.")                                 \
    C(machine, name, TEXT, "Name that the trace gives it.")                                        \
    C(machine, sysname, TEXT, "Operating system.")                                                 \
    C(machine, release, TEXT, "Kernel release.")                                                   \
    C(machine, version, TEXT, "Kernel version.")                                                   \
    C(machine, arch, TEXT, "Architecture.")                                                        \
    C(machine, num_cpus, INT, "Processors.")                                                       \
    C(machine, android_build_fingerprint, TEXT, "Android build.")                                  \
    C(machine, android_device_manufacturer, TEXT, "Maker of the Android device.")                  \
    C(machine, android_sdk_version, INT, "Android SDK level.")                                     \
    C(machine, system_ram_bytes, INT, "Memory (bytes).")                                           \
    C(machine, system_ram_gb, INT, "Memory, rounded to 10^9 bytes.")                               \
    C(machine, label_index, INT, "Position in lists of machines.")

#define COLUMNS_malloc_arena(K, C, G)                                                              \
    K(malloc_arena, id, "Row.")                                                                    \
    C(malloc_arena, ts, INT, "When the process was asked (ns).")                                   \
    C(malloc_arena, upid, INT, "Process.")                                                         \
    C(malloc_arena, arena, INT,                                                                    \
      "Number of the arena, from 0; NULL: allocations that have a mapping of their own.")          \
    C(malloc_arena, system_bytes, INT, "Taken from the kernel.")                                   \
    C(malloc_arena, max_system_bytes, INT, "The most it was; NULL where it is not kept.")          \
    C(malloc_arena, free_bytes, INT, "Free in the arena, its unused end included.")                \
    C(malloc_arena, free_chunks, INT, "In so many pieces.")                                        \
    C(malloc_arena, fast_bytes, INT, "Free and not yet joined with what is around it.")            \
    C(malloc_arena, fast_chunks, INT, "In so many pieces.")                                        \
    C(malloc_arena, mapped_chunks, INT, "Allocations with a mapping of their own.")                \
    G(malloc_arena, used_bytes, INT, "system_bytes - free_bytes - fast_bytes",                     \
      "In use, as far as the allocator knows: caches of threads count as used.")

#define COLUMNS_memory_snapshot(K, C, G)                                                           \
    K(memory_snapshot, id, "Row.")                                                                 \
    C(memory_snapshot, timestamp, INT, "When (ns).")                                               \
    C(memory_snapshot, track_id, INT, "Track.")                                                    \
    C(memory_snapshot, detail_level, TEXT, "How detailed the snapshot is.")

#define COLUMNS_memory_snapshot_edge(K, C, G)                                                      \
    K(memory_snapshot_edge, id, "Row.")                                                            \
    C(memory_snapshot_edge, source_node_id, INT, "Node that owns, see memory_snapshot_node.")      \
    C(memory_snapshot_edge, target_node_id, INT, "Node whose memory counts as the source's.")      \
    C(memory_snapshot_edge, importance, INT, "Of several owners the highest is charged first.")

#define COLUMNS_memory_snapshot_node(K, C, G)                                                      \
    K(memory_snapshot_node, id, "Row.")                                                            \
    C(memory_snapshot_node, process_snapshot_id, INT,                                              \
      "Its process, see process_memory_snapshot; that of pid 0 has what is shared.")               \
    C(memory_snapshot_node, parent_node_id, INT, "Node around it.")                                \
    C(memory_snapshot_node, path, TEXT, "Name, with those of the nodes around it.")                \
    C(memory_snapshot_node, size, INT, "Bytes.")                                                   \
    C(memory_snapshot_node, effective_size, INT, "Bytes, without those that owners of it have.")   \
    C(memory_snapshot_node, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_metadata(K, C, G)                                                                  \
    K(metadata, id, "Row.")                                                                        \
    C(metadata, name, TEXT, "What the fact is about.")                                             \
    C(metadata, key_type, TEXT, "single: one row has this name; multi: there may be more.")        \
    C(metadata, int_value, INT, "The fact, if it is a number.")                                    \
    C(metadata, str_value, TEXT, "The fact, if it is a text.")                                     \
    C(metadata, machine_id, INT, "Machine it is about, if it is about one.")                       \
    C(metadata, trace_id, INT, "Trace it is about, if it is about one.")

#define COLUMNS_package_list(K, C, G)                                                              \
    K(package_list, id, "Row.")                                                                    \
    C(package_list, package_name, TEXT, "Name.")                                                   \
    C(package_list, uid, INT, "User id its processes run as.")                                     \
    C(package_list, debuggable, INT, "1 if it may be debugged.")                                   \
    C(package_list, profileable_from_shell, INT, "1 if the shell user may profile it.")            \
    C(package_list, version_code, INT, "Version.")

#define COLUMNS_page_residency_change(K, C, G)                                                     \
    K(page_residency_change, id, "Row.")                                                           \
    C(page_residency_change, ts, INT, "When the look began that saw it (ns).")                     \
    C(page_residency_change, file_id, INT, "File, see page_residency_file.")                       \
    C(page_residency_change, sample_id, INT, "Sample that saw it, see page_residency_sample.")     \
    C(page_residency_change, came, INT, "1: the pages came in; 0: they went.")                     \
    C(page_residency_change, start_page, INT, "First page of the run, from 0.")                    \
    C(page_residency_change, end_page, INT, "Page behind the run.")                                \
    G(page_residency_change, n_pages, INT, "end_page - start_page", "Pages of the run.")

#define COLUMNS_page_residency_file(K, C, G)                                                       \
    K(page_residency_file, id, "Row; a replaced file has another one.")                            \
    C(page_residency_file, path, TEXT, "Name it was found by.")                                    \
    C(page_residency_file, device, INT, "Device, as makedev(3) packs it.")                         \
    C(page_residency_file, inode, INT, "Inode number.")                                            \
    C(page_residency_file, page_size_bytes, INT, "Size of a page (bytes).")                        \
    C(page_residency_file, first_ts, INT, "First sample in the trace (ns).")                       \
    C(page_residency_file, gone_ts, INT, "When it was deleted or no longer mapped (ns).")

#define COLUMNS_page_residency_round(K, C, G)                                                      \
    K(page_residency_round, id, "Row.")                                                            \
    C(page_residency_round, ts, INT, "Begin of the round (ns).")                                   \
    C(page_residency_round, dur, INT, "How long it took (ns).")                                    \
    C(page_residency_round, files, INT, "Files that were looked at.")                              \
    C(page_residency_round, changed, INT, "Files that have a sample of this round.")               \
    C(page_residency_round, missed, INT, "Rounds left out before, because one took too long.")

#define COLUMNS_page_residency_sample(K, C, G)                                                     \
    K(page_residency_sample, id, "Row, in order of time for each file.")                           \
    C(page_residency_sample, ts, INT, "Begin of the look (ns).")                                   \
    C(page_residency_sample, dur, INT, "How long the look took (ns).")                             \
    C(page_residency_sample, file_id, INT, "File, see page_residency_file.")                       \
    C(page_residency_sample, detail, TEXT,                                                         \
      "exact: the runs are known, see page_residency_range; counts: only numbers; unknown: "       \
      "the kernel does not tell; error; gone: no longer watched.")                                 \
    C(page_residency_sample, pages, INT, "Size of the file (pages).")                              \
    C(page_residency_sample, resident_pages, INT, "Pages in the page cache.")                      \
    C(page_residency_sample, resident_bytes, INT, "The same in bytes.")                            \
    C(page_residency_sample, dirty_pages, INT, "Changed and not yet written (pages).")             \
    C(page_residency_sample, writeback_pages, INT, "Being written (pages).")                       \
    C(page_residency_sample, evicted_pages, INT, "Were in the cache once (pages).")                \
    C(page_residency_sample, recently_evicted_pages, INT,                                          \
      "Of those, would still be wanted (pages).")                                                  \
    C(page_residency_sample, error, INT, "errno, if the file could not be looked at.")

#define COLUMNS_page_residency_span(K, C, G)                                                       \
    K(page_residency_span, id, "Row.")                                                             \
    C(page_residency_span, file_id, INT, "File, see page_residency_file.")                         \
    C(page_residency_span, ts, INT, "First sample that shows the run (ns).")                       \
    C(page_residency_span, dur, INT, "Until the first sample that does not, or the end (ns).")     \
    C(page_residency_span, first_sample_id, INT, "First sample that shows it.")                    \
    C(page_residency_span, last_sample_id, INT, "Last sample that shows it.")                      \
    C(page_residency_span, start_page, INT, "First page of the run, from 0.")                      \
    C(page_residency_span, end_page, INT, "Page behind the run.")                                  \
    G(page_residency_span, n_pages, INT, "end_page - start_page", "Pages of the run.")

#define COLUMNS_process(K, C, G)                                                                   \
    K(process, upid, "Unique number of the process in this trace.")                                \
    G(process, id, INT, "upid", "The same as upid.")                                               \
    C(process, pid, INT, "Process id; may be reused.")                                             \
    C(process, name, TEXT, "Name.")                                                                \
    C(process, start_ts, INT, "When it started (ns), if the trace saw that.")                      \
    C(process, end_ts, INT, "When it ended (ns), if the trace saw that.")                          \
    C(process, parent_upid, INT, "Process that started it.")                                       \
    C(process, uid, INT, "User id.")                                                               \
    C(process, android_appid, INT, "Android application id, made from uid.")                       \
    C(process, android_user_id, INT, "Android user, made from uid.")                               \
    C(process, cmdline, TEXT, "Command line.")                                                     \
    C(process, arg_set_id, INT, "Further values, see args.")                                       \
    C(process, machine_id, INT, "Machine.")

#define COLUMNS_process_memory_snapshot(K, C, G)                                                   \
    K(process_memory_snapshot, id, "Row.")                                                         \
    C(process_memory_snapshot, snapshot_id, INT, "Snapshot, see memory_snapshot.")                 \
    C(process_memory_snapshot, upid, INT, "Process; that of pid 0 stands for what is shared.")

#define COLUMNS_profiler_smaps(K, C, G)                                                            \
    K(profiler_smaps, id, "Row.")                                                                  \
    C(profiler_smaps, upid, INT, "Process.")                                                       \
    C(profiler_smaps, ts, INT, "When (ns).")                                                       \
    C(profiler_smaps, path, TEXT, "Mapped file or kind of memory.")                                \
    C(profiler_smaps, path_trimmed, TEXT, "The path without what differs between installations.")  \
    C(profiler_smaps, aggregate_count, INT, "Mappings in this row.")                               \
    C(profiler_smaps, is_deleted, INT, "1 if the file was deleted.")                               \
    C(profiler_smaps, size_kb, INT, "Address space (KiB).")                                        \
    C(profiler_smaps, private_dirty_kb, INT, "Private dirty memory (KiB).")                        \
    C(profiler_smaps, swap_kb, INT, "Swapped out (KiB).")                                          \
    C(profiler_smaps, file_name, TEXT, "Name of the mapping.")                                     \
    C(profiler_smaps, start_address, INT, "First address.")                                        \
    C(profiler_smaps, module_timestamp, INT, "Time stamp of the module.")                          \
    C(profiler_smaps, module_debugid, TEXT, "Debug id of the module.")                             \
    C(profiler_smaps, module_debug_path, TEXT, "Where the module's debug data is.")                \
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

#define COLUMNS_sched_slice(K, C, G)                                                               \
    K(sched_slice, id, "Row.")                                                                     \
    C(sched_slice, ts, INT, "When the thread began to run (ns).")                                  \
    C(sched_slice, dur, INT, "How long it ran (ns); -1: to the end of the trace.")                 \
    G(sched_slice, cpu, INT, "ucpu & 4095", "Processor.")                                          \
    C(sched_slice, utid, INT, "Thread.")                                                           \
    C(sched_slice, end_state, TEXT, "State it went into: R runnable, S sleeping, D blocked, ...")  \
    C(sched_slice, priority, INT, "The kernel's priority; 120 is usual, less runs first.")         \
    C(sched_slice, ucpu, INT, "Processor, see cpu.id.")

#define COLUMNS_slice(K, C, G)                                                                     \
    K(slice, id, "Row.")                                                                           \
    C(slice, ts, INT, "When it began (ns).")                                                       \
    C(slice, dur, INT, "How long it took (ns); 0: a moment; -1: it did not end.")                  \
    C(slice, track_id, INT, "Track.")                                                              \
    C(slice, category, TEXT, "Category.")                                                          \
    C(slice, name, TEXT, "Name.")                                                                  \
    C(slice, depth, INT, "How deep it is nested; 0 is the outermost.")                             \
    C(slice, parent_id, INT, "Slice around it.")                                                   \
    C(slice, arg_set_id, INT, "Further values, see args.")                                         \
    C(slice, thread_ts, INT, "CPU time of the thread at its begin (ns).")                          \
    C(slice, thread_dur, INT, "CPU time it took (ns).")                                            \
    C(slice, thread_instruction_count, INT, "Instructions of the thread at its begin.")            \
    C(slice, thread_instruction_delta, INT, "Instructions it took.")                               \
    G(slice, cat, TEXT, "category", "The same as category.")                                       \
    G(slice, slice_id, INT, "id", "The same as id.")

#define COLUMNS_stack_profile_callsite(K, C, G)                                                    \
    K(stack_profile_callsite, id, "Row.")                                                          \
    C(stack_profile_callsite, depth, INT, "Distance from the outermost frame.")                    \
    C(stack_profile_callsite, parent_id, INT, "Call site that called this.")                       \
    C(stack_profile_callsite, frame_id, INT, "Frame.")

#define COLUMNS_stack_profile_frame(K, C, G)                                                       \
    K(stack_profile_frame, id, "Row.")                                                             \
    C(stack_profile_frame, name, TEXT, "Function, as recorded.")                                   \
    C(stack_profile_frame, mapping, INT, "Mapping it is in.")                                      \
    C(stack_profile_frame, rel_pc, INT, "Address, relative to the mapping.")                       \
    C(stack_profile_frame, symbol_set_id, INT, "Symbols, see stack_profile_symbol.")               \
    C(stack_profile_frame, deobfuscated_name, TEXT, "Function before obfuscation.")                \
    C(stack_profile_frame, type, TEXT, "Kind of code: native, interpreted, ...")

#define COLUMNS_stack_profile_mapping(K, C, G)                                                     \
    K(stack_profile_mapping, id, "Row.")                                                           \
    C(stack_profile_mapping, build_id, TEXT, "Build id of the file, in hex.")                      \
    C(stack_profile_mapping, exact_offset, INT, "Offset in the file of the mapping itself.")       \
    C(stack_profile_mapping, start_offset, INT, "Offset in the file of the module.")               \
    C(stack_profile_mapping, start, INT, "First address.")                                         \
    C(stack_profile_mapping, end, INT, "Address behind the last.")                                 \
    C(stack_profile_mapping, load_bias, INT, "Difference of file and load addresses.")             \
    C(stack_profile_mapping, name, TEXT, "File.")

#define COLUMNS_stack_profile_symbol(K, C, G)                                                      \
    K(stack_profile_symbol, id, "Row.")                                                            \
    C(stack_profile_symbol, symbol_set_id, INT, "Symbols of one frame share this.")                \
    C(stack_profile_symbol, name, TEXT, "Function.")                                               \
    C(stack_profile_symbol, source_file, TEXT, "Source file.")                                     \
    C(stack_profile_symbol, line_number, INT, "Line in the source file.")                          \
    C(stack_profile_symbol, inlined, INT, "1 if the function was inlined.")

#define COLUMNS_stats(K, C, G)                                                                     \
    K(stats, id, "Row.")                                                                           \
    C(stats, name, TEXT, "What is counted.")                                                       \
    C(stats, key, INT, "Number of the name.")                                                      \
    C(stats, idx, INT, "Processor or buffer that the value is of, if it is of one.")               \
    C(stats, severity, TEXT, "info, notice, data_loss or error.")                                  \
    C(stats, source, TEXT, "trace: recorded; analysis: found while converting.")                   \
    C(stats, value, INT, "Value.")                                                                 \
    C(stats, description, TEXT, "What it means.")                                                  \
    C(stats, machine_id, INT, "Machine.")                                                          \
    C(stats, trace_id, INT, "Trace.")

#define COLUMNS_thread(K, C, G)                                                                    \
    K(thread, utid, "Unique number of the thread in this trace.")                                  \
    G(thread, id, INT, "utid", "The same as utid.")                                                \
    C(thread, tid, INT, "Thread id; may be reused.")                                               \
    C(thread, name, TEXT, "Name.")                                                                 \
    C(thread, start_ts, INT, "When it started (ns), if the trace saw that.")                       \
    C(thread, end_ts, INT, "When it ended (ns), if the trace saw that.")                           \
    C(thread, upid, INT, "Process it belongs to, if known.")                                       \
    C(thread, is_main_thread, INT, "1 if it is the first thread of its process.")                  \
    C(thread, is_idle, INT, "1 if it stands for a processor with nothing to do.")                  \
    C(thread, machine_id, INT, "Machine.")                                                         \
    C(thread, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_thread_state(K, C, G)                                                              \
    K(thread_state, id, "Row.")                                                                    \
    C(thread_state, ts, INT, "When the state began (ns).")                                         \
    C(thread_state, dur, INT, "How long it lasted (ns); -1: to the end of the trace.")             \
    G(thread_state, cpu, INT, "ucpu & 4095", "Processor, while running.")                          \
    C(thread_state, utid, INT, "Thread.")                                                          \
    C(thread_state, state, TEXT, "Running, R runnable, S sleeping, D uninterruptible, ...")        \
    C(thread_state, io_wait, INT, "1 if it waited for a disk.")                                    \
    C(thread_state, blocked_function, TEXT, "Kernel function it waited in.")                       \
    C(thread_state, waker_utid, INT, "Thread that woke it.")                                       \
    C(thread_state, waker_id, INT, "What the waker was doing, see thread_state.id.")               \
    C(thread_state, irq_context, INT, "1 if it was woken from an interrupt.")                      \
    C(thread_state, ucpu, INT, "Processor, see cpu.id.")

#define COLUMNS_trace_bounds(K, C, G)                                                              \
    C(trace_bounds, start_ts, INT, "First moment with data (ns).")                                 \
    C(trace_bounds, end_ts, INT, "Last moment with data (ns).")

// A set of args is a row, so that its keys stand once for each kind of set and not in every row.
// The value_ columns hold the fields of the kind; a row is only as long as it needs to be. Kernel
// events are such rows too: their fields are their args, and the set's id is the event's.
#define ARG_SLOTS_MAX 64

#define COLUMNS_vulkan_memory_allocations(K, C, G)                                                 \
    K(vulkan_memory_allocations, id, "Row.")                                                       \
    C(vulkan_memory_allocations, arg_set_id, INT, "Further values, see args.")                     \
    C(vulkan_memory_allocations, source, TEXT,                                                     \
      "What tells it: DRIVER, DEVICE, GPU_DEVICE_MEMORY, GPU_BUFFER or GPU_IMAGE.")                \
    C(vulkan_memory_allocations, operation, TEXT,                                                  \
      "CREATE, DESTROY, BIND, DESTROY_BOUND or ANNOTATIONS.")                                      \
    C(vulkan_memory_allocations, timestamp, INT, "When (ns).")                                     \
    C(vulkan_memory_allocations, upid, INT, "Process.")                                            \
    C(vulkan_memory_allocations, device, INT, "Handle of the device.")                             \
    C(vulkan_memory_allocations, device_memory, INT, "Handle of the memory.")                      \
    C(vulkan_memory_allocations, memory_type, INT, "Type of the memory.")                          \
    C(vulkan_memory_allocations, heap, INT, "Heap of the memory.")                                 \
    C(vulkan_memory_allocations, function_name, TEXT, "Function of Vulkan.")                       \
    C(vulkan_memory_allocations, object_handle, INT, "Handle of the object.")                      \
    C(vulkan_memory_allocations, memory_address, INT, "Address.")                                  \
    C(vulkan_memory_allocations, memory_size, INT, "Bytes.")                                       \
    C(vulkan_memory_allocations, scope, TEXT, "What the allocation lives as long as.")

#define COLUMNS__android_aflag(K, C, G)                                                            \
    K(_android_aflag, id, "Row.")                                                                  \
    C(_android_aflag, ts, INT, "When (ns).")                                                       \
    C(_android_aflag, package, TEXT, "Package.")                                                   \
    C(_android_aflag, name, TEXT, "Name.")                                                         \
    C(_android_aflag, flag_namespace, TEXT, "Namespace.")                                          \
    C(_android_aflag, container, TEXT, "Container.")                                               \
    C(_android_aflag, value, TEXT, "Value.")                                                       \
    C(_android_aflag, staged_value, TEXT, "Value after the next boot.")                            \
    C(_android_aflag, permission, TEXT, "Who may change it.")                                      \
    C(_android_aflag, value_picked_from, TEXT, "What set it.")                                     \
    C(_android_aflag, storage_backend, TEXT, "Where it is kept.")                                  \
    C(_android_aflag, type, TEXT, "Type.")

#define COLUMNS__android_cpu_per_uid(K, C, G)                                                      \
    K(_android_cpu_per_uid, id, "Row.")                                                            \
    C(_android_cpu_per_uid, track_id, INT, "Track, see counter_track.")                            \
    C(_android_cpu_per_uid, uid, INT, "User id.")                                                  \
    C(_android_cpu_per_uid, cluster, INT, "Kind of processor.")                                    \
    C(_android_cpu_per_uid, total_cpu_millis, INT, "CPU time in the trace (ms).")

#define COLUMNS__android_user(K, C, G)                                                             \
    K(_android_user, id, "Row.")                                                                   \
    C(_android_user, android_user_id, INT, "Number of the user.")                                  \
    C(_android_user, type, TEXT, "Kind of user.")

#define COLUMNS__arg_field(K, C, G)                                                                \
    K(_arg_field, id, "Row.")                                                                      \
    C(_arg_field, kind_id, INT, "Kind of set, see _arg_kind.")                                     \
    C(_arg_field, slot, INT, "Which of the value_ columns holds it, or place in _arg_more.")       \
    C(_arg_field, key, TEXT, "Key.")                                                               \
    C(_arg_field, flat_key, TEXT, "Key without array indexes, if that is not the key.")            \
    C(_arg_field, type, INT, "Number of the value's type, see args.h.")

#define COLUMNS__arg_kind(K, C, G)                                                                 \
    K(_arg_kind, id, "Kind.")                                                                      \
    C(_arg_kind, name, TEXT, "Name of the kernel event, if it is one.")

#define COLUMNS__arg_more(K, C, G)                                                                 \
    K(_arg_more, id, "Row.")                                                                       \
    C(_arg_more, arg_set_id, INT, "Set, see _arg_set.")                                            \
    C(_arg_more, slot, INT, "Place in the set, from 64.")                                          \
    C(_arg_more, value, BLOB, "Value.")

#define COLUMNS__arg_set(K, C, G)                                                                  \
    K(_arg_set, id, "Set.")                                                                        \
    C(_arg_set, kind_id, INT, "Kind of set, see _arg_kind.")                                       \
    C(_arg_set, ts, INT, "When the kernel event was (ns).")                                        \
    C(_arg_set, utid, INT, "Thread that the kernel event happened in.")                            \
    C(_arg_set, common_flags, INT, "The kernel's flags of the event, where recorded.")             \
    C(_arg_set, ucpu, INT, "Processor of the kernel event, see cpu.id.")                           \
    C(_arg_set, value_0, BLOB, "Value of field 0 of the kind.")                                    \
    C(_arg_set, value_1, BLOB, "Value of field 1 of the kind.")                                    \
    C(_arg_set, value_2, BLOB, "Value of field 2 of the kind.")                                    \
    C(_arg_set, value_3, BLOB, "Value of field 3 of the kind.")                                    \
    C(_arg_set, value_4, BLOB, "Value of field 4 of the kind.")                                    \
    C(_arg_set, value_5, BLOB, "Value of field 5 of the kind.")                                    \
    C(_arg_set, value_6, BLOB, "Value of field 6 of the kind.")                                    \
    C(_arg_set, value_7, BLOB, "Value of field 7 of the kind.")                                    \
    C(_arg_set, value_8, BLOB, "Value of field 8 of the kind.")                                    \
    C(_arg_set, value_9, BLOB, "Value of field 9 of the kind.")                                    \
    C(_arg_set, value_10, BLOB, "Value of field 10 of the kind.")                                  \
    C(_arg_set, value_11, BLOB, "Value of field 11 of the kind.")                                  \
    C(_arg_set, value_12, BLOB, "Value of field 12 of the kind.")                                  \
    C(_arg_set, value_13, BLOB, "Value of field 13 of the kind.")                                  \
    C(_arg_set, value_14, BLOB, "Value of field 14 of the kind.")                                  \
    C(_arg_set, value_15, BLOB, "Value of field 15 of the kind.")                                  \
    C(_arg_set, value_16, BLOB, "Value of field 16 of the kind.")                                  \
    C(_arg_set, value_17, BLOB, "Value of field 17 of the kind.")                                  \
    C(_arg_set, value_18, BLOB, "Value of field 18 of the kind.")                                  \
    C(_arg_set, value_19, BLOB, "Value of field 19 of the kind.")                                  \
    C(_arg_set, value_20, BLOB, "Value of field 20 of the kind.")                                  \
    C(_arg_set, value_21, BLOB, "Value of field 21 of the kind.")                                  \
    C(_arg_set, value_22, BLOB, "Value of field 22 of the kind.")                                  \
    C(_arg_set, value_23, BLOB, "Value of field 23 of the kind.")                                  \
    C(_arg_set, value_24, BLOB, "Value of field 24 of the kind.")                                  \
    C(_arg_set, value_25, BLOB, "Value of field 25 of the kind.")                                  \
    C(_arg_set, value_26, BLOB, "Value of field 26 of the kind.")                                  \
    C(_arg_set, value_27, BLOB, "Value of field 27 of the kind.")                                  \
    C(_arg_set, value_28, BLOB, "Value of field 28 of the kind.")                                  \
    C(_arg_set, value_29, BLOB, "Value of field 29 of the kind.")                                  \
    C(_arg_set, value_30, BLOB, "Value of field 30 of the kind.")                                  \
    C(_arg_set, value_31, BLOB, "Value of field 31 of the kind.")                                  \
    C(_arg_set, value_32, BLOB, "Value of field 32 of the kind.")                                  \
    C(_arg_set, value_33, BLOB, "Value of field 33 of the kind.")                                  \
    C(_arg_set, value_34, BLOB, "Value of field 34 of the kind.")                                  \
    C(_arg_set, value_35, BLOB, "Value of field 35 of the kind.")                                  \
    C(_arg_set, value_36, BLOB, "Value of field 36 of the kind.")                                  \
    C(_arg_set, value_37, BLOB, "Value of field 37 of the kind.")                                  \
    C(_arg_set, value_38, BLOB, "Value of field 38 of the kind.")                                  \
    C(_arg_set, value_39, BLOB, "Value of field 39 of the kind.")                                  \
    C(_arg_set, value_40, BLOB, "Value of field 40 of the kind.")                                  \
    C(_arg_set, value_41, BLOB, "Value of field 41 of the kind.")                                  \
    C(_arg_set, value_42, BLOB, "Value of field 42 of the kind.")                                  \
    C(_arg_set, value_43, BLOB, "Value of field 43 of the kind.")                                  \
    C(_arg_set, value_44, BLOB, "Value of field 44 of the kind.")                                  \
    C(_arg_set, value_45, BLOB, "Value of field 45 of the kind.")                                  \
    C(_arg_set, value_46, BLOB, "Value of field 46 of the kind.")                                  \
    C(_arg_set, value_47, BLOB, "Value of field 47 of the kind.")                                  \
    C(_arg_set, value_48, BLOB, "Value of field 48 of the kind.")                                  \
    C(_arg_set, value_49, BLOB, "Value of field 49 of the kind.")                                  \
    C(_arg_set, value_50, BLOB, "Value of field 50 of the kind.")                                  \
    C(_arg_set, value_51, BLOB, "Value of field 51 of the kind.")                                  \
    C(_arg_set, value_52, BLOB, "Value of field 52 of the kind.")                                  \
    C(_arg_set, value_53, BLOB, "Value of field 53 of the kind.")                                  \
    C(_arg_set, value_54, BLOB, "Value of field 54 of the kind.")                                  \
    C(_arg_set, value_55, BLOB, "Value of field 55 of the kind.")                                  \
    C(_arg_set, value_56, BLOB, "Value of field 56 of the kind.")                                  \
    C(_arg_set, value_57, BLOB, "Value of field 57 of the kind.")                                  \
    C(_arg_set, value_58, BLOB, "Value of field 58 of the kind.")                                  \
    C(_arg_set, value_59, BLOB, "Value of field 59 of the kind.")                                  \
    C(_arg_set, value_60, BLOB, "Value of field 60 of the kind.")                                  \
    C(_arg_set, value_61, BLOB, "Value of field 61 of the kind.")                                  \
    C(_arg_set, value_62, BLOB, "Value of field 62 of the kind.")                                  \
    C(_arg_set, value_63, BLOB, "Value of field 63 of the kind.")

#define COLUMNS__network_packet(K, C, G)                                                           \
    K(_network_packet, id, "Row.")                                                                 \
    C(_network_packet, slice_id, INT, "Its slice.")                                                \
    C(_network_packet, iface, TEXT, "Network interface.")                                          \
    C(_network_packet, direction, TEXT, "Received or Transmitted.")                                \
    C(_network_packet, packet_transport, TEXT, "Protocol.")                                        \
    C(_network_packet, packet_length, INT, "Bytes.")                                               \
    C(_network_packet, packet_count, INT, "Packets.")                                              \
    C(_network_packet, socket_tag, INT, "Tag of the socket.")                                      \
    C(_network_packet, socket_tag_str, TEXT, "The same, in hexadecimal.")                          \
    C(_network_packet, socket_uid, INT, "User id of the socket.")                                  \
    C(_network_packet, local_port, INT, "Local port.")                                             \
    C(_network_packet, remote_port, INT, "Remote port.")                                           \
    C(_network_packet, packet_icmp_type, INT, "ICMP type.")                                        \
    C(_network_packet, packet_icmp_code, INT, "ICMP code.")                                        \
    C(_network_packet, packet_tcp_flags, INT, "TCP flags.")                                        \
    C(_network_packet, packet_tcp_flags_str, TEXT, "The same, in letters.")

#define COLUMNS__profiler_async_context(K, C, G)                                                   \
    K(_profiler_async_context, id, "Context.")                                                     \
    C(_profiler_async_context, name, TEXT, "Name.")                                                \
    C(_profiler_async_context, kind, TEXT, "Kind of context: goroutine, fiber, ...")               \
    C(_profiler_async_context, parent_id, INT, "Context that it belongs to.")

#define COLUMNS__profiler_counter_set(K, C, G)                                                     \
    K(_profiler_counter_set, id, "Row.")                                                           \
    C(_profiler_counter_set, counter_set_id, INT, "Counters of one sample share this.")            \
    C(_profiler_counter_set, counter_id, INT, "Value, see counter.")

#define COLUMNS__profiler_execution_context(K, C, G)                                               \
    K(_profiler_execution_context, id, "Context.")                                                 \
    C(_profiler_execution_context, ucpu, INT, "Processor, see cpu.id.")                            \
    C(_profiler_execution_context, cpu_mode, TEXT, "user, kernel, hypervisor, ...")

#define COLUMNS__profiler_sample(K, C, G)                                                          \
    K(_profiler_sample, id, "Sample.")                                                             \
    C(_profiler_sample, ts, INT, "When (ns).")                                                     \
    C(_profiler_sample, source, TEXT, "What took the sample.")                                     \
    C(_profiler_sample, task_context_id, INT,                                                      \
      "Thread or task it was taken in, see stack_sample_task_context.")                            \
    C(_profiler_sample, execution_context_id, INT,                                                 \
      "Processor and mode it was taken in, see stack_sample_execution_context.")                   \
    C(_profiler_sample, callsite_id, INT, "Where, see stack_profile_callsite.")                    \
    C(_profiler_sample, session_id, INT, "Session it belongs to, see stack_sample_session.")       \
    C(_profiler_sample, unwind_error, TEXT, "Why the call chain is not complete.")                 \
    C(_profiler_sample, counter_set_id, INT, "Counters that were read with it.")                   \
    C(_profiler_sample, utid, INT, "Thread.")                                                      \
    C(_profiler_sample, cpu, INT, "Processor.")                                                    \
    C(_profiler_sample, cpu_mode, TEXT, "user, kernel, hypervisor, ...")                           \
    C(_profiler_sample, process_priority, INT, "Priority of the process.")

#define COLUMNS__profiler_session(K, C, G)                                                         \
    K(_profiler_session, id, "Session.")                                                           \
    C(_profiler_session, source, TEXT, "What took the samples.")                                   \
    C(_profiler_session, timebase_unit, TEXT, "Unit of what it samples by.")                       \
    C(_profiler_session, cmdline, TEXT, "Command line that started it.")

#define COLUMNS__profiler_task_context(K, C, G)                                                    \
    K(_profiler_task_context, id, "Context.")                                                      \
    C(_profiler_task_context, upid, INT, "Process.")                                               \
    C(_profiler_task_context, utid, INT, "Thread.")                                                \
    C(_profiler_task_context, async_context_id, INT,                                               \
      "Asynchronous context, see stack_sample_async_context.")

#define COLUMNS__track(K, C, G)                                                                    \
    K(_track, id, "Track.")                                                                        \
    C(_track, name, TEXT, "Name.")                                                                 \
    C(_track, type, TEXT, "Kind of track: what made it.")                                          \
    C(_track, dimension_arg_set_id, INT, "What tells it from others of its type, see args.")       \
    C(_track, parent_id, INT, "Track above it.")                                                   \
    C(_track, source_arg_set_id, INT, "Further values, see args.")                                 \
    C(_track, machine_id, INT, "Machine.")                                                         \
    C(_track, track_group_id, INT, "Tracks that are shown as one share this.")                     \
    C(_track, is_counter, INT, "1 for counters, 0 for slices.")                                    \
    C(_track, unit, TEXT, "Unit of the counter's values.")                                         \
    C(_track, description, TEXT, "What it shows.")                                                 \
    C(_track, upid, INT, "Process it belongs to.")                                                 \
    C(_track, utid, INT, "Thread it belongs to.")                                                  \
    C(_track, cpu, INT, "Processor it belongs to.")

#define SCHEMA_TABLE_ID(table, doc) TABLE_##table,
enum table_id { TABLE_LIST(SCHEMA_TABLE_ID) N_TABLES };

// Numbers of the stored columns, as cells of a row count them.
#define SCHEMA_KEY_ID(table, column, doc)          COL_##table##_##column,
#define SCHEMA_COLUMN_ID(table, column, type, doc) COL_##table##_##column,
#define SCHEMA_NO_ID(table, column, type, sql, doc)
#define SCHEMA_COLUMN_IDS(table, doc)                                                              \
    enum { COLUMNS_##table(SCHEMA_KEY_ID, SCHEMA_COLUMN_ID, SCHEMA_NO_ID) N_COL_##table };
TABLE_LIST(SCHEMA_COLUMN_IDS)

enum column_type { COLUMN_INT, COLUMN_REAL, COLUMN_TEXT, COLUMN_BLOB };

struct column_def {
    const char *name;
    const char *doc;
    const char *generated; // SQL expression; NULL: stored
    enum column_type type;
    bool key;
    bool hidden; // stored, but not part of the public table
};

struct table_def {
    const char *name;
    const char *stored_name; // of the table behind the view; the same if there is no view
    const char *doc;
    const struct column_def *columns;
    size_t n_columns;
    size_t n_stored;
};

extern const struct table_def table_defs[N_TABLES];

const char *column_type_name(enum column_type type); // SQL's name

// The table called `name`, or NULL.
const struct table_def *table_def_find(const char *name);
