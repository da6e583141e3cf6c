// SPDX-License-Identifier: Apache-2.0
//
// Memory of devices: buffers of ion and dma heaps, contiguous memory (CMA), memory of GPUs and
// DSPs. Totals are counters; each buffer is a slice from allocation to release.
#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/process/process_counters.h"

#define KERNEL(major, minor) ((uint32_t)(major) << 16 | (minor))

// Page counts of a thread's CMA allocation.
struct cma_migration {
    uint64_t n[3]; // pages, in the order of cma_numbers from MIGRATED on
};
VEC_DEFINE(cma_migration_vec, struct cma_migration);

struct buffers {
    struct map64 cma_of; // thread -> index of migrations
    struct cma_migration_vec migrations;
};

static int64_t own_utid(struct import *im, const struct ftrace_event *event)
{
    return processes_thread(&im->processes, event->pid);
}

// Adds the new total of a heap. The heap grows or, with a detail, shrinks. The event has the total
// before the change.
static void ion_heap(struct import *im, const struct ftrace_event *event)
{
    struct slice_name heap =
        ftrace_has(event, "heap_name") ? ftrace_text(event, "heap_name") : slice_name("unknown");
    double len = (double)(uint64_t)ftrace_int(event, "len"), change = event->detail ? -len : len;
    struct track_spec spec = {.counter = true, .dimensions = {dimension_name("heap_name", heap)}};
    for (int i = 0; i < 2; i++) {
        CLEANUP(strbuf_done) struct strbuf name = {0};
        strbuf_addf(&name, "mem.%s%s", i ? "ion_change" : "ion", heap.size ? "." : "");
        strbuf_add(&name, heap.text, heap.size);
        spec.type = i ? "ion_change" : "ion";
        spec.name = (struct slice_name){name.text, name.size};
        if (i)
            spec.dimensions[1] = dimension_int("utid", own_utid(im, event));
        counter_push(im, event->ts, tracks_get(&im->tracks, &spec),
                     i ? change : (double)ftrace_int(event, "total_allocated") + change,
                     ARG_SET_NONE);
    }
}

static void dmabuf_rss_stat(struct import *im, const struct ftrace_event *event)
{
    process_counter_push(im, event->ts, own_utid(im, event), PROCESS_COUNTER_MEMORY, "dmabuf_rss",
                         NULL, (double)(uint64_t)ftrace_int(event, "rss"));
}

static void gpu_mem_total(struct import *im, const struct ftrace_event *event)
{
    gpu_memory_push(im, event->ts, (uint32_t)ftrace_int(event, "gpu_id"),
                    (uint32_t)ftrace_int(event, "pid"),
                    (double)(uint64_t)ftrace_int(event, "size"));
}

// Begins the slice of a CMA allocation. The events of an allocation depend on the kernel:
// cma_alloc_start and cma_alloc_info from 5.10 on; cma_alloc_start,
// mm_alloc_contig_migrate_range_info with page counts, and cma_alloc_finish from 6.1 on.
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

// The numbers of an allocation: args, and fields of the events. From MIGRATED to before
// MIGRATED_END, the numbers are counts of migrated pages.
enum { MIGRATED = 2, MIGRATED_END = 5 };
static const struct {
    const char *key, *field;
} cma_numbers[] = {
    {"cma_pfn", "pfn"},
    {"cma_req_pages", "count"},
    {"cma_nr_migrated", "nr_migrated"},
    {"cma_nr_reclaimed", "nr_reclaimed"},
    {"cma_nr_mapped", "nr_mapped"},
    {"cma_nr_isolate_fail", "err_iso"},
    {"cma_nr_migrate_fail", "err_mig"},
    {"cma_nr_test_fail", "err_test"},
};

static void cma_migrate_info(struct import *im, const struct ftrace_event *event)
{
    struct buffers *buffers = event->own;
    struct cma_migration migration;
    bool is_new;
    if (im->machine->kernel_version < KERNEL(6, 1))
        return;
    for (size_t i = MIGRATED; i < MIGRATED_END; i++)
        migration.n[i - MIGRATED] = (uint64_t)ftrace_int(event, cma_numbers[i].field);
    const uint64_t *index = import_map_get(im, &buffers->cma_of, (uint64_t)own_utid(im, event),
                                           buffers->migrations.n, &is_new);
    if (index && is_new)
        import_fail(im, cma_migration_vec_push(&buffers->migrations, migration));
    else if (index)
        buffers->migrations.items[*index] = migration;
}

// Ends the slice of a CMA allocation. The counts of migrated pages are in `migration`, or in the
// event if `migration` is NULL.
static void cma_end(struct import *im, const struct ftrace_event *event,
                    const struct cma_migration *migration)
{
    struct arg args[1 + ELEMENTS(cma_numbers)] = {arg_name("cma_name", ftrace_text(event, "name"))};
    size_t n = migration ? MIGRATED_END : ELEMENTS(cma_numbers);
    for (size_t i = 0; i < n; i++)
        args[1 + i] =
            arg_uint(cma_numbers[i].key, migration && i >= MIGRATED
                                             ? migration->n[i - MIGRATED]
                                             : (uint64_t)ftrace_int(event, cma_numbers[i].field));
    struct slice_spec spec = {
        .ts = event->ts, .track = ftrace_own_track(im, event), .args = args, .n_args = 1 + n};
    slice_end(&im->slices, &spec);
}

static void cma_alloc_finish(struct import *im, const struct ftrace_event *event)
{
    static const struct cma_migration none = {0};
    const struct buffers *buffers = event->own;
    if (im->machine->kernel_version < KERNEL(6, 1))
        return;
    const uint64_t *known = map64_find(&buffers->cma_of, (uint64_t)own_utid(im, event));
    cma_end(im, event, known ? &buffers->migrations.items[*known] : &none);
}

static void cma_alloc_info(struct import *im, const struct ftrace_event *event)
{
    uint32_t version = im->machine->kernel_version;
    if (version >= KERNEL(5, 10) && version < KERNEL(6, 1))
        cma_end(im, event, NULL);
}

// A buffer is allocated (len > 0) or released.
#define BUFFER(does, a_when, a_type, a_track, a_cookie)                                            \
    (does), .when = (a_when), .type = (a_type), .track = (a_track), .cookie = (a_cookie)
#define ION_BUFFER(does, when)                                                                     \
    BUFFER(does, when, "android_ion_allocations", "mem.ion_buffer", "buffer_id")
#define DMA_BUFFER(does, when)                                                                     \
    BUFFER(does, when, "android_dma_allocations", "mem.dma_buffer", "inode")
#define FASTRPC "[{cid?ASDP,MDSP,SDSP,CDSP;#}]"

static const struct ftrace_form forms[] = {
    {"ion_heap_grow", FORM_CALL(ion_heap)},
    {"ion_heap_shrink", FORM_CALL(ion_heap), .detail = "shrinks"},
    {"ion_stat", FORM_COUNTER, .type = "ion", .key = "heap_name=''", .track = "mem.ion",
     .value = "total_allocated"},
    {"", FORM_COUNTER, .type = "ion_change", .key = "heap_name='', utid=@pid:thread",
     .track = "mem.ion_change", .value = "len"},
    {"", ION_BUFFER(FORM_BEGIN, "len>0"), .name = "{len:k} kB"},
    {"", ION_BUFFER(FORM_END, "len<=0")},
    {"dma_heap_stat", FORM_COUNTER, .type = "android_dma_heap", .track = "mem.dma_heap",
     .value = "total_allocated"},
    {"", FORM_COUNTER, .type = "android_dma_heap_change", .key = "utid=@pid:thread",
     .track = "mem.dma_heap_change", .value = "len", .args = "inode"},
    {"", DMA_BUFFER(FORM_BEGIN, "len>0"), .name = "{len:k} kB"},
    {"", DMA_BUFFER(FORM_END, "len<=0")},
    {"dmabuf_rss_stat", FORM_CALL(dmabuf_rss_stat)},
    {"fastrpc_dma_stat", FORM_COUNTER, .type = "fastrpc", .key = "cid:u",
     .track = "mem.fastrpc" FASTRPC, .value = "total_allocated"},
    {"", FORM_COUNTER, .type = "fastrpc_change", .key = "cid:u, utid=@pid:thread",
     .track = "mem.fastrpc_change" FASTRPC, .value = "len"},
    {"gpu_mem_total", FORM_CALL(gpu_mem_total)},
    {"cma_alloc_start", FORM_CALL(cma_alloc_start)},
    {"mm_alloc_contig_migrate_range_info", FORM_CALL(cma_migrate_info)},
    {"cma_alloc_finish", FORM_CALL(cma_alloc_finish)},
    {"cma_alloc_info", FORM_CALL(cma_alloc_info)},
    {0},
};

static void buffers_done(void *state)
{
    cma_migration_vec_done(&((struct buffers *)state)->migrations);
}

const struct ftrace_subject ftrace_buffers = {
    .forms = forms,
    .state_size = sizeof(struct buffers),
    .n_maps = 1,
    .done = buffers_done,
};
