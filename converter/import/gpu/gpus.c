// SPDX-License-Identifier: Apache-2.0
//
// GPUs, their frequencies, memory and logs. A GPU exists from its first mention. GpuInfo has the
// facts. The number of a GPU is its place in GpuInfo's list.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define GPUS_MAX  1024
#define EXTRA_MAX 64 // further facts of one GPU

// Numbers of GPUs of all machines.
struct gpu_numbers {
    struct map64 map; // machine and number of a GPU -> its ugpu
};

extern const struct importer importer_gpus;

static struct gpu_numbers *gpu_numbers(const struct import *im)
{
    return importer_state(im, &importer_gpus);
}

int64_t gpus_get(struct import *im, uint32_t gpu)
{
    struct map64 *map = &gpu_numbers(im)->map;
    bool is_new;
    const uint64_t *ugpu =
        import_map_get(im, map, (uint64_t)im->machine->number << 32 | gpu, map->n, &is_new);
    return ugpu ? (int64_t)*ugpu : 0;
}

void gpu_frequency_push(struct import *im, int64_t ts, uint32_t gpu, double khz)
{
    struct track_spec spec = {
        .type = "gpu_frequency",
        .unit = "kHz",
        .counter = true,
        .dimensions = {dimension_int("ugpu", gpus_get(im, gpu)), dimension_int("gpu", gpu)},
        .name = slice_name("gpufreq"),
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), khz, ARG_SET_NONE);
}

void gpu_memory_push(struct import *im, int64_t ts, uint32_t gpu, uint32_t pid, double bytes)
{
    struct track_spec spec = {
        .type = pid ? "process_gpu_memory" : "gpu_memory",
        .unit = "bytes",
        .counter = true,
        .dimensions = {dimension_int("ugpu", gpus_get(im, gpu)), dimension_int("gpu", gpu)},
        .name = slice_name("GPU Memory"),
    };
    if (pid) {
        // Reports of freed memory may follow the end of the process.
        if (processes_find_thread(&im->processes, pid) == UTID_NONE)
            return;
        int64_t utid = processes_update_thread(&im->processes, pid, pid);
        spec.dimensions[2] = dimension_int("upid", processes_thread_at(&im->processes, utid)->upid);
    }
    counter_push(im, ts, tracks_get(&im->tracks, &spec), bytes, ARG_SET_NONE);
}

struct gpu {
    uint32_t number;
    union message_GpuInfo_Gpu part;
    int64_t arg_set;
};
VEC_DEFINE(gpu_vec, struct gpu);

static int64_t extra_args(struct import *im, const struct wire_field *message)
{
    struct arg args[EXTRA_MAX];
    size_t n = 0;
    for (struct fields each = fields_of(message, PB_GpuInfo_Gpu_extra_info);
         n < EXTRA_MAX && fields_next(&each);) {
        MESSAGE(extra, GpuInfo_Gpu_KeyValue, &each.field);
        uint32_t key = strset_add(&im->strings, field_text(&extra.key), extra.key.size);
        if (extra.key.data && extra.value.data && key != STRSET_NONE)
            ARG_APPEND(
                args, n,
                arg_text(strset_text(&im->strings, key), extra.value.data, extra.value.size));
    }
    return args_add(&im->args, args, n);
}

static void info_sorted(struct import *im, const struct packet *packet)
{
    struct gpu_vec *gpus = packet->own;
    gpu_vec_clear(gpus); // the last list counts
    for (struct fields each = fields_of(packet->message, PB_GpuInfo_gpus);
         !import_failed(im) && gpus->n < GPUS_MAX && fields_next(&each);) {
        struct gpu gpu = {.number = (uint32_t)gpus->n, .arg_set = extra_args(im, &each.field)};
        message_read(wire_sub(&each.field), gpu.part.at, ELEMENTS(gpu.part.at));
        gpus_get(im, gpu.number);
        import_fail(im, gpu_vec_push(gpus, gpu));
    }
}

static void uuid_set(struct import *im, struct cell *row, const struct wire_field *uuid)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    for (size_t i = 0; i < uuid->size; i++)
        strbuf_addf(&text, "%02x", uuid->data[i]);
    uint32_t id = import_strbuf_keep(im, &text);
    if (text.size)
        cell_text(row, COL_gpu_uuid, strset_text(&im->strings, id));
}

static void facts_set(struct import *im, struct cell *row, const struct gpu *gpu)
{
    static const struct {
        uint32_t field;
        size_t column;
    } texts[] = {
        {PB_GpuInfo_Gpu_name, COL_gpu_name},
        {PB_GpuInfo_Gpu_vendor, COL_gpu_vendor},
        {PB_GpuInfo_Gpu_model, COL_gpu_model},
        {PB_GpuInfo_Gpu_architecture, COL_gpu_architecture},
        {PB_GpuInfo_Gpu_pci_bdf, COL_gpu_pci_bdf},
    };
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        if (gpu->part.at[texts[i].field].size)
            cell_field(row, texts[i].column, &gpu->part.at[texts[i].field]);
    uuid_set(im, row, &gpu->part.uuid);
    cell_arg_set(row, COL_gpu_arg_set_id, gpu->arg_set);
}

static void info_finish(struct import *im, void *state)
{
    const struct gpu_vec *gpus = state;
    const struct map64 *numbers = &gpu_numbers(im)->map;
    CLEANUP(freep) struct map64_slot *sorted = map64_sorted(numbers);
    if (!sorted)
        import_fail(im, -ENOMEM);
    for (size_t i = 0; sorted && i < numbers->n; i++) {
        if (sorted[i].key >> 32 != im->machine->number)
            continue;
        uint32_t number = (uint32_t)sorted[i].key;
        struct cell *row = database_row_with_id(im->db, TABLE_gpu, (int64_t)sorted[i].value);
        cell_int(row, COL_gpu_gpu, number);
        cell_int(row, COL_gpu_machine_id, im->machine->number);
        if (number < gpus->n)
            facts_set(im, row, &gpus->items[number]);
    }
}

static void info_done(void *state)
{
    gpu_vec_done(state);
}

static void frequency_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, GenericGpuFrequencyEvent, packet->message);
    gpu_frequency_push(im, packet->ts, (uint32_t)field_u64(&part.gpu_id),
                       (uint32_t)field_u64(&part.frequency_khz));
}

static void log_sorted(struct import *im, const struct packet *packet)
{
    static const char *const severities[] = {
        "UNSPECIFIED", "VERBOSE", "DEBUG", "INFO", "WARNING", "ERROR", "UNKNOWN_SEVERITY",
    };
    enum { UNKNOWN = ELEMENTS(severities) - 1 };
    MESSAGE(log, GpuLog, packet->message);
    uint64_t severity = field_u64(&log.severity);
    struct arg args[2];
    size_t n = 0;
    if (field_present(&log.tag))
        ARG_APPEND(args, n, arg_text("tag", log.tag.data, log.tag.size));
    if (field_present(&log.log_message))
        ARG_APPEND(args, n, arg_text("message", log.log_message.data, log.log_message.size));
    struct track_spec track = {.type = "gpu_log", .name = slice_name("GPU Log")};
    struct slice_spec spec = {
        .ts = packet->ts,
        .track = tracks_get(&im->tracks, &track),
        .name = slice_name(severities[severity < UNKNOWN ? severity : UNKNOWN]),
        .args = args,
        .n_args = n,
    };
    slice_add(&im->slices, &spec);
}

const struct importer importer_gpu_info = {
    .field = PB_TracePacket_gpu_info,
    .sorted = info_sorted,
    .state_size = sizeof(struct gpu_vec),
    .finish = info_finish,
    .done = info_done,
};
const struct importer importer_gpu_frequency = {.field = PB_TracePacket_generic_gpu_frequency_event,
                                                .sorted = frequency_sorted};
const struct importer importer_gpu_log = {.field = PB_TracePacket_gpu_log, .sorted = log_sorted};

static void gpus_done(void *state)
{
    struct gpu_numbers *numbers = state;
    map64_done(&numbers->map);
}

const struct importer importer_gpus = {
    .state_size = sizeof(struct gpu_numbers),
    .of_all_machines = true,
    .done = gpus_done,
};
