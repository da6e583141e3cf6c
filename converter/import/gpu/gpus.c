// SPDX-License-Identifier: Apache-2.0
//
// GPUs and what their drivers say on the side. A GPU is there as soon as anything is said of it;
// GpuInfo has the facts, its GPUs numbered in the order that they stand in.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"

enum { PACKET_GPU_LOG = 63, PACKET_GPU_INFO = 128, PACKET_GPU_FREQUENCY = 129 };
enum { LOG_SEVERITY = 1, LOG_TAG, LOG_MESSAGE };
enum { INFO_GPU = 1 };
enum { GPU_NAME = 1, GPU_VENDOR, GPU_MODEL, GPU_ARCHITECTURE, GPU_UUID, GPU_EXTRA, GPU_PCI_BDF };
enum { EXTRA_KEY = 1, EXTRA_VALUE };
enum { FREQUENCY_GPU = 1, FREQUENCY_KHZ };

#define GPUS_MAX  1024
#define EXTRA_MAX 64 // further facts of one GPU

struct gpu {
    uint32_t number;
    struct wire_field part[GPU_PCI_BDF + 1];
    int64_t arg_set;
};
VEC_DEFINE(gpu_vec, struct gpu);

static int64_t extra_args(struct import *im, const struct wire_field *message)
{
    struct arg args[EXTRA_MAX];
    size_t n = 0;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    while (n < EXTRA_MAX && wire_next(&reader, &field)) {
        if (field.number != GPU_EXTRA)
            continue;
        MESSAGE(extra, EXTRA_VALUE, &field);
        uint32_t key =
            strset_add(&im->strings, field_text(&extra[EXTRA_KEY]), extra[EXTRA_KEY].size);
        if (extra[EXTRA_KEY].data && extra[EXTRA_VALUE].data && key != STRSET_NONE)
            args[n++] = arg_text(strset_text(&im->strings, key), extra[EXTRA_VALUE].data,
                                 extra[EXTRA_VALUE].size);
    }
    return args_add(&im->args, args, n);
}

static int info_sorted(struct import *im, void *state, const struct packet *packet,
                       const struct wire_field *message)
{
    (void)packet;
    struct gpu_vec *gpus = state;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    int r = 0;
    gpu_vec_clear(gpus); // the last list counts
    while (r == 0 && gpus->n < GPUS_MAX && wire_next(&reader, &field)) {
        if (field.number != INFO_GPU)
            continue;
        struct gpu gpu = {.number = (uint32_t)gpus->n, .arg_set = extra_args(im, &field)};
        message_read(wire_sub(&field), gpu.part, GPU_PCI_BDF + 1);
        gpus_get(im, gpu.number);
        r = gpu_vec_push(gpus, gpu);
    }
    return r;
}

static void uuid_set(struct import *im, struct cell *row, const struct wire_field *uuid)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    for (size_t i = 0; i < uuid->size; i++)
        strbuf_addf(&text, "%02x", uuid->data[i]);
    uint32_t id = strset_add(&im->strings, text.text ? text.text : "", text.size);
    if (text.size)
        cell_text(row, COL_gpu_uuid, strset_text(&im->strings, id));
}

static void facts_set(struct import *im, struct cell *row, const struct gpu *gpu)
{
    static const struct {
        uint32_t field;
        size_t column;
    } texts[] = {
        {GPU_NAME, COL_gpu_name},       {GPU_VENDOR, COL_gpu_vendor},
        {GPU_MODEL, COL_gpu_model},     {GPU_ARCHITECTURE, COL_gpu_architecture},
        {GPU_PCI_BDF, COL_gpu_pci_bdf},
    };
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        if (gpu->part[texts[i].field].size)
            cell_field(row, texts[i].column, &gpu->part[texts[i].field]);
    uuid_set(im, row, &gpu->part[GPU_UUID]);
    cell_arg_set(row, COL_gpu_arg_set_id, gpu->arg_set);
}

static int info_finish(struct import *im, void *state)
{
    const struct gpu_vec *gpus = state;
    size_t cursor = 0;
    const struct map64_slot *slot;
    while ((slot = map64_next(&im->gpus, &cursor))) {
        if (slot->key >> 32 != im->machine->number)
            continue;
        uint32_t number = (uint32_t)slot->key;
        struct cell *row = database_row_with_id(im->db, TABLE_gpu, (int64_t)slot->value);
        cell_int(row, COL_gpu_gpu, number);
        cell_int(row, COL_gpu_machine_id, im->machine->number);
        if (number < gpus->n)
            facts_set(im, row, &gpus->items[number]);
    }
    return 0;
}

static void info_done(void *state)
{
    gpu_vec_done(state);
}

static int frequency_sorted(struct import *im, void *state, const struct packet *packet,
                            const struct wire_field *message)
{
    (void)state;
    MESSAGE(part, FREQUENCY_KHZ, message);
    gpu_frequency_push(im, packet->ts, (uint32_t)field_u64(&part[FREQUENCY_GPU]),
                       (uint32_t)field_u64(&part[FREQUENCY_KHZ]));
    return 0;
}

static int log_sorted(struct import *im, void *state, const struct packet *packet,
                      const struct wire_field *message)
{
    (void)state;
    static const char *const severities[] = {
        "UNSPECIFIED", "VERBOSE", "DEBUG", "INFO", "WARNING", "ERROR", "UNKNOWN_SEVERITY",
    };
    enum { UNKNOWN = ELEMENTS(severities) - 1 };
    MESSAGE(log, LOG_MESSAGE, message);
    uint64_t severity = field_u64(&log[LOG_SEVERITY]);
    struct arg args[2];
    size_t n = 0;
    if (field_present(&log[LOG_TAG]))
        args[n++] = arg_text("tag", log[LOG_TAG].data, log[LOG_TAG].size);
    if (field_present(&log[LOG_MESSAGE]))
        args[n++] = arg_text("message", log[LOG_MESSAGE].data, log[LOG_MESSAGE].size);
    struct track_spec track = {
        .type = "gpu_log", .name = "GPU Log", .name_size = strlen("GPU Log")};
    struct slice_spec spec = {
        .ts = packet->ts,
        .track = tracks_get(&im->tracks, &track),
        .name = slice_name(severities[severity < UNKNOWN ? severity : UNKNOWN]),
        .args = args,
        .n_args = n,
    };
    slice_add(&im->slices, &spec);
    return 0;
}

const struct importer importer_gpu_info = {
    .field = PACKET_GPU_INFO,
    .sorted = info_sorted,
    .state_size = sizeof(struct gpu_vec),
    .finish = info_finish,
    .done = info_done,
};
const struct importer importer_gpu_frequency = {.field = PACKET_GPU_FREQUENCY,
                                                .sorted = frequency_sorted};
const struct importer importer_gpu_log = {.field = PACKET_GPU_LOG, .sorted = log_sorted};
