// SPDX-License-Identifier: Apache-2.0
//
// Events of Chrome's JSON that are not slices: counters, states of threads, names.
#include <math.h>

#include "converter/ground/json_reader.h"
#include "converter/import/json/json_event.h"
#include "converter/import/json/json_values.h"

static void counter_take(void *userdata, const struct json_token *key,
                         const struct json_token *value)
{
    struct json_event *event = userdata;
    struct import *im = event->im;
    struct json_token number = *value;
    struct strbuf name = {0};
    double counter;
    if (number.type == JSON_STRING)
        number.type = JSON_NUMBER;
    if (!json_double(&number, &counter)) {
        json_event_wrong(event);
        return;
    }
    strbuf_add(&name, event->name.text ? event->name.text : "", event->name.size);
    if (event->fields.id_text.size) {
        strbuf_add_str(&name, " id: ");
        strbuf_add(&name, field_text(&event->fields.id_text), event->fields.id_text.size);
    }
    strbuf_add_char(&name, ' ');
    json_text_add(key, &name);
    if (import_strbuf_whole(im, &name)) {
        int64_t upid = processes_thread_at(&im->processes, event->utid)->upid;
        bool is_known = upid != UPID_NONE;
        struct slice_name text = import_text_keep(im, name.text, name.size);
        struct track_spec spec = {
            .type = is_known ? "json_counter" : "json_counter_thread_fallback",
            .counter = true,
            .dimensions = {dimension_int(is_known ? "upid" : "utid", is_known ? upid : event->utid),
                           dimension_name("name", text)},
            .name = text,
        };
        counter_push(im, event->ts, tracks_get(&im->tracks, &spec), counter, ARG_SET_NONE);
    }
    strbuf_done(&name);
}

void json_counters_read(struct json_event *event)
{
    if (!json_members_read(&event->fields.args, counter_take, event))
        json_event_wrong(event);
}

struct state_args {
    struct import *im;
    int64_t cpu, io_wait; // -1: none
    struct slice_name function;
};

static struct slice_name text_keep(struct import *im, const struct json_token *token)
{
    struct strbuf text = {0};
    struct slice_name kept = {0};
    json_text_add(token, &text);
    if (import_strbuf_whole(im, &text))
        kept = import_text_keep(im, text.text ? text.text : "", text.size);
    strbuf_done(&text);
    return kept;
}

static void state_take(void *userdata, const struct json_token *key, const struct json_token *value)
{
    struct state_args *args = userdata;
    int64_t number;
    if (json_is(key, "cpu") && json_int(value, &number))
        args->cpu = number & UINT32_MAX;
    else if (json_is(key, "io_wait") && json_int(value, &number))
        args->io_wait = number & UINT32_MAX;
    else if (json_is(key, "blocked_function") && value->type == JSON_STRING)
        args->function = text_keep(args->im, value);
}

void json_thread_state_read(struct json_event *event)
{
    struct import *im = event->im;
    struct state_args args = {.im = im, .cpu = -1, .io_wait = -1};
    if (!field_present(&event->fields.dur)) {
        json_event_wrong(event);
        return;
    }
    if (event->fields.args.size && !json_members_read(&event->fields.args, state_take, &args))
        json_event_wrong(event);
    int64_t dur = field_i64(&event->fields.dur), end;
    struct slice_name state = event->name.text ? event->name : slice_name("[No name]");
    struct cell *row = database_row(im->db, TABLE_thread_state, NULL);
    cell_int(row, COL_thread_state_ts, event->ts);
    cell_int(row, COL_thread_state_dur, dur);
    cell_int(row, COL_thread_state_utid, event->utid);
    cell_name(row, COL_thread_state_state, state);
    cell_known(row, COL_thread_state_io_wait, args.io_wait);
    cell_name(row, COL_thread_state_blocked_function, args.function);
    import_bounds(im, event->ts);
    if (dur > 0 && !__builtin_add_overflow(event->ts, dur, &end))
        import_bounds(im, end);
    if (args.cpu < 0 || args.cpu >= CPUS_MAX ||
        !text_eq((struct text){state.text, state.size}, TEXT("Running")))
        return;
    cpus_see(im, (uint32_t)args.cpu);
    row = database_row(im->db, TABLE_sched_slice, NULL);
    cell_int(row, COL_sched_slice_ts, event->ts);
    cell_int(row, COL_sched_slice_dur, dur);
    cell_int(row, COL_sched_slice_utid, event->utid);
    cell_int(row, COL_sched_slice_ucpu, ucpu_of(im, (uint32_t)args.cpu));
}

static bool event_is(const struct json_event *event, struct text name)
{
    return text_eq((struct text){event->name.text, event->name.size}, name);
}

static void name_take(void *userdata, const struct json_token *key, const struct json_token *value)
{
    struct json_event *event = userdata;
    struct import *im = event->im;
    if (!json_is(key, "name"))
        return;
    if (value->type != JSON_STRING || !value->size) {
        json_event_wrong(event);
        return;
    }
    struct slice_name name = text_keep(im, value);
    if (!name.text)
        return;
    uint32_t id = strset_add(&im->strings, name.text, name.size);
    if (event_is(event, TEXT("thread_name")))
        processes_name_thread(&im->processes, event->utid, id, NAME_OTHER);
    else
        processes_name(&im->processes, processes_process(&im->processes, event->pid), id,
                       PROCESS_NAME_OTHER);
}

static void index_take(void *userdata, const struct json_token *key, const struct json_token *value)
{
    struct json_event *event = userdata;
    struct processes *processes = &event->im->processes;
    int64_t whole;
    double real;
    if (!json_is(key, "sort_index"))
        return;
    if (!json_int(value, &whole)) {
        if (!json_double(value, &real) || !(fabs(real) < 9e15)) {
            json_event_wrong(event);
            return;
        }
        whole = (int64_t)real;
    }
    if (event_is(event, TEXT("process_sort_index"))) {
        struct process *process = processes_at(processes, processes_process(processes, event->pid));
        process->has_sort_index = true;
        process->sort_index = (int32_t)whole;
    } else {
        struct thread *thread = processes_thread_at(processes, event->utid);
        thread->has_sort_index = true;
        thread->sort_index = (int32_t)whole;
    }
}

void json_names_read(struct json_event *event)
{
    bool is_name = event_is(event, TEXT("thread_name")) || event_is(event, TEXT("process_name"));
    bool is_index =
        event_is(event, TEXT("thread_sort_index")) || event_is(event, TEXT("process_sort_index"));
    if ((is_name || is_index) && event->fields.args.size &&
        !json_members_read(&event->fields.args, is_name ? name_take : index_take, event))
        json_event_wrong(event);
}
