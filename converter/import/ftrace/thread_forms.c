// SPDX-License-Identifier: Apache-2.0
//
// Events that begin, end or are slices of the thread that they happen in, and nothing else: Trusty
// (a secure operating system beside Linux), calls of the secure monitor, and I2C. They differ in
// names and conditions only, so these are data.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"

#define NAME_SIZE_MAX    255
#define I2C_ADAPTERS_MAX 256

enum form_action { FORM_BEGIN, FORM_END, FORM_MOMENT };
enum form_condition { ALWAYS, NEGATIVE, NOT_POSITIVE, ZERO, NOT_ZERO };

// In the order in which they apply. In a name, {field} is the value of a field, {#field} in hex.
static const struct thread_form {
    const char *event, *category;
    enum form_action action;
    const char *name, *field;
    enum form_condition condition;
} forms[] = {
    {"scm_call_start", NULL, FORM_BEGIN, "scm id={#x0}", NULL, ALWAYS},
    {"scm_call_end", NULL, FORM_END, NULL, NULL, ALWAYS},
    {"trusty_smc", "tipc", FORM_BEGIN, "trusty_smc:r0= {r0}", NULL, ALWAYS},
    {"trusty_smc_done", "tipc", FORM_END, NULL, NULL, ALWAYS},
    {"trusty_smc_done", "tipc", FORM_MOMENT, "trusty_smc_done:r0= {ret}", NULL, ALWAYS},
    {"trusty_std_call32", "tipc", FORM_BEGIN, "trusty_std", NULL, ALWAYS},
    {"trusty_std_call32_done", "tipc", FORM_END, NULL, NULL, ALWAYS},
    {"trusty_std_call32_done", "tipc", FORM_MOMENT, "trusty_err_std: err= {ret}", "ret", NEGATIVE},
    {"trusty_share_memory", "tipc", FORM_BEGIN,
     "trusty_share_mem: len= {len} nents= {nents} lend= {lend}", NULL, ALWAYS},
    {"trusty_share_memory_done", "tipc", FORM_END, NULL, NULL, ALWAYS},
    {"trusty_share_memory_done", "tipc", FORM_MOMENT,
     "trusty_share_mem: handle= {handle} ret= {ret}", NULL, ALWAYS},
    {"trusty_reclaim_memory", "tipc", FORM_BEGIN, "trusty_reclaim_mem: id={id}", NULL, ALWAYS},
    {"trusty_reclaim_memory_done", "tipc", FORM_END, NULL, NULL, ALWAYS},
    {"trusty_reclaim_memory_done", "tipc", FORM_MOMENT, "trusty_reclaim_mem_err: err= {ret}", "ret",
     NEGATIVE},
    {"trusty_irq", "tipc", FORM_MOMENT, "trusty_irq: irq= {irq}", NULL, ALWAYS},
    {"trusty_ipc_handle_event", "tipc", FORM_MOMENT,
     "trusty_ipc_handle_event: chan={chan} srv_name={srv_name} event={event_id}", NULL, ALWAYS},
    {"trusty_ipc_connect", "tipc", FORM_BEGIN, "tipc_connect: {port}", NULL, ALWAYS},
    {"trusty_ipc_connect_end", "tipc", FORM_END, NULL, NULL, ALWAYS},
    {"trusty_ipc_connect_end", "tipc", FORM_MOMENT, "tipc_err_connect:err= {err}", "err", NOT_ZERO},
    {"trusty_ipc_write", "tipc", FORM_MOMENT, "tipc_write: {srv_name} shm_cnt:[{shm_cnt}]",
     "shm_cnt", NOT_ZERO},
    {"trusty_ipc_write", "tipc", FORM_MOMENT, "tipc_write: {srv_name}", "shm_cnt", ZERO},
    {"trusty_ipc_write", "tipc", FORM_MOMENT, "tipc_err_write:len_or_err= {len_or_err}",
     "len_or_err", NEGATIVE},
    {"trusty_ipc_read", "tipc", FORM_BEGIN, "tipc_read: {srv_name}", NULL, ALWAYS},
    {"trusty_ipc_read_end", "tipc", FORM_END, NULL, NULL, ALWAYS},
    {"trusty_ipc_read_end", "tipc", FORM_MOMENT, "tipc_err_read:len_or_err= {len_or_err}",
     "len_or_err", NOT_POSITIVE},
    {"trusty_ipc_poll", "tipc", FORM_MOMENT, "tipc_poll: {srv_name}", NULL, ALWAYS},
    {"trusty_ipc_rx", "tipc", FORM_MOMENT, "tipc_rx", NULL, ALWAYS},
    {"trusty_enqueue_nop", "tipc", FORM_MOMENT,
     "trusty_enqueue_nop: arg1= {arg1} arg2= {arg2} arg3={arg3}", NULL, ALWAYS},
};

static void field_add(const struct ftrace_event *event, const char *field, bool hex,
                      struct strbuf *text)
{
    const struct ftrace_field_type *type = ftrace_field_type_by_name(event->type, field);
    if (type && (type->kind == FTRACE_KIND_UINT || type->kind == FTRACE_KIND_INT)) {
        int64_t value = ftrace_int(event, field);
        if (hex)
            strbuf_addf(text, "%#llx", (unsigned long long)value);
        else if (type->kind == FTRACE_KIND_UINT)
            strbuf_addf(text, "%llu", (unsigned long long)value);
        else
            strbuf_addf(text, "%lld", (long long)value);
        return;
    }
    struct slice_name value = ftrace_text(event, field);
    strbuf_add(text, value.text, value.size);
}

static struct slice_name form_name(struct import *im, const struct ftrace_event *event,
                                   const char *format)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const char *mark;
    for (; (mark = strchr(format, '{')); format = strchr(mark, '}') + 1) {
        char field[32];
        bool hex = mark[1] == '#';
        size_t size = strcspn(mark + 1 + hex, "}");
        strbuf_add(&text, format, (size_t)(mark - format));
        if (size >= sizeof(field))
            continue;
        memcpy(field, mark + 1 + hex, size);
        field[size] = '\0';
        field_add(event, field, hex, &text);
    }
    strbuf_add_str(&text, format);
    size_t size = text.size < NAME_SIZE_MAX ? text.size : NAME_SIZE_MAX;
    return ftrace_name(im, "%.*s", (int)size, text.text ? text.text : "");
}

static bool form_applies(const struct thread_form *form, const struct ftrace_event *event)
{
    int64_t value = form->field ? ftrace_int(event, form->field) : 0;
    switch (form->condition) {
    case NEGATIVE:
        return value < 0;
    case ZERO:
        return value == 0;
    case NOT_POSITIVE:
        return value <= 0;
    case NOT_ZERO:
        return value != 0;
    default:
        return true;
    }
}

static void thread_forms(struct import *im, const struct ftrace_event *event)
{
    uint32_t track = ftrace_own_track(im, event);
    for (size_t i = 0; i < ELEMENTS(forms); i++) {
        const struct thread_form *form = &forms[i];
        if (!str_eq(form->event, event->type->name) || !form_applies(form, event))
            continue;
        struct slice_spec spec = {.ts = event->ts, .track = track};
        if (form->category)
            spec.category = slice_name(form->category);
        if (form->name)
            spec.name = form_name(im, event, form->name);
        if (form->action == FORM_BEGIN)
            slice_begin(&im->slices, &spec);
        else if (form->action == FORM_END)
            slice_end(&im->slices, &spec);
        else
            slice_add(&im->slices, &spec);
    }
}

// A transfer is of several messages and ends with a result that counts them; its adapter and that
// count are kept by thread.
static void i2c_message(struct import *im, const struct ftrace_event *event)
{
    uint64_t adapter = (uint32_t)ftrace_int(event, "adapter_nr");
    uint64_t n = (uint32_t)ftrace_int(event, "msg_nr") + UINT64_C(1);
    int64_t utid = processes_thread(&im->processes, event->pid);
    bool is_new;
    if (adapter >= I2C_ADAPTERS_MAX)
        return;
    uint64_t *transfer =
        map64_get_or_add(&im->i2c_transfers, (uint64_t)utid, adapter << 32 | (uint32_t)n, &is_new);
    if (!transfer)
        im->processes.failure = -ENOMEM;
    if (!transfer || !is_new) {
        if (transfer && (uint32_t)*transfer < (uint32_t)n)
            *transfer = (*transfer >> 32) << 32 | (uint32_t)n;
        return;
    }
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_thread_track(im, utid),
        .name = ftrace_name(im, "i2c-%u", (unsigned)adapter),
    };
    slice_begin(&im->slices, &spec);
}

static void i2c_result(struct import *im, const struct ftrace_event *event)
{
    uint64_t adapter = (uint32_t)ftrace_int(event, "adapter_nr");
    int64_t utid = processes_thread(&im->processes, event->pid);
    const uint64_t *transfer = map64_find(&im->i2c_transfers, (uint64_t)utid);
    if (!transfer || *transfer != (adapter << 32 | (uint32_t)ftrace_int(event, "nr_msgs")))
        return;
    map64_remove(&im->i2c_transfers, (uint64_t)utid);
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_thread_track(im, utid),
        .name = ftrace_name(im, "i2c-%u", (unsigned)adapter),
    };
    slice_end(&im->slices, &spec);
}

const struct ftrace_handler ftrace_thread_handlers[] = {
    {"i2c_read", i2c_message, false},
    {"i2c_write", i2c_message, false},
    {"i2c_result", i2c_result, false},
    {"scm_call_start", thread_forms, false},
    {"scm_call_end", thread_forms, false},
    {"trusty_smc", thread_forms, false},
    {"trusty_smc_done", thread_forms, false},
    {"trusty_std_call32", thread_forms, false},
    {"trusty_std_call32_done", thread_forms, false},
    {"trusty_share_memory", thread_forms, false},
    {"trusty_share_memory_done", thread_forms, false},
    {"trusty_reclaim_memory", thread_forms, false},
    {"trusty_reclaim_memory_done", thread_forms, false},
    {"trusty_irq", thread_forms, false},
    {"trusty_ipc_handle_event", thread_forms, false},
    {"trusty_ipc_connect", thread_forms, false},
    {"trusty_ipc_connect_end", thread_forms, false},
    {"trusty_ipc_write", thread_forms, false},
    {"trusty_ipc_read", thread_forms, false},
    {"trusty_ipc_read_end", thread_forms, false},
    {"trusty_ipc_poll", thread_forms, false},
    {"trusty_ipc_rx", thread_forms, false},
    {"trusty_enqueue_nop", thread_forms, false},
    {0},
};
