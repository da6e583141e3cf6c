// SPDX-License-Identifier: Apache-2.0
//
// to_ftrace(id): the line of a kernel event, as in the text of systrace and in the kernel's file
// `trace`. A table has the events with a special form. The fields of other events come in the order
// of the trace.
//
// A form is text with fields:
//   <field>, <name=field>  " field=VALUE"; nothing if the event lacks the field
//   {field}                only the value
// Both notations may have a colon and the letter of a conversion (see value_add()), and a bar with
// the text for a field that the event lacks.
#include "converter/functions/to_ftrace.h"

#include <stdbool.h>
#include <string.h>

#include "common/elements.h"
#include "common/task_state.h"
#include "common/text.h"
#include "converter/functions/arg_sets.h"

SQLITE_EXTENSION_INIT3

#define NAME_WIDTH 16
#define NSEC       1000000000

#define I2C       " i2c-{adapter_nr} #{msg_nr}<a=addr:a><f=flags:f><l=len>"
#define MARK      "{type:c}|{pid}|{name}|{value}"
#define WORK      " work struct {work:x}"
#define CLOCK     "{name}<state><cpu_id>"
#define SOFTIRQ   "<vec> [action={vec:q}]"
#define BINDER_ID " transaction={debug_id:u}"

static const struct form {
    const char *event, *text;
} forms[] = {
    {"binder_transaction",
     BINDER_ID " dest_node={target_node:u} dest_proc={to_proc} dest_thread={to_thread} "
               "reply={reply} flags=0x{flags:x} code=0x{code:x}"},
    {"binder_transaction_alloc_buf", BINDER_ID "<data_size><offsets_size>"},
    {"binder_transaction_received", BINDER_ID},
    {"cgroup_attach_task", "<dst_root><dst_id><cgroup=cname><dst_level><dst_path><pid><comm>"},
    {"clk_set_rate", " {name} {rate}"},
    {"clock_disable", CLOCK},
    {"clock_enable", CLOCK},
    {"clock_set_rate", " " CLOCK},
    {"dpu_tracing_mark_write", MARK},
    {"g2d_tracing_mark_write", MARK},
    {"hrtimer_expire_entry", "<function:k>"},
    {"i2c_read", I2C},
    {"i2c_reply", I2C "{buf:b}"},
    {"i2c_result", " i2c-{adapter_nr}<n=nr_msgs><ret=ret>"},
    {"i2c_write", I2C "{buf:b}"},
    {"irq_handler_entry", "<irq><name>"},
    {"irq_handler_exit", "<irq> ret={ret:h}"},
    {"mm_filemap_add_to_page_cache",
     " dev {s_dev:M}:{s_dev:m} ino {i_ino:x} page=0000000000000000 pfn={pfn} ofs={index:p}"},
    {"panel_write_generic", MARK},
    {"print", " {buf:l}"},
    {"samsung_tracing_mark_write", "{trace_type:c}|{pid}|{trace_name}|{value}"},
    {"sched_blocked_reason", "<pid><iowait=io_wait><caller:k>"},
    {"sched_switch", "<prev_comm|><prev_pid|0><prev_prio|0><prev_state:s|R> ==>"
                     "<next_comm|><next_pid|0><next_prio|0>"},
    {"sched_wakeup", "<comm><pid><prio><target_cpu:t>"},
    {"softirq_entry", SOFTIRQ},
    {"softirq_exit", SOFTIRQ},
    {"tracing_mark_write", "{trace_begin:B}|{pid}|{trace_name}"},
    {"workqueue_activate_work", WORK},
    {"workqueue_execute_end", WORK},
    {"workqueue_execute_start", WORK ": function {function:k}"},
    {"workqueue_queue_work", " work struct={work:x}<function:k><workqueue:x>{req_cpu}{cpu}"},
};

// Data that the calls of a statement share.
struct lines {
    sqlite3_stmt *event;   // owned
    struct arg_sets *sets; // owned
};

struct line {
    sqlite3_str *text;
    struct arg_sets *sets;
    uint32_t kernel_version;
};

static void lines_free(void *userdata)
{
    struct lines *lines = userdata;
    sqlite3_finalize(lines->event);
    arg_sets_free(lines->sets);
    sqlite3_free(lines);
}

static struct lines *lines_of(sqlite3_context *context)
{
    static const char sql[] =
        "SELECT e.name, e.ts, e.cpu, e.arg_set_id, t.tid, t.name, p.pid, "
        "iif(m.sysname = 'Linux', m.release, NULL) FROM ftrace_event e "
        "LEFT JOIN thread t ON t.utid = e.utid LEFT JOIN process p ON p.upid = t.upid "
        "LEFT JOIN machine m ON m.id = t.machine_id WHERE e.id = ?1";
    struct lines *lines = sqlite3_get_auxdata(context, SHARED_LINES);
    if (lines)
        return lines;
    sqlite3 *handle = sqlite3_context_db_handle(context);
    lines = sqlite3_malloc(sizeof(*lines));
    if (!lines) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    *lines = (struct lines){0};
    int code = sqlite3_prepare_v2(handle, sql, -1, &lines->event, NULL);
    if (code == SQLITE_OK)
        code = arg_sets_open(handle, &lines->sets);
    if (code != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        lines_free(lines);
        return NULL;
    }
    sqlite3_set_auxdata(context, SHARED_LINES, lines, lines_free);
    return sqlite3_get_auxdata(context, SHARED_LINES);
}

// Returns the number of the field in the set, or -1.
static int field_find(const struct line *line, struct text name)
{
    for (int i = 0, n = arg_sets_n_fields(line->sets); i < n; i++)
        if (arg_sets_has(line->sets, i) &&
            text_eq(text_from(arg_sets_field(line->sets, i)->key), name))
            return i;
    return -1;
}

static void bytes_add(sqlite3_str *text, sqlite3_value *value)
{
    const uint8_t *bytes = sqlite3_value_blob(value);
    sqlite3_str_appendall(text, " [");
    for (int i = 0, n = sqlite3_value_bytes(value); bytes && i < n; i++)
        sqlite3_str_appendf(text, "%s%02x", i ? "-" : "", bytes[i]);
    sqlite3_str_appendchar(text, 1, ']');
}

static void plain_add(sqlite3_str *text, int type, sqlite3_value *value)
{
    sqlite3_int64 number = sqlite3_value_int64(value);
    bool is_text =
        sqlite3_value_type(value) == SQLITE_TEXT || sqlite3_value_type(value) == SQLITE_BLOB;
    if (is_text)
        sqlite3_str_append(text, sqlite3_value_blob(value), sqlite3_value_bytes(value));
    else if (type == STORED_NULL)
        sqlite3_str_appendall(text, "[NULL]");
    else if (type == STORED_REAL)
        sqlite3_str_appendf(text, "%.16g", sqlite3_value_double(value));
    else if (type == STORED_BOOL)
        sqlite3_str_appendall(text, number ? "true" : "false");
    else if (type == STORED_UINT || type == STORED_POINTER)
        sqlite3_str_appendf(text, "%llu", (sqlite3_uint64)number);
    else
        sqlite3_str_appendf(text, "%lld", number);
}

static void state_add(const struct line *line, sqlite3_int64 number)
{
    char letters[TASK_STATE_SIZE];
    bool is_known = task_state_text(line->kernel_version, number, '|', letters) > 0;
    sqlite3_str_appendall(line->text, is_known ? letters : "?");
}

static void softirq_add(sqlite3_str *text, sqlite3_uint64 number)
{
    static const char *const names[] = {"HI",           "TIMER",   "NET_TX", "NET_RX",  "BLOCK",
                                        "BLOCK_IOPOLL", "TASKLET", "SCHED",  "HRTIMER", "RCU"};
    if (number < ELEMENTS(names))
        sqlite3_str_appendall(text, names[number]);
    else
        sqlite3_str_appendf(text, "%llu", number);
}

static void value_add(const struct line *line, int field, char conversion)
{
    sqlite3_str *text = line->text;
    sqlite3_value *value = arg_sets_value(line->sets, field);
    sqlite3_int64 number = sqlite3_value_int64(value);
    int type = arg_sets_field(line->sets, field)->type, size;
    switch (conversion) {
    case 'u': // without a sign
        sqlite3_str_appendf(text, "%u", (uint32_t)number);
        break;
    case 'k': // an address in the kernel, or its name
        if (sqlite3_value_type(value) == SQLITE_TEXT) {
            plain_add(text, type, value);
            break;
        } // fall through
    case 'x':
        sqlite3_str_appendf(text, "%llx", (sqlite3_uint64)number);
        break;
    case 'a': // an address on a bus
        sqlite3_str_appendf(text, "%03llx", (sqlite3_uint64)number);
        break;
    case 'f': // flags of a message
        sqlite3_str_appendf(text, "%04llx", (sqlite3_uint64)number);
        break;
    case 't': // a processor
        sqlite3_str_appendf(text, "%03lld", number);
        break;
    case 'c': // a character
        sqlite3_str_appendchar(text, 1, (char)number);
        break;
    case 'B':
        sqlite3_str_appendchar(text, 1, number ? 'B' : 'E');
        break;
    case 'M': // a device's major and minor number
        sqlite3_str_appendf(text, "%llu", (sqlite3_uint64)number >> 20);
        break;
    case 'm':
        sqlite3_str_appendf(text, "%llu", (sqlite3_uint64)number & 0xfffff);
        break;
    case 'p': // a page's number as an offset
        sqlite3_str_appendf(text, "%llu", (sqlite3_uint64)number << 12);
        break;
    case 'h':
        sqlite3_str_appendall(text, number ? "handled" : "unhandled");
        break;
    case 'q': // the kind of a soft interrupt
        softirq_add(text, (sqlite3_uint64)number);
        break;
    case 's': // the state of a task
        state_add(line, number);
        break;
    case 'b': // bytes
        bytes_add(text, value);
        break;
    case 'l': // a line
        size = sqlite3_value_bytes(value);
        const char *at = (const char *)sqlite3_value_blob(value);
        sqlite3_str_append(text, at ? at : "", size - (size && at[size - 1] == '\n'));
        break;
    default:
        plain_add(text, type, value);
    }
}

static void arg_add(const struct line *line, int field, struct text name, char conversion)
{
    sqlite3_str_appendf(line->text, " %.*s=", (int)name.size, name.at);
    if (text_eq(name, TEXT("gfp_flags")))
        gfp_flags_add(line->text, (uint64_t)sqlite3_value_int64(arg_sets_value(line->sets, field)),
                      line->kernel_version);
    else
        value_add(line, field, conversion);
}

// Cuts *text before the character, and returns the part after the character.
static struct text text_after(struct text *text, char character)
{
    const char *at = memchr(text->at, character, text->size);
    if (!at)
        return (struct text){0};
    struct text after = {at + 1, text->size - (size_t)(at + 1 - text->at)};
    text->size = (size_t)(at - text->at);
    return after;
}

// Adds a field. `place`: the text between the brackets.
static void place_add(const struct line *line, struct text place, bool has_name)
{
    struct text absent = text_after(&place, '|');
    struct text conversion = text_after(&place, ':');
    struct text name = place;
    struct text key = text_after(&name, '=');
    int field = field_find(line, key.at ? key : name);
    char letter = conversion.at ? *conversion.at : '\0';
    if (field >= 0 && has_name)
        arg_add(line, field, name, letter);
    else if (field >= 0)
        value_add(line, field, letter);
    else if (absent.at)
        sqlite3_str_appendf(line->text, " %.*s=%.*s", (int)name.size, name.at, (int)absent.size,
                            absent.at);
}

static void form_add(const struct line *line, const char *form)
{
    while (*form) {
        size_t size = strcspn(form, "<{");
        sqlite3_str_append(line->text, form, (int)size);
        form += size;
        if (!*form)
            break;
        size = strcspn(form, *form == '<' ? ">" : "}");
        // The '>' of " ==>" opens no field.
        place_add(line, (struct text){form + 1, size - 1}, *form == '<');
        form += size + 1;
    }
}

static const char *form_of(const char *event)
{
    for (size_t i = 0; i < ELEMENTS(forms); i++)
        if (strcmp(forms[i].event, event) == 0)
            return forms[i].text;
    return NULL;
}

static void args_add(const struct line *line, const char *event)
{
    const char *form = form_of(event);
    if (!arg_sets_n_fields(line->sets))
        return;
    if (form) {
        form_add(line, form);
        return;
    }
    for (int i = 0, n = arg_sets_n_fields(line->sets); i < n; i++)
        if (arg_sets_has(line->sets, i))
            arg_add(line, i, text_from(arg_sets_field(line->sets, i)->key), '\0');
}

// Adds the name of a thread. "-" ends the name in a line, so "_" replaces each "-" of the name.
static void thread_add(sqlite3_str *text, sqlite3_int64 tid, const char *name)
{
    if (tid == 0)
        name = "<idle>";
    else if (!name || !*name)
        name = "<unknown>";
    for (size_t size = strlen(name); size < NAME_WIDTH; size++)
        sqlite3_str_appendchar(text, 1, ' ');
    for (; *name; name++)
        sqlite3_str_appendchar(text, 1, *name == '-' ? '_' : *name);
    sqlite3_str_appendf(text, "-%-5lld", tid);
}

static void head_add(sqlite3_str *text, sqlite3_stmt *event)
{
    static const char *const marks[] = {"print", "g2d_tracing_mark_write",
                                        "dpu_tracing_mark_write"};
    const char *name = (const char *)sqlite3_column_text(event, 0);
    sqlite3_int64 ts = sqlite3_column_int64(event, 1), pid = sqlite3_column_int64(event, 6);
    thread_add(text, sqlite3_column_int64(event, 4), (const char *)sqlite3_column_text(event, 5));
    if (pid)
        sqlite3_str_appendf(text, " (%5lld)", pid);
    else
        sqlite3_str_appendall(text, " (-----)");
    for (size_t i = 0; i < ELEMENTS(marks); i++)
        if (strcmp(name, marks[i]) == 0)
            name = "tracing_mark_write";
    sqlite3_str_appendf(text, " [%03d] .... %lld.%06lld: %s:", sqlite3_column_int(event, 2),
                        ts / NSEC, ts % NSEC / 1000, name);
}

static uint32_t version_of(sqlite3_stmt *event)
{
    const char *release = (const char *)sqlite3_column_text(event, 7);
    return release ? kernel_version_of(release, strlen(release)) : 0;
}

static void line_result(sqlite3_context *context, const struct lines *lines)
{
    int code = arg_sets_look(lines->sets, sqlite3_column_int64(lines->event, 3));
    if (code != SQLITE_OK) {
        sqlite3_result_error_code(context, code);
        return;
    }
    struct line line = {
        .text = sqlite3_str_new(sqlite3_context_db_handle(context)),
        .sets = lines->sets,
        .kernel_version = version_of(lines->event),
    };
    head_add(line.text, lines->event);
    args_add(&line, (const char *)sqlite3_column_text(lines->event, 0));
    string_result(context, line.text);
}

static void to_ftrace(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(argv[0]) != SQLITE_INTEGER) {
        sqlite3_result_error(context, "to_ftrace(id): the id of a row of ftrace_event is wanted",
                             -1);
        return;
    }
    struct lines *lines = lines_of(context);
    if (!lines)
        return;
    sqlite3_bind_value(lines->event, 1, argv[0]);
    int code = sqlite3_step(lines->event);
    if (code == SQLITE_ROW && sqlite3_column_text(lines->event, 0))
        line_result(context, lines);
    else if (code != SQLITE_ROW && code != SQLITE_DONE)
        sqlite3_result_error(context, sqlite3_errmsg(sqlite3_context_db_handle(context)), -1);
    sqlite3_reset(lines->event);
}

int ftrace_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {{"to_ftrace", 1, to_ftrace, READS_DATABASE}};
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
