// SPDX-License-Identifier: Apache-2.0
//
// The stored tables: names, columns, types and meanings, in one place. The lists below make the
// DDL, the column numbers (COL_table_column), the batches and the help of `mmsql tables`. Names and
// columns are Perfetto's public names; converter/sql/ has the views that Perfetto computes.
//
// T(table, doc)
// K(table, column, doc)             the row's id, INTEGER PRIMARY KEY; always the first column
// C(table, column, type, doc)       stored; type is INT, REAL, TEXT or BLOB; hidden if the name
//                                   begins with _
// G(table, column, type, sql, doc)  computed by the view from the other columns
//
// A table with columns that are computed or hidden is stored as _NAME, and NAME is a view.
// (SQLite's own generated columns are computed at every insertion.)
//
// Times are nanoseconds of the trace clock (CLOCK_BOOTTIME unless the trace says otherwise).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/schema_android.h"
#include "converter/tables/schema_args.h"
#include "converter/tables/schema_files.h"
#include "converter/tables/schema_gpu.h"
#include "converter/tables/schema_memory.h"
#include "converter/tables/schema_profile.h"
#include "converter/tables/schema_system.h"
#include "converter/tables/schema_v8.h"

#define TABLE_LIST(T)                                                                              \
    T(clock_snapshot, "Readings of several clocks taken at one moment.")                           \
    T(counter, "Values of counters over time; join counter_track for what is counted.")            \
    T(cpu, "Processors seen in the trace.")                                                        \
    T(_cpu_freq, "Frequencies that processors can run at.")                                        \
    T(filedescriptor, "Open files of processes, where they were recorded.")                        \
    T(flow, "Arrows between slices: which slice caused which.")                                    \
    T(logs, "Lines of logs: Android's, those in track events, and systemd's journal.")             \
    T(machine, "Machines the trace comes from.")                                                   \
    T(metadata, "Facts about the trace as a whole.")                                               \
    T(process, "Processes; upid is unique in the trace, pid may be reused.")                       \
    T(sched_slice, "Which thread ran on which processor, and why it stopped.")                     \
    T(slice, "Spans of time with a name, nested per track.")                                       \
    T(spurious_sched_wakeup, "Wake-ups of threads that ran or were runnable already.")             \
    T(state, "States of tracks: each lasts until the next state of the track.")                    \
    T(stats, "How recording and conversion went: sizes, losses, problems.")                        \
    T(thread, "Threads; utid is unique in the trace, tid may be reused.")                          \
    T(thread_state, "What each thread was doing: running, runnable, sleeping.")                    \
    T(trace_bounds, "First and last moment of the trace's data.")                                  \
    T(_track_event_callstacks, "Call stacks of slices: where the program began or ended a slice.") \
    T(_track, "All tracks, with the values that the public track views select by.")                \
    ANDROID_TABLE_LIST(T)                                                                          \
    ARGS_TABLE_LIST(T)                                                                             \
    GPU_TABLE_LIST(T)                                                                              \
    MEMORY_TABLE_LIST(T)                                                                           \
    PROFILE_TABLE_LIST(T)                                                                          \
    SYSTEM_TABLE_LIST(T)                                                                           \
    V8_TABLE_LIST(T)                                                                               \
    FILE_TABLE_LIST(T)

#define COLUMNS_clock_snapshot(K, C, G)                                                            \
    K(clock_snapshot, id, "Row.")                                                                  \
    C(clock_snapshot, ts, INT, "Trace time (ns).")                                                 \
    C(clock_snapshot, clock_id, INT, "Number of the clock, as in the trace.")                      \
    C(clock_snapshot, clock_name, TEXT, "Name of the clock, if it is a well-known one.")           \
    C(clock_snapshot, clock_value, INT, "Value of this clock, in its own unit.")                   \
    C(clock_snapshot, snapshot_id, INT, "Readings of one moment share this.")                      \
    C(clock_snapshot, machine_id, INT, "Machine.")

#define COLUMNS_counter(K, C, G)                                                                   \
    K(counter, id, "Row.")                                                                         \
    C(counter, ts, INT, "Time (ns).")                                                              \
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

#define COLUMNS__cpu_freq(K, C, G)                                                                 \
    K(_cpu_freq, id, "Row.")                                                                       \
    C(_cpu_freq, ucpu, INT, "Processor, see cpu.id.")                                              \
    C(_cpu_freq, freq, INT, "Frequency (kHz).")

#define COLUMNS_filedescriptor(K, C, G)                                                            \
    K(filedescriptor, id, "Row.")                                                                  \
    G(filedescriptor, ufd, INT, "id", "The same as id.")                                           \
    C(filedescriptor, fd, INT, "Number of the file descriptor.")                                   \
    C(filedescriptor, ts, INT, "Time (ns).")                                                       \
    C(filedescriptor, upid, INT, "Process.")                                                       \
    C(filedescriptor, path, TEXT, "File.")

#define COLUMNS_flow(K, C, G)                                                                      \
    K(flow, id, "Row.")                                                                            \
    C(flow, slice_out, INT, "Slice where the arrow starts.")                                       \
    C(flow, slice_in, INT, "Slice where the arrow ends.")                                          \
    C(flow, trace_id, INT, "Number of the flow in the trace.")                                     \
    C(flow, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_logs(K, C, G)                                                                      \
    K(logs, id, "Row.")                                                                            \
    C(logs, ts, INT, "Time (ns).")                                                                 \
    C(logs, utid, INT, "Thread that wrote the line.")                                              \
    C(logs, prio, INT,                                                                             \
      "Priority; its meaning depends on the source: see android_logs, "                            \
      "linux_systemd_journald_logs.")                                                              \
    C(logs, log_source, TEXT, "android_logcat or systemd_journald.")                               \
    C(logs, tag, TEXT, "Tag, or place in the source.")                                             \
    C(logs, msg, TEXT, "Message.")                                                                 \
    C(logs, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_machine(K, C, G)                                                                   \
    K(machine, id, "Unique number of the machine.")                                                \
    C(machine, raw_id, INT, "Number of the machine in the trace.")                                 \
    C(machine, name, TEXT, "Name of the machine in the trace.")                                    \
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

#define COLUMNS_metadata(K, C, G)                                                                  \
    K(metadata, id, "Row.")                                                                        \
    C(metadata, name, TEXT, "Subject of the value.")                                               \
    C(metadata, key_type, TEXT, "single: one row has this name; multi: there may be more.")        \
    C(metadata, int_value, INT, "The value, if it is a number.")                                   \
    C(metadata, str_value, TEXT, "The value, if it is a text.")                                    \
    C(metadata, machine_id, INT, "Machine, if the row is about one machine.")                      \
    C(metadata, trace_id, INT, "Trace, if the row is about one trace.")

#define COLUMNS_process(K, C, G)                                                                   \
    K(process, upid, "Unique number of the process in this trace.")                                \
    G(process, id, INT, "upid", "The same as upid.")                                               \
    C(process, pid, INT, "Process id; may be reused.")                                             \
    C(process, name, TEXT, "Name.")                                                                \
    C(process, start_ts, INT, "Start (ns), if the trace has it.")                                  \
    C(process, end_ts, INT, "End (ns), if the trace has it.")                                      \
    C(process, parent_upid, INT, "Parent process.")                                                \
    C(process, uid, INT, "User id.")                                                               \
    C(process, android_appid, INT, "Android application id, made from uid.")                       \
    C(process, android_user_id, INT, "Android user, made from uid.")                               \
    C(process, cmdline, TEXT, "Command line.")                                                     \
    C(process, arg_set_id, INT, "Further values, see args.")                                       \
    C(process, machine_id, INT, "Machine.")

#define COLUMNS_sched_slice(K, C, G)                                                               \
    K(sched_slice, id, "Row.")                                                                     \
    C(sched_slice, ts, INT, "When the thread began to run (ns).")                                  \
    C(sched_slice, dur, INT, "How long the thread ran (ns); -1: to the end of the trace.")         \
    G(sched_slice, cpu, INT, "ucpu & 4095", "Processor.")                                          \
    C(sched_slice, utid, INT, "Thread.")                                                           \
    C(sched_slice, end_state, TEXT,                                                                \
      "State after the slice: R runnable, S sleeping, D blocked, ...")                             \
    C(sched_slice, priority, INT, "The kernel's priority; 120 is usual, lower numbers run first.") \
    C(sched_slice, ucpu, INT, "Processor, see cpu.id.")

#define COLUMNS_slice(K, C, G)                                                                     \
    K(slice, id, "Row.")                                                                           \
    C(slice, ts, INT, "Start (ns).")                                                               \
    C(slice, dur, INT, "Duration (ns); 0: a moment; -1: the slice did not end.")                   \
    C(slice, track_id, INT, "Track.")                                                              \
    C(slice, category, TEXT, "Category.")                                                          \
    C(slice, name, TEXT, "Name.")                                                                  \
    C(slice, depth, INT, "Depth of nesting; 0 is the outermost.")                                  \
    C(slice, parent_id, INT, "Parent slice.")                                                      \
    C(slice, arg_set_id, INT, "Further values, see args.")                                         \
    C(slice, thread_ts, INT, "CPU time of the thread at the start of the slice (ns).")             \
    C(slice, thread_dur, INT, "CPU time of the thread during the slice (ns).")                     \
    C(slice, thread_instruction_count, INT,                                                        \
      "Instructions of the thread at the start of the slice.")                                     \
    C(slice, thread_instruction_delta, INT, "Instructions of the thread during the slice.")        \
    G(slice, cat, TEXT, "category", "The same as category.")                                       \
    G(slice, slice_id, INT, "id", "The same as id.")

#define COLUMNS_state(K, C, G)                                                                     \
    K(state, id, "Row.")                                                                           \
    C(state, ts, INT, "When the state began (ns).")                                                \
    C(state, dur, INT, "How long the state lasted (ns); -1: to the end of the trace.")             \
    C(state, track_id, INT, "Track, see state_track.")                                             \
    C(state, category, TEXT, "Category.")                                                          \
    C(state, value, TEXT, "Name of the state.")                                                    \
    C(state, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_stats(K, C, G)                                                                     \
    K(stats, id, "Row.")                                                                           \
    C(stats, name, TEXT, "Counted quantity.")                                                      \
    C(stats, key, INT, "Number of the name.")                                                      \
    C(stats, idx, INT, "Processor or buffer of the value, if there is one.")                       \
    C(stats, severity, TEXT, "info, notice, data_loss or error.")                                  \
    C(stats, source, TEXT, "trace: recorded; analysis: found while converting.")                   \
    C(stats, value, INT, "Value.")                                                                 \
    C(stats, description, TEXT, "Meaning.")                                                        \
    C(stats, machine_id, INT, "Machine.")                                                          \
    C(stats, trace_id, INT, "Trace.")

#define COLUMNS_thread(K, C, G)                                                                    \
    K(thread, utid, "Unique number of the thread in this trace.")                                  \
    G(thread, id, INT, "utid", "The same as utid.")                                                \
    C(thread, tid, INT, "Thread id; may be reused.")                                               \
    C(thread, name, TEXT, "Name.")                                                                 \
    C(thread, start_ts, INT, "Start (ns), if the trace has it.")                                   \
    C(thread, end_ts, INT, "End (ns), if the trace has it.")                                       \
    C(thread, upid, INT, "Process of the thread, if known.")                                       \
    C(thread, is_main_thread, INT, "1 if the thread is the first of its process.")                 \
    C(thread, is_idle, INT, "1 if the thread stands for an idle processor.")                       \
    C(thread, machine_id, INT, "Machine.")                                                         \
    C(thread, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_spurious_sched_wakeup(K, C, G)                                                     \
    K(spurious_sched_wakeup, id, "Row.")                                                           \
    C(spurious_sched_wakeup, ts, INT, "Time (ns).")                                                \
    C(spurious_sched_wakeup, thread_state_id, INT, "State that the thread was in.")                \
    C(spurious_sched_wakeup, irq_context, INT, "1 if an interrupt woke the thread.")               \
    C(spurious_sched_wakeup, utid, INT, "Thread.")                                                 \
    C(spurious_sched_wakeup, waker_utid, INT, "Thread that woke this thread.")

#define COLUMNS_thread_state(K, C, G)                                                              \
    K(thread_state, id, "Row.")                                                                    \
    C(thread_state, ts, INT, "When the state began (ns).")                                         \
    C(thread_state, dur, INT, "How long the state lasted (ns); -1: to the end of the trace.")      \
    G(thread_state, cpu, INT, "ucpu & 4095", "Processor, while running.")                          \
    C(thread_state, utid, INT, "Thread.")                                                          \
    C(thread_state, state, TEXT, "Running, R runnable, S sleeping, D uninterruptible, ...")        \
    C(thread_state, io_wait, INT, "1 if the thread waited for a disk.")                            \
    C(thread_state, blocked_function, TEXT, "Kernel function that the thread waited in.")          \
    C(thread_state, waker_utid, INT, "Thread that woke this thread.")                              \
    C(thread_state, waker_id, INT, "State of the waker, see thread_state.id.")                     \
    C(thread_state, irq_context, INT, "1 if an interrupt woke the thread.")                        \
    C(thread_state, ucpu, INT, "Processor, see cpu.id.")

#define COLUMNS_trace_bounds(K, C, G)                                                              \
    C(trace_bounds, start_ts, INT, "First moment with data (ns).")                                 \
    C(trace_bounds, end_ts, INT, "Last moment with data (ns).")

#define COLUMNS__track(K, C, G)                                                                    \
    K(_track, id, "Track.")                                                                        \
    C(_track, name, TEXT, "Name.")                                                                 \
    C(_track, type, TEXT, "Kind of track, by its source.")                                         \
    C(_track, dimension_arg_set_id, INT,                                                           \
      "Dimensions that distinguish tracks of one type, see args.")                                 \
    C(_track, parent_id, INT, "Parent track.")                                                     \
    C(_track, source_arg_set_id, INT, "Further values, see args.")                                 \
    C(_track, machine_id, INT, "Machine.")                                                         \
    C(_track, track_group_id, INT, "Tracks that are shown as one share this.")                     \
    C(_track, is_counter, INT, "1 for counters, 0 for slices, NULL for states.")                   \
    C(_track, unit, TEXT, "Unit of the counter's values.")                                         \
    C(_track, description, TEXT, "Description of the track.")                                      \
    C(_track, upid, INT, "Process of the track.")                                                  \
    C(_track, utid, INT, "Thread of the track.")                                                   \
    C(_track, cpu, INT, "Processor of the track.")

#define COLUMNS__track_event_callstacks(K, C, G)                                                   \
    K(_track_event_callstacks, id, "Row.")                                                         \
    C(_track_event_callstacks, slice_id, INT, "Slice.")                                            \
    C(_track_event_callstacks, track_id, INT, "Track of the slice.")                               \
    C(_track_event_callstacks, callsite_id, INT, "Call stack at the start.")                       \
    C(_track_event_callstacks, end_callsite_id, INT, "Call stack at the end.")                     \
    C(_track_event_callstacks, weight, REAL, "Weight that the program gave to the call stack.")

#define SCHEMA_TABLE_ID(table, doc) TABLE_##table,
enum table_id { TABLE_LIST(SCHEMA_TABLE_ID) N_TABLES };

// Numbers of the stored columns: indexes of a row's cells.
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
    const char *stored_name; // name of the table behind the view; `name` if there is no view
    const char *doc;
    const struct column_def *columns;
    size_t n_columns;
    size_t n_stored;
};

extern const struct table_def table_defs[N_TABLES];

const char *column_type_name(enum column_type type); // SQL's name

// Returns the table called `name`, or NULL.
const struct table_def *table_def_find(const char *name);
