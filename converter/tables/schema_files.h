// SPDX-License-Identifier: Apache-2.0
//
// The tables of traces, and of the other files that a database is made from. schema.h explains the
// lists.
#pragma once

#define FILE_TABLE_LIST(T)                                                                         \
    T(alloc_log, "Logs of Java allocations (tiallocsample).")                                      \
    T(alloc_log_frame, "Methods in the stacks of allocation logs.")                                \
    T(alloc_log_record, "Combinations of thread, type and size that allocation logs sample.")      \
    T(alloc_log_stack, "Call stacks of allocation logs, and how often each was sampled.")          \
    T(_alloc_log_stack_frame,                                                                      \
      "The methods of the stacks of allocation logs, one stack after the other.")                  \
    T(input_file, "The files that this database is made from; no file is loaded twice.")           \
    T(kernel_log, "The kernel log of the minutes before a bugreport (kernel.log).")                \
    T(mmsql_schema,                                                                                \
      "Tables, views and columns of the database: types, units, and what they mean.")              \
    T(perf_map, "Files in which a runtime names the code that it made (perf-PID.map).")            \
    T(perf_map_code,                                                                               \
      "Times at which runtimes made and gave up code, if recorded (perf-PID.map.times).")          \
    T(perf_map_frame, "Frames that fall into code named by a map.")                                \
    T(perf_map_symbol, "Addresses and names of perf maps.")                                        \
    T(pinconfig, "Lists of files and ranges to pin, as a build has them (pinconfig.txt).")         \
    T(pinconfig_rule, "Files and ranges that a pinconfig wants.")                                  \
    T(pinlist, "Lists of pages that are pinned (pinlist.meta).")                                   \
    T(pinlist_range, "The ranges of pinlists.")                                                    \
    T(proc_buddyinfo, "Free blocks of memory by zone and size at one moment (/proc/buddyinfo).")   \
    T(proc_meminfo, "Memory of the machine at one moment (/proc/meminfo).")                        \
    T(proc_pressure, "Time that tasks waited for a resource, at one moment (/proc/pressure).")     \
    T(proc_slabinfo, "Kernel objects by kind at one moment (/proc/slabinfo).")                     \
    T(proc_snapshot,                                                                               \
      "Moments at which files of /proc were read: a bugreport, or a folder of such files.")        \
    T(proc_swap, "Swap areas at one moment (/proc/swaps).")                                        \
    T(proc_vmstat, "Counters of memory management at one moment (/proc/vmstat).")                  \
    T(proc_zoneinfo, "Watermarks and counters of zones at one moment (/proc/zoneinfo).")           \
    T(trace, "The traces in this database.")                                                       \
    T(trace_machine, "Machines of each trace. No two traces share a machine, so machine_id "       \
                     "distinguishes their rows.")                                                  \
    T(verdict, "The verdict on each trace: at most five sentences, the most important first.")

#define COLUMNS_alloc_log(K, C, G)                                                                 \
    K(alloc_log, id, "Row.")                                                                       \
    C(alloc_log, path, TEXT, "File.")                                                              \
    C(alloc_log, n_samples, INT, "Number of samples in the log.")                                  \
    C(alloc_log, n_bad_lines, INT, "Lines that could not be read; left out.")

#define COLUMNS_alloc_log_frame(K, C, G)                                                           \
    K(alloc_log_frame, id, "Row.")                                                                 \
    C(alloc_log_frame, alloc_log_id, INT, "Log, see alloc_log.")                                   \
    C(alloc_log_frame, key, INT, "Number of the frame in the log.")                                \
    C(alloc_log_frame, name, TEXT, "Method, as the log spells it.")

#define COLUMNS_alloc_log_record(K, C, G)                                                          \
    K(alloc_log_record, id, "Row.")                                                                \
    C(alloc_log_record, alloc_log_id, INT, "Log, see alloc_log.")                                  \
    C(alloc_log_record, key, INT, "Number of the record in the log.")                              \
    C(alloc_log_record, thread_name, TEXT, "Thread.")                                              \
    C(alloc_log_record, type, TEXT, "Type of the object, as a JVM signature.")                     \
    C(alloc_log_record, file, TEXT, "Source file of the type, if known.")                          \
    C(alloc_log_record, size_bytes, INT, "Size of the object (bytes).")

#define COLUMNS_alloc_log_stack(K, C, G)                                                           \
    K(alloc_log_stack, id, "Row.")                                                                 \
    C(alloc_log_stack, alloc_log_id, INT, "Log, see alloc_log.")                                   \
    C(alloc_log_stack, key, INT, "Number of the stack in the log.")                                \
    C(alloc_log_stack, record_id, INT, "Thread, type and size, see alloc_log_record.")             \
    C(alloc_log_stack, first_frame, INT,                                                           \
      "Outermost method of the stack, see alloc_log_stack_frame; the other methods follow there.") \
    C(alloc_log_stack, n_frames, INT, "Number of methods in the stack.")                           \
    C(alloc_log_stack, n_samples, INT, "Number of samples of the stack.")

#define COLUMNS__alloc_log_stack_frame(K, C, G)                                                    \
    K(_alloc_log_stack_frame, id, "Row.")                                                          \
    C(_alloc_log_stack_frame, frame_id, INT, "Method, see alloc_log_frame.")

#define COLUMNS_input_file(K, C, G)                                                                \
    K(input_file, id, "Row, in the order of loading.")                                             \
    C(input_file, path, TEXT, "Name of the file; archive!name for a file in an archive.")          \
    C(input_file, format, TEXT, "Kind: trace, archive, perf map, pinlist and others.")             \
    C(input_file, argument, TEXT, "The argument on the command line: the target of a pinlist.")    \
    C(input_file, size_bytes, INT,                                                                 \
      "Size, inflated (bytes); for an archive, the size of the archive.")                          \
    C(input_file, content_hash, TEXT, "Hash of the file's bytes, 64 bits in hexadecimal.")         \
    C(input_file, trace_id, INT, "Trace, see trace; NULL: the file is not a trace.")

#define COLUMNS_mmsql_schema(K, C, G)                                                              \
    K(mmsql_schema, id, "Row.")                                                                    \
    C(mmsql_schema, table_name, TEXT, "Table or view.")                                            \
    C(mmsql_schema, kind, TEXT, "table, or view.")                                                 \
    C(mmsql_schema, column_name, TEXT, "Column; NULL: the row is about the table or view.")        \
    C(mmsql_schema, type, TEXT, "SQLite's type of the values.")                                    \
    C(mmsql_schema, unit, TEXT, "Unit of the values, where they have one.")                        \
    C(mmsql_schema, refers_table, TEXT, "Table or view whose rows the numbers refer to.")          \
    C(mmsql_schema, refers_column, TEXT, "Column of that table.")                                  \
    C(mmsql_schema, doc, TEXT, "Meaning of the table or column.")

#define COLUMNS_kernel_log(K, C, G)                                                                \
    K(kernel_log, id, "Row, in the order of the log.")                                             \
    C(kernel_log, proc_snapshot_id, INT, "Bugreport, see proc_snapshot.")                          \
    C(kernel_log, monotonic_ns, INT,                                                               \
      "Time since boot (ns), without the time that the machine slept.")                            \
    C(kernel_log, level, INT, "0 (emergency) to 7 (debug), 3 is an error.")                        \
    C(kernel_log, text, TEXT, "The line.")

#define COLUMNS_perf_map(K, C, G)                                                                  \
    K(perf_map, id, "Row.")                                                                        \
    C(perf_map, path, TEXT, "File; [v8 code]: the names come from V8, see jit_code.")              \
    C(perf_map, pid, INT, "Process id, from the file's name.")                                     \
    C(perf_map, upid, INT, "Process with that pid, if known.")                                     \
    C(perf_map, n_symbols, INT, "Number of symbols in the map.")                                   \
    C(perf_map, n_bad_lines, INT, "Lines that could not be read; left out.")

#define COLUMNS_perf_map_code(K, C, G)                                                             \
    C(perf_map_code, perf_map_id, INT, "Map, see perf_map.")                                       \
    C(perf_map_code, ts, INT, "Time (ns); NULL: before the runtime wrote times.")                  \
    C(perf_map_code, start, INT, "First address of the code.")                                     \
    C(perf_map_code, size, INT,                                                                    \
      "Size of the code that was made (bytes); NULL: the code was given up.")

#define COLUMNS_perf_map_frame(K, C, G)                                                            \
    C(perf_map_frame, upid, INT, "Process.")                                                       \
    C(perf_map_frame, frame_id, INT, "Frame, see stack_profile_frame.")                            \
    C(perf_map_frame, symbol_id, INT, "Symbol of the frame, see perf_map_symbol.")                 \
    C(perf_map_frame, first_ts, INT, "First sample that the name holds for (ns).")                 \
    C(perf_map_frame, last_ts, INT, "Last sample that the name holds for (ns).")

#define COLUMNS_perf_map_symbol(K, C, G)                                                           \
    K(perf_map_symbol, id, "Row.")                                                                 \
    C(perf_map_symbol, perf_map_id, INT, "Map, see perf_map.")                                     \
    C(perf_map_symbol, start, INT, "First address.")                                               \
    C(perf_map_symbol, size, INT, "Size of the code (bytes).")                                     \
    C(perf_map_symbol, name, TEXT, "Function.")                                                    \
    C(perf_map_symbol, first_ts, INT,                                                              \
      "When the code was made, or the line first seen (ns), if known.")                            \
    C(perf_map_symbol, last_ts, INT, "When the code was given up (ns), if known.")                 \
    C(perf_map_symbol, jit_code_id, INT, "Code, see jit_code; only for code of V8.")

#define COLUMNS_pinconfig(K, C, G)                                                                 \
    K(pinconfig, id, "Row.")                                                                       \
    C(pinconfig, path, TEXT, "File.")

#define COLUMNS_pinconfig_rule(K, C, G)                                                            \
    K(pinconfig_rule, id, "Row, in the order of the file.")                                        \
    C(pinconfig_rule, pinconfig_id, INT, "File of the rule, see pinconfig.")                       \
    C(pinconfig_rule, line, INT, "Line of the file.")                                              \
    C(pinconfig_rule, pattern, TEXT, "Text that the names of files in an archive contain.")        \
    C(pinconfig_rule, offset_bytes, INT,                                                           \
      "Start of a range in the file of the archive; NULL: the whole file.")                        \
    C(pinconfig_rule, size_bytes, INT, "Size of the range.")

#define COLUMNS_pinlist(K, C, G)                                                                   \
    K(pinlist, id, "Row.")                                                                         \
    C(pinlist, path, TEXT, "File that holds the list.")                                            \
    C(pinlist, target, TEXT, "File whose pages the list names, if given.")                         \
    C(pinlist, n_ranges, INT, "Number of ranges in the list.")                                     \
    C(pinlist, size_bytes, INT, "Sum of the sizes of the ranges.")

#define COLUMNS_pinlist_range(K, C, G)                                                             \
    K(pinlist_range, id, "Row, in the order of the file.")                                         \
    C(pinlist_range, pinlist_id, INT, "List, see pinlist.")                                        \
    C(pinlist_range, offset_bytes, INT, "First byte in the target.")                               \
    C(pinlist_range, size_bytes, INT, "Size (bytes).")

#define COLUMNS_proc_buddyinfo(K, C, G)                                                            \
    C(proc_buddyinfo, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                         \
    C(proc_buddyinfo, node, INT, "Node.")                                                          \
    C(proc_buddyinfo, zone, TEXT, "Zone.")                                                         \
    C(proc_buddyinfo, page_order, INT, "Size of a block: 2 to the power of page_order, in pages.") \
    C(proc_buddyinfo, n_free, INT, "Free blocks.")                                                 \
    C(proc_buddyinfo, n_pages, INT, "Pages in the free blocks.")

#define COLUMNS_proc_meminfo(K, C, G)                                                              \
    C(proc_meminfo, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                           \
    C(proc_meminfo, name, TEXT, "The kernel's name of the value: MemAvailable.")                   \
    C(proc_meminfo, size_bytes, INT, "Size (bytes).")                                              \
    C(proc_meminfo, n_pages, INT, "Count, for values without a size, such as huge pages.")

#define COLUMNS_proc_pressure(K, C, G)                                                             \
    C(proc_pressure, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                          \
    C(proc_pressure, resource, TEXT, "memory, cpu, io or irq.")                                    \
    C(proc_pressure, kind, TEXT, "some: at least one task waited; full: all tasks waited.")        \
    C(proc_pressure, avg10, REAL, "Share of the last 10 s (percent).")                             \
    C(proc_pressure, avg60, REAL, "Share of the last minute (percent).")                           \
    C(proc_pressure, avg300, REAL, "Share of the last five minutes (percent).")                    \
    C(proc_pressure, total_ns, INT, "Total since boot (ns).")

#define COLUMNS_proc_slabinfo(K, C, G)                                                             \
    C(proc_slabinfo, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                          \
    C(proc_slabinfo, name, TEXT, "Kind of object.")                                                \
    C(proc_slabinfo, n_active_objects, INT, "Objects in use.")                                     \
    C(proc_slabinfo, n_objects, INT, "Objects that fit into the slabs.")                           \
    C(proc_slabinfo, object_size_bytes, INT, "Size of an object (bytes).")                         \
    C(proc_slabinfo, objects_per_slab, INT, "Objects in a slab.")                                  \
    C(proc_slabinfo, pages_per_slab, INT, "Pages of a slab.")                                      \
    C(proc_slabinfo, n_active_slabs, INT, "Slabs with objects in use.")                            \
    C(proc_slabinfo, n_slabs, INT, "Slabs; n_slabs times pages_per_slab is the memory.")

#define COLUMNS_proc_snapshot(K, C, G)                                                             \
    K(proc_snapshot, id, "Row.")                                                                   \
    C(proc_snapshot, path, TEXT,                                                                   \
      "Bugreport or folder; paths of traces in a bugreport have this path before a !.")            \
    C(proc_snapshot, ts, INT, "Trace time (ns), if the report has it.")                            \
    C(proc_snapshot, realtime_ns, INT, "Time since 1970 (ns), if the report has it.")              \
    C(proc_snapshot, host, TEXT, "Name of the machine.")                                           \
    C(proc_snapshot, kernel, TEXT, "Kernel of the machine.")                                       \
    C(proc_snapshot, program, TEXT, "Program that made the report.")

#define COLUMNS_proc_swap(K, C, G)                                                                 \
    C(proc_swap, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                              \
    C(proc_swap, path, TEXT, "Device or file.")                                                    \
    C(proc_swap, type, TEXT, "partition or file.")                                                 \
    C(proc_swap, size_bytes, INT, "Size (bytes).")                                                 \
    C(proc_swap, used_bytes, INT, "Part of size_bytes in use (bytes).")                            \
    C(proc_swap, priority, INT, "Areas with a higher priority are filled first.")

#define COLUMNS_proc_vmstat(K, C, G)                                                               \
    C(proc_vmstat, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                            \
    C(proc_vmstat, name, TEXT, "Counter, as the kernel calls it.")                                 \
    C(proc_vmstat, value, INT, "nr_*: pages now; others: events or pages since boot.")

#define COLUMNS_proc_zoneinfo(K, C, G)                                                             \
    C(proc_zoneinfo, proc_snapshot_id, INT, "Moment, see proc_snapshot.")                          \
    C(proc_zoneinfo, node, INT, "Node.")                                                           \
    C(proc_zoneinfo, zone, TEXT, "Zone; NULL: of the whole node.")                                 \
    C(proc_zoneinfo, cpu, INT, "Processor of the list of free pages; NULL: none.")                 \
    C(proc_zoneinfo, name, TEXT, "The kernel's name of the value: free, min, low, high.")          \
    C(proc_zoneinfo, value, INT, "Pages; counters of allocations (numa_*): events since boot.")

#define COLUMNS_trace(K, C, G)                                                                     \
    K(trace, id, "Row; trace_id of other tables.")                                                 \
    C(trace, path, TEXT, "Name of the file; archive!name for a trace in an archive.")              \
    C(trace, uuid, TEXT,                                                                           \
      "Name of the recording, if it has one; snapshots of one session share the second half.")     \
    C(trace, size_bytes, INT, "Size, inflated (bytes).")                                           \
    C(trace, n_packets, INT, "Number of packets in the trace.")                                    \
    C(trace, start_ts, INT, "First moment with data (ns), in the time of the other tables.")       \
    C(trace, end_ts, INT, "Last moment with data (ns).")                                           \
    C(trace, recorded_ts, INT, "Start of the recording (ns), also if the first data come later.")  \
    C(trace, recorded_end_ts, INT,                                                                 \
      "End of the recording (ns), also if the last data come earlier.")                            \
    C(trace, ts_shift, INT, "Shift of the trace's times onto the clock of the first trace (ns).")  \
    C(trace, realtime_offset, INT,                                                                 \
      "Real time minus trace time (ns); NULL if the trace has no real time.")

#define COLUMNS_trace_machine(K, C, G)                                                             \
    C(trace_machine, trace_id, INT, "Trace.")                                                      \
    C(trace_machine, machine_id, INT, "Machine, as in process, thread, cpu and the tracks.")

#define COLUMNS_verdict(K, C, G)                                                                   \
    K(verdict, id, "Row, in order of traces and importance.")                                      \
    C(verdict, trace_id, INT, "Trace.")                                                            \
    C(verdict, kind, TEXT, "kill, loss, pressure, stall, growth, return or quiet.")                \
    C(verdict, severity, TEXT, "critical, warning, notice or info.")                               \
    C(verdict, ts, INT, "Start (ns); NULL: the sentence has no time.")                             \
    C(verdict, dur, INT, "Duration (ns).")                                                         \
    C(verdict, text, TEXT, "The sentence.")                                                        \
    C(verdict, query, TEXT, "SQL that shows the rows behind the sentence.")
