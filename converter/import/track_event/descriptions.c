// SPDX-License-Identifier: Apache-2.0
//
// Facts of descriptors about processes and threads, except their numbers. Names and labels of
// Chrome come from its kinds of processes and threads.
#include "converter/import/importer.h"
#include "converter/import/track_event/track_events.h"
#include "protos/fields.h"

#define LABELS_MAX 256 // of a process

static uint32_t text_keep(struct import *im, const char *text)
{
    return text ? strset_add(&im->strings, text, strlen(text)) : STRSET_NONE;
}

void thread_describe(struct import *im, int64_t utid, const struct wire_field *message,
                     const struct wire_field *chrome)
{
    MESSAGE(thread, ThreadDescriptor, message);
    uint32_t name = STRSET_NONE;
    if (thread.thread_name.size)
        name = import_keep(im, &thread.thread_name);
    else if (field_present(&thread.chrome_thread_type))
        name = text_keep(im, chrome_thread_name(field_u64(&thread.chrome_thread_type)));
    processes_name_thread(&im->processes, utid, name, NAME_TRACK);
    if (!field_present(chrome))
        return;
    MESSAGE(more, ChromeThreadDescriptor, chrome);
    if (field_present(&more.thread_type))
        processes_name_thread(&im->processes, utid,
                              text_keep(im, chrome_thread_name(field_u64(&more.thread_type))),
                              NAME_TRACK_TYPE);
}

static void type_name(struct import *im, int64_t upid, const char *name, bool shows_pages)
{
    processes_name(&im->processes, upid, text_keep(im, name),
                   shows_pages ? PROCESS_NAME_RENDERER : PROCESS_NAME_TYPE);
}

static void labels_read(struct import *im, int64_t upid, const struct wire_field *message)
{
    struct fields each = fields_of(message, PB_ProcessDescriptor_process_labels);
    for (int i = 0; i < LABELS_MAX && fields_next(&each); i++) {
        struct slice_name label = slice_name_of(&im->strings, import_keep(im, &each.field));
        struct arg arg = arg_name(import_text(im, "chrome.process_label[%d]", i).text, label);
        arg.flat_key = "chrome.process_label";
        processes_add_args(&im->processes, upid, &arg, 1);
    }
}

static void chrome_process_read(struct import *im, int64_t upid, const struct wire_field *message)
{
    MESSAGE(chrome, ChromeProcessDescriptor, message);
    uint64_t type = field_u64(&chrome.process_type);
    const char *name = chrome_process_name(type);
    type_name(im, upid, name, type == PB_PROCESS_RENDERER || type == CHROME_RENDERER_EXTENSION);
    struct arg args[3];
    size_t n = 0;
    ARG_APPEND(args, n,
               name ? arg_text("chrome.process_type", name, strlen(name))
                    : (struct arg){.key = "chrome.process_type", .type = ARG_NULL});
    if (field_present(&chrome.host_app_package_name))
        ARG_APPEND(
            args, n,
            arg_name("chrome.host_app_package_name",
                     slice_name_of(&im->strings, import_keep(im, &chrome.host_app_package_name))));
    if (field_present(&chrome.crash_trace_id))
        ARG_APPEND(args, n, arg_uint("chrome.crash_trace_id", field_u64(&chrome.crash_trace_id)));
    processes_add_args(&im->processes, upid, args, n);
}

void process_describe(struct import *im, int64_t upid, const struct wire_field *message,
                      const struct wire_field *chrome)
{
    MESSAGE(process, ProcessDescriptor, message);
    int64_t start_ts = field_i64(&process.start_timestamp_ns);
    struct process *row = processes_at(&im->processes, upid);
    if (start_ts > 0 && !row->has_start) {
        row->start_ts = start_ts;
        row->has_start = true;
    }
    if (process.process_name.size)
        processes_name(&im->processes, upid, import_keep(im, &process.process_name),
                       PROCESS_NAME_TRACK);
    if (field_present(&process.chrome_process_type)) {
        uint64_t type = field_u64(&process.chrome_process_type);
        type_name(im, upid, chrome_process_name(type), type == PB_PROCESS_RENDERER);
    }
    labels_read(im, upid, message);
    if (field_present(chrome))
        chrome_process_read(im, upid, chrome);
}
