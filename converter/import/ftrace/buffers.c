// SPDX-License-Identifier: Apache-2.0
//
// Memory that devices use: buffers of ion and dma heaps, contiguous memory, what GPUs and DSPs
// have. Totals are counters; each buffer is a slice from its making to its end.
#include <errno.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/process/process_counters.h"

#define KERNEL(major, minor) ((uint32_t)(major) << 16 | (minor))

// What the allocation of contiguous memory at hand took.
struct cma_migration {
    uint64_t n_migrated, n_reclaimed, n_mapped;
};
VEC_DEFINE(cma_migration_vec, struct cma_migration);

struct buffers {
    struct map64 cma_of; // thread -> index of migrations
    struct cma_migration_vec migrations;
};

static void counter(struct import *im, const struct ftrace_event *event,
                    const struct track_spec *spec, double value, int64_t set)
{
    counter_push(im, event->ts, tracks_get(&im->tracks, spec), value, set);
}

static int64_t own_utid(struct import *im, const struct ftrace_event *event)
{
    return processes_thread(&im->processes, event->pid);
}

static void ion_push(struct import *im, const struct ftrace_event *event, struct slice_name heap,
                     double total, double change)
{
    CLEANUP(strbuf_done) struct strbuf name = {0}, change_name = {0};
    strbuf_add_str(&name, heap.size ? "mem.ion." : "mem.ion");
    strbuf_add(&name, heap.text, heap.size);
    strbuf_add_str(&change_name, heap.size ? "mem.ion_change." : "mem.ion_change");
    strbuf_add(&change_name, heap.text, heap.size);
    struct track_spec spec = {
        .type = "ion",
        .counter = true,
        .dimensions = {dimension_text("heap_name", heap.text, heap.size)},
        .name = {name.text, name.size},
    };
    counter(im, event, &spec, total, ARG_SET_NONE);
    spec.type = "ion_change";
    spec.dimensions[1] = dimension_int("utid", own_utid(im, event));
    spec.name = (struct slice_name){change_name.text, change_name.size};
    counter(im, event, &spec, change, ARG_SET_NONE);
}

// These tell the total before the change.
static void ion_heap(struct import *im, const struct ftrace_event *event, double sign)
{
    struct slice_name heap =
        ftrace_has(event, "heap_name") ? ftrace_text(event, "heap_name") : slice_name("unknown");
    double change = sign * (double)(uint64_t)ftrace_int(event, "len");
    ion_push(im, event, heap, (double)ftrace_int(event, "total_allocated") + change, change);
}

static void ion_heap_grow(struct import *im, const struct ftrace_event *event)
{
    ion_heap(im, event, 1);
}

static void ion_heap_shrink(struct import *im, const struct ftrace_event *event)
{
    ion_heap(im, event, -1);
}

// A buffer came (len > 0) or went.
static void buffer_slice(struct import *im, const struct ftrace_event *event, const char *type,
                         const char *name, int64_t cookie, int64_t len)
{
    struct track_spec track = {.type = type, .name = slice_name(name)};
    struct slice_spec spec = {.ts = event->ts};
    if (len > 0) {
        spec.track = async_track_begin(&im->async_tracks, &track, cookie, false);
        spec.name = import_text(im, "%lld kB", (long long)len / 1024);
        slice_begin(&im->slices, &spec);
    } else {
        spec.track = async_track_end(&im->async_tracks, &track, cookie);
        slice_end(&im->slices, &spec);
    }
}

static void ion_stat(struct import *im, const struct ftrace_event *event)
{
    int64_t len = ftrace_int(event, "len");
    ion_push(im, event, (struct slice_name){.text = ""},
             (double)(uint64_t)ftrace_int(event, "total_allocated"), (double)len);
    buffer_slice(im, event, "android_ion_allocations", "mem.ion_buffer",
                 ftrace_int(event, "buffer_id"), len);
}

static void dma_heap_stat(struct import *im, const struct ftrace_event *event)
{
    int64_t len = ftrace_int(event, "len"), inode = ftrace_int(event, "inode");
    struct track_spec total = {
        .type = "android_dma_heap", .counter = true, .name = slice_name("mem.dma_heap")};
    counter(im, event, &total, (double)(uint64_t)ftrace_int(event, "total_allocated"),
            ARG_SET_NONE);
    struct track_spec change = {
        .type = "android_dma_heap_change",
        .counter = true,
        .dimensions = {dimension_int("utid", own_utid(im, event))},
        .name = slice_name("mem.dma_heap_change"),
    };
    struct arg arg = arg_uint("inode", (uint64_t)inode);
    counter(im, event, &change, (double)len, args_add(&im->args, &arg, 1));
    buffer_slice(im, event, "android_dma_allocations", "mem.dma_buffer", inode, len);
}

static void dmabuf_rss_stat(struct import *im, const struct ftrace_event *event)
{
    process_counter_push(im, event->ts, own_utid(im, event), PROCESS_COUNTER_MEMORY, "dmabuf_rss",
                         NULL, (double)(uint64_t)ftrace_int(event, "rss"));
}

static void fastrpc_dma_stat(struct import *im, const struct ftrace_event *event)
{
    static const char *const processors[] = {"ASDP", "MDSP", "SDSP", "CDSP"};
    uint32_t cid = (uint32_t)ftrace_int(event, "cid");
    char which[16], name[64];
    snprintf(which, sizeof(which), "%u", cid);
    const char *text = cid < ELEMENTS(processors) ? processors[cid] : which;
    snprintf(name, sizeof(name), "mem.fastrpc[%s]", text);
    struct track_spec spec = {
        .type = "fastrpc",
        .counter = true,
        .dimensions = {dimension_int("cid", cid)},
        .name = slice_name(name),
    };
    counter(im, event, &spec, (double)(uint64_t)ftrace_int(event, "total_allocated"), ARG_SET_NONE);
    snprintf(name, sizeof(name), "mem.fastrpc_change[%s]", text);
    spec.type = "fastrpc_change";
    spec.dimensions[1] = dimension_int("utid", own_utid(im, event));
    spec.name = slice_name(name);
    counter(im, event, &spec, (double)ftrace_int(event, "len"), ARG_SET_NONE);
}

static void gpu_mem_total(struct import *im, const struct ftrace_event *event)
{
    gpu_memory_push(im, event->ts, (uint32_t)ftrace_int(event, "gpu_id"),
                    (uint32_t)ftrace_int(event, "pid"),
                    (double)(uint64_t)ftrace_int(event, "size"));
}

// Which events an allocation of contiguous memory has depends on the kernel: cma_alloc_start and
// cma_alloc_info since 5.10; since 6.1 cma_alloc_finish at the end, with what it took in between in
// mm_alloc_contig_migrate_range_info.
static void cma_alloc_start(struct import *im, const struct ftrace_event *event)
{
    struct buffers *buffers = event->own;
    uint32_t version = im->machine->kernel_version;
    if (version < KERNEL(5, 10))
        return;
    int64_t utid = own_utid(im, event);
    map64_remove(&buffers->cma_of, (uint64_t)utid);
    struct slice_spec spec = {
        .ts = event->ts, .track = thread_track_get(im, utid), .name = slice_name("mm_cma_alloc")};
    slice_begin(&im->slices, &spec);
}

static void cma_migrate_info(struct import *im, const struct ftrace_event *event)
{
    struct buffers *buffers = event->own;
    if (im->machine->kernel_version < KERNEL(6, 1))
        return;
    struct cma_migration migration = {
        (uint64_t)ftrace_int(event, "nr_migrated"),
        (uint64_t)ftrace_int(event, "nr_reclaimed"),
        (uint64_t)ftrace_int(event, "nr_mapped"),
    };
    uint64_t utid = (uint64_t)own_utid(im, event);
    const uint64_t *known = map64_find(&buffers->cma_of, utid);
    if (known)
        buffers->migrations.items[*known] = migration;
    else if (cma_migration_vec_push(&buffers->migrations, migration) < 0 ||
             map64_set(&buffers->cma_of, utid, buffers->migrations.n - 1) < 0)
        import_fail(im, -ENOMEM);
}

static void cma_end(struct import *im, const struct ftrace_event *event, const struct arg *args,
                    size_t n)
{
    struct slice_spec spec = {
        .ts = event->ts, .track = ftrace_own_track(im, event), .args = args, .n_args = n};
    slice_end(&im->slices, &spec);
}

static void cma_alloc_finish(struct import *im, const struct ftrace_event *event)
{
    struct buffers *buffers = event->own;
    if (im->machine->kernel_version < KERNEL(6, 1))
        return;
    struct cma_migration migration = {0};
    const uint64_t *known = map64_find(&buffers->cma_of, (uint64_t)own_utid(im, event));
    if (known)
        migration = buffers->migrations.items[*known];
    struct slice_name name = ftrace_text(event, "name");
    struct arg args[] = {
        arg_text("cma_name", name.text, name.size),
        arg_uint("cma_pfn", (uint64_t)ftrace_int(event, "pfn")),
        arg_uint("cma_req_pages", (uint64_t)ftrace_int(event, "count")),
        arg_uint("cma_nr_migrated", migration.n_migrated),
        arg_uint("cma_nr_reclaimed", migration.n_reclaimed),
        arg_uint("cma_nr_mapped", migration.n_mapped),
    };
    cma_end(im, event, args, 6);
}

static void cma_alloc_info(struct import *im, const struct ftrace_event *event)
{
    uint32_t version = im->machine->kernel_version;
    if (version < KERNEL(5, 10) || version >= KERNEL(6, 1))
        return;
    struct slice_name name = ftrace_text(event, "name");
    struct arg args[] = {
        arg_text("cma_name", name.text, name.size),
        arg_uint("cma_pfn", (uint64_t)ftrace_int(event, "pfn")),
        arg_uint("cma_req_pages", (uint64_t)ftrace_int(event, "count")),
        arg_uint("cma_nr_migrated", (uint64_t)ftrace_int(event, "nr_migrated")),
        arg_uint("cma_nr_reclaimed", (uint64_t)ftrace_int(event, "nr_reclaimed")),
        arg_uint("cma_nr_mapped", (uint64_t)ftrace_int(event, "nr_mapped")),
        arg_uint("cma_nr_isolate_fail", (uint64_t)ftrace_int(event, "err_iso")),
        arg_uint("cma_nr_migrate_fail", (uint64_t)ftrace_int(event, "err_mig")),
        arg_uint("cma_nr_test_fail", (uint64_t)ftrace_int(event, "err_test")),
    };
    cma_end(im, event, args, 9);
}

static const struct ftrace_handler handlers[] = {
    {"ion_heap_grow", ion_heap_grow},
    {"ion_heap_shrink", ion_heap_shrink},
    {"ion_stat", ion_stat},
    {"dma_heap_stat", dma_heap_stat},
    {"dmabuf_rss_stat", dmabuf_rss_stat},
    {"fastrpc_dma_stat", fastrpc_dma_stat},
    {"gpu_mem_total", gpu_mem_total},
    {"cma_alloc_start", cma_alloc_start},
    {"mm_alloc_contig_migrate_range_info", cma_migrate_info},
    {"cma_alloc_finish", cma_alloc_finish},
    {"cma_alloc_info", cma_alloc_info},
    {0},
};

static void buffers_done(void *state)
{
    struct buffers *buffers = state;
    map64_done(&buffers->cma_of);
    cma_migration_vec_done(&buffers->migrations);
}

const struct ftrace_subject ftrace_buffers = {
    .handlers = handlers,
    .state_size = sizeof(struct buffers),
    .done = buffers_done,
};
