// SPDX-License-Identifier: Apache-2.0
//
// I2C transfers as slices of the thread. A transfer has several messages and ends with a result,
// which has the number of messages. The adapter and this number are kept for each thread.
#include "converter/import/ftrace/ftrace.h"

#define ADAPTERS_MAX 256

struct i2c {
    struct map64 transfers; // thread -> adapter and number of messages
};

static struct slice_spec transfer_slice(struct import *im, const struct ftrace_event *event,
                                        int64_t utid, uint64_t adapter)
{
    return (struct slice_spec){
        .ts = event->ts,
        .track = thread_track_get(im, utid),
        .name = import_text(im, "i2c-%u", (unsigned)adapter),
    };
}

static void i2c_message(struct import *im, const struct ftrace_event *event)
{
    struct i2c *i2c = event->own;
    uint64_t adapter = (uint32_t)ftrace_int(event, "adapter_nr");
    uint64_t n = (uint32_t)ftrace_int(event, "msg_nr") + UINT64_C(1);
    int64_t utid = processes_thread(&im->processes, event->pid);
    bool is_new;
    if (adapter >= ADAPTERS_MAX)
        return;
    uint64_t *transfer =
        import_map_get(im, &i2c->transfers, (uint64_t)utid, adapter << 32 | (uint32_t)n, &is_new);
    if (!transfer)
        return;
    if (!is_new) {
        if ((uint32_t)*transfer < (uint32_t)n)
            *transfer = (*transfer >> 32) << 32 | (uint32_t)n;
        return;
    }
    struct slice_spec spec = transfer_slice(im, event, utid, adapter);
    slice_begin(&im->slices, &spec);
}

static void i2c_result(struct import *im, const struct ftrace_event *event)
{
    struct i2c *i2c = event->own;
    uint64_t adapter = (uint32_t)ftrace_int(event, "adapter_nr");
    int64_t utid = processes_thread(&im->processes, event->pid);
    const uint64_t *transfer = map64_find(&i2c->transfers, (uint64_t)utid);
    if (!transfer || *transfer != (adapter << 32 | (uint32_t)ftrace_int(event, "nr_msgs")))
        return;
    map64_remove(&i2c->transfers, (uint64_t)utid);
    struct slice_spec spec = transfer_slice(im, event, utid, adapter);
    slice_end(&im->slices, &spec);
}

static const struct ftrace_form forms[] = {
    {"i2c_read", FORM_CALL(i2c_message)},
    {"i2c_write", FORM_CALL(i2c_message)},
    {"i2c_result", FORM_CALL(i2c_result)},
    {0},
};

const struct ftrace_subject ftrace_i2c = {
    .forms = forms,
    .state_size = sizeof(struct i2c),
    .n_maps = 1,
};
