// SPDX-License-Identifier: Apache-2.0
//
// Invariant: the list below has every column whose name could be that of an id. A unit test checks
// the list. A number that the kernel or the trace chose is PLAIN.
#include "converter/tables/meaning.h"

#include "common/elements.h"
#include "common/str.h"
#include "converter/sql/sql.h"

#define ANY(column, sense)                                                                         \
    {                                                                                              \
        NULL, column, SENSE_##sense, 0                                                             \
    }
#define ANY_ROW(column, target)                                                                    \
    {                                                                                              \
        NULL, column, SENSE_ROW, TABLE_##target                                                    \
    }
#define OWN(table, column, sense)                                                                  \
    {                                                                                              \
#table, column, SENSE_##sense, 0                                                           \
    }
#define OWN_ROW(table, column, target)                                                             \
    {                                                                                              \
#table, column, SENSE_ROW, TABLE_##target                                                  \
    }
#define OWN_SPACE(column, home)                                                                    \
    {                                                                                              \
        NULL, column, SENSE_SPACE, TABLE_##home                                                    \
    }

// If several rows match a column, the first row counts.
static const struct column_meaning meanings[] = {
    OWN(flow, "trace_id", PLAIN),
    OWN(cpu, "id", UCPU),
    OWN(machine, "id", MACHINE),
    OWN(machine, "raw_id", PLAIN),
    OWN(trace, "id", TRACE),
    OWN(clock_snapshot, "clock_id", PLAIN),
    OWN(cpu, "cluster_id", PLAIN),
    OWN(linux_interrupt_mapping, "irq_id", PLAIN),
    ANY("pid", PLAIN),
    ANY("tid", PLAIN),
    ANY("thread_ts", PLAIN),
    OWN(process, "android_appid", PLAIN),
    ANY("android_user_id", PLAIN),
    ANY("build_id", PLAIN),
    ANY("internal_isolate_id", PLAIN),
    ANY("internal_script_id", PLAIN),
    OWN(gpu_counter_group, "group_id", PLAIN),
    OWN(profiler_smaps, "module_timestamp", PLAIN),
    OWN_ROW(_profiler_async_context, "parent_id", _profiler_async_context),
    OWN_ROW(_track, "parent_id", _track),
    OWN_ROW(slice, "parent_id", slice),
    OWN_ROW(stack_profile_callsite, "parent_id", stack_profile_callsite),
    OWN_ROW(stack_profile_callsite, "frame_id", stack_profile_frame),
    OWN_ROW(stack_profile_frame, "mapping", stack_profile_mapping),
    OWN_ROW(alloc_log_stack, "first_frame", _alloc_log_stack_frame),
    OWN_ROW(_alloc_log_stack_frame, "frame_id", alloc_log_frame),
    OWN_ROW(perf_map_frame, "frame_id", stack_profile_frame),
    OWN_ROW(process_memory_snapshot, "snapshot_id", memory_snapshot),
    OWN_ROW(memory_snapshot_node, "process_snapshot_id", process_memory_snapshot),
    ANY_ROW("parent_node_id", memory_snapshot_node),
    ANY_ROW("source_node_id", memory_snapshot_node),
    ANY_ROW("target_node_id", memory_snapshot_node),
    OWN_ROW(heap_graph_object, "type_id", heap_graph_class),
    OWN_ROW(_network_packet, "slice_id", slice),
    OWN_ROW(_track_event_callstacks, "slice_id", slice),
    OWN_ROW(_track_event_callstacks, "end_callsite_id", stack_profile_callsite),
    OWN_ROW(heap_graph_class, "superclass_id", heap_graph_class),
    OWN_ROW(heap_graph_class, "classloader_id", heap_graph_object),
    ANY_ROW("owner_id", heap_graph_object),
    ANY_ROW("owned_id", heap_graph_object),
    ANY_ROW("reference_set_id", heap_graph_reference),
    ANY_ROW("object_data_id", heap_graph_object_data),
    ANY_ROW("field_set_id", heap_graph_primitive),
    OWN(heap_graph_object_data, "array_data_id", PLAIN),
    ANY("graph_sample_ts", TIME),
    ANY("ts", TIME),
    ANY("ts_end", TIME),
    ANY("start_ts", TIME),
    ANY("end_ts", TIME),
    ANY("recorded_ts", TIME),
    ANY("recorded_end_ts", TIME),
    ANY("first_ts", TIME),
    ANY("last_ts", TIME),
    ANY("gone_ts", TIME),
    ANY("timestamp", TIME),
    ANY("create_ts", TIME),
    ANY("estimated_delete_ts", TIME),
    ANY_ROW("heap_graph_id", heap_graph),
    ANY_ROW("jit_code_id", jit_code),
    ANY_ROW("v8_isolate_id", v8_isolate),
    ANY_ROW("v8_js_function_id", v8_js_function),
    ANY_ROW("v8_js_script_id", v8_js_script),
    ANY_ROW("v8_wasm_script_id", v8_wasm_script),
    ANY_ROW("arg_set_id", _arg_set),
    ANY_ROW("source_arg_set_id", _arg_set),
    ANY_ROW("dimension_arg_set_id", _arg_set),
    ANY_ROW("kind_id", _arg_kind),
    ANY("machine_id", MACHINE),
    ANY("ucpu", UCPU),
    ANY("trace_id", TRACE),
    ANY_ROW("upid", process),
    ANY_ROW("parent_upid", process),
    ANY_ROW("utid", thread),
    ANY_ROW("waker_utid", thread),
    ANY_ROW("waker_id", thread_state),
    ANY_ROW("thread_state_id", thread_state),
    ANY_ROW("track_id", _track),
    ANY_ROW("slice_out", slice),
    ANY_ROW("slice_in", slice),
    ANY_ROW("callsite_id", stack_profile_callsite),
    ANY_ROW("file_id", page_residency_file),
    ANY_ROW("sample_id", page_residency_sample),
    ANY_ROW("first_sample_id", page_residency_sample),
    ANY_ROW("last_sample_id", page_residency_sample),
    ANY_ROW("task_context_id", _profiler_task_context),
    ANY_ROW("execution_context_id", _profiler_execution_context),
    ANY_ROW("async_context_id", _profiler_async_context),
    ANY_ROW("session_id", _profiler_session),
    ANY_ROW("counter_id", counter),
    ANY_ROW("perf_map_id", perf_map),
    ANY_ROW("symbol_id", perf_map_symbol),
    ANY_ROW("alloc_log_id", alloc_log),
    ANY_ROW("record_id", alloc_log_record),
    ANY_ROW("stack_id", alloc_log_stack),
    ANY_ROW("pinlist_id", pinlist),
    ANY_ROW("pinconfig_id", pinconfig),
    ANY_ROW("proc_snapshot_id", proc_snapshot),
    OWN_SPACE("snapshot_id", clock_snapshot),
    OWN_SPACE("symbol_set_id", stack_profile_symbol),
    OWN_SPACE("counter_set_id", _profiler_counter_set),
    OWN_SPACE("track_group_id", _track),
};

static bool could_be_id(const char *name)
{
    return str_ends_with(name, "_id") || str_ends_with(name, "_ts") || str_ends_with(name, "pid") ||
           str_ends_with(name, "tid");
}

// Compares two names, mostly without a call: the list is searched for each column of the schema.
static bool names_equal(const char *a, const char *b)
{
    return a[0] == b[0] && str_eq(a, b);
}

// Returns the row of the list for a column, or NULL.
static const struct column_meaning *meaning_find(enum table_id table,
                                                 const struct column_def *column)
{
    for (size_t i = 0; i < ELEMENTS(meanings); i++)
        if (names_equal(meanings[i].column, column->name) &&
            (!meanings[i].table || str_eq(meanings[i].table, table_defs[table].name)))
            if (!column->key || meanings[i].sense != SENSE_ROW)
                return &meanings[i];
    return NULL;
}

bool column_lacks_meaning(enum table_id table, const struct column_def *column)
{
    return !column->generated && !column->key && could_be_id(column->name) &&
           !meaning_find(table, column);
}

struct column_meaning column_meaning_of(enum table_id table, const struct column_def *column)
{
    const struct column_meaning *found = meaning_find(table, column);
    if (found)
        return *found;
    return (struct column_meaning){.sense = column->key ? SENSE_ID : SENSE_PLAIN};
}

// Returns the meaning of a column of a view. The column has the name of the stored column that it
// shows.
static struct column_meaning meaning_of_name(const char *column)
{
    for (size_t i = 0; i < ELEMENTS(meanings); i++)
        if (!meanings[i].table && names_equal(meanings[i].column, column))
            return meanings[i];
    return (struct column_meaning){.sense = SENSE_PLAIN};
}

static struct column_meaning meaning_of(const struct table_def *def, const char *column)
{
    for (size_t i = 0; def && i < def->n_columns; i++)
        if (names_equal(def->columns[i].name, column))
            return column_meaning_of((enum table_id)(def - table_defs), &def->columns[i]);
    return meaning_of_name(column);
}

// Returns the name of the view that shows an internal table, or NULL.
static const char *public_name(const char *name)
{
    if (name[0] != '_')
        return name;
    for (const struct sql_view *view = sql_views; view->name; view++)
        if (names_equal(view->name, name + 1))
            return view->name;
    return NULL;
}

const char *column_refers_to(const struct table_def *def, const char *column, const char **ret_key)
{
    struct column_meaning meaning = meaning_of(def, column);
    const struct table_def *of = &table_defs[meaning.of];
    switch (meaning.sense) {
    case SENSE_MACHINE:
        *ret_key = "id";
        return def == &table_defs[TABLE_machine] ? NULL : "machine";
    case SENSE_UCPU:
        *ret_key = "ucpu";
        return def == &table_defs[TABLE_cpu] ? NULL : "cpu";
    case SENSE_TRACE:
        *ret_key = "id";
        return def == &table_defs[TABLE_trace] ? NULL : "trace";
    case SENSE_ROW:
        *ret_key = meaning.of == TABLE__arg_set ? "arg_set_id" : of->columns[0].name;
        if (meaning.of == TABLE__arg_set)
            return "args";
        return of->columns[0].key ? public_name(of->name) : NULL;
    case SENSE_PLAIN:
    case SENSE_ID:
    case SENSE_SPACE:
    case SENSE_TIME:
        break;
    }
    return NULL;
}
