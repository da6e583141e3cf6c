// SPDX-License-Identifier: Apache-2.0
//
// Records of simpleperf's reports. A file may follow the samples that refer to the file, so files
// are read in file order.
#include "converter/import/importer.h"
#include "converter/import/profile/samples.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define FRAMES_MAX 4096

struct simpleperf_file {
    int64_t mapping;
    struct wire_field message;      // File
    size_t first_symbol, n_symbols; // in symbols
};
VEC_DEFINE(simpleperf_file_vec, struct simpleperf_file);
VEC_DEFINE(simpleperf_symbol_vec, uint32_t);

struct simpleperf {
    struct map64 by_id; // id of a file -> index in files
    struct simpleperf_file_vec files;
    struct simpleperf_symbol_vec symbols; // in strings
};

static void file_read(struct import *im, struct simpleperf *state, const struct wire_field *message)
{
    static const int64_t all_addresses[5] = {[3] = -1};
    MESSAGE(part, SimpleperfRecord_File, message);
    uint32_t empty = strset_add(&im->strings, "", 0);
    struct simpleperf_file file = {
        .mapping = stacks_mapping(im, import_keep(im, &part.path), empty, all_addresses),
        .message = *message,
        .first_symbol = state->symbols.n,
    };
    for (struct fields each = fields_of(message, PB_SimpleperfRecord_File_symbol);
         fields_next(&each) && !import_failed(im);)
        import_fail(im, simpleperf_symbol_vec_push(&state->symbols, import_keep(im, &each.field)));
    file.n_symbols = state->symbols.n - file.first_symbol;
    import_fail(im, simpleperf_file_vec_push(&state->files, file));
    import_map_set(im, &state->by_id, field_u64(&part.id), state->files.n - 1);
}

static void simpleperf_now(struct import *im, const struct packet *packet)
{
    MESSAGE(record, SimpleperfRecord, packet->message);
    if (field_present(&record.file))
        file_read(im, packet->own, &record.file);
}

static void thread_read(struct import *im, const struct wire_field *message)
{
    MESSAGE(part, SimpleperfRecord_Thread, message);
    uint32_t tid = (uint32_t)field_u64(&part.thread_id),
             pid = (uint32_t)field_u64(&part.process_id);
    if (!tid || !pid)
        return;
    int64_t utid = processes_update_thread(&im->processes, tid, pid);
    if (field_present(&part.thread_name))
        processes_name_thread(&im->processes, utid, import_keep(im, &part.thread_name), NAME_OTHER);
}

// Reads a call chain. False: the trace lacks a file of the call chain.
static bool chain_read(struct import *im, const struct simpleperf *state,
                       const struct wire_field *message, int64_t *ret)
{
    struct wire_field frames[FRAMES_MAX];
    int64_t callsite = CALLSITE_NONE, depth = 0;
    size_t n = 0;
    for (struct fields each = fields_of(message, PB_SimpleperfRecord_Sample_callchain);
         fields_next(&each);)
        if (n < FRAMES_MAX)
            frames[n++] = each.field;
    while (n-- > 0) {
        MESSAGE(part, SimpleperfRecord_Sample_CallChainEntry, &frames[n]);
        const uint64_t *index = map64_find(&state->by_id, field_u64(&part.file_id));
        if (!index)
            return false;
        const struct simpleperf_file *file = &state->files.items[*index];
        int32_t symbol = (int32_t)field_u64(&part.symbol_id);
        uint32_t name = symbol >= 0 && (size_t)symbol < file->n_symbols
                            ? state->symbols.items[file->first_symbol + (size_t)symbol]
                            : STRSET_NONE;
        int64_t frame = stacks_frame(im, file->mapping, field_i64(&part.vaddr_in_file), name,
                                     STRSET_NONE, 0, STRSET_NONE);
        callsite = stacks_child(im, callsite, frame, depth++);
    }
    *ret = callsite;
    return true;
}

static void simpleperf_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(record, SimpleperfRecord, packet->message);
    if (field_present(&record.thread))
        thread_read(im, &record.thread);
    if (!field_present(&record.sample))
        return;
    MESSAGE(part, SimpleperfRecord_Sample, &record.sample);
    struct sample sample = {
        .ts = packet->ts,
        .source = "simpleperf",
        .utid = processes_thread(&im->processes, (uint32_t)field_u64(&part.thread_id)),
        .upid = SAMPLE_NONE,
        .async = SAMPLE_NONE,
        .cpu = SAMPLE_NONE,
        .session = SAMPLE_NONE,
    };
    if (!chain_read(im, packet->own, &record.sample, &sample.callsite))
        stats_add(&im->stats, STAT_simpleperf_missing_file_mapping, 1);
    else if (sample.callsite != CALLSITE_NONE)
        sample_write(im, &sample);
}

static void simpleperf_done(void *userdata)
{
    struct simpleperf *state = userdata;
    map64_done(&state->by_id);
    simpleperf_file_vec_done(&state->files);
    simpleperf_symbol_vec_done(&state->symbols);
}

const struct importer importer_simpleperf_record = {
    .field = PB_TracePacket_simpleperf_record,
    .now = simpleperf_now,
    .sorted = simpleperf_sorted,
    .state_size = sizeof(struct simpleperf),
    .done = simpleperf_done,
};
