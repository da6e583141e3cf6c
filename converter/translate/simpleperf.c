// SPDX-License-Identifier: Apache-2.0
//
// simpleperf's report as protobuf: a signature, a version, then records, each after its size. A
// size of 0 ends the file. Records become packets without a change. Only their time is read here. A
// thread's record has no time, and gets the time of the sample or switch before it.
#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "common/wire.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

#define SIGNATURE_SIZE 10
#define VERSION_SIZE   2
#define LENGTH_SIZE    4
#define VERSION        1

struct simpleperf {
    struct translation *to;
    int64_t ts;
    uint64_t n_lost, n_bad, n_records;
};

static struct wire_field field_in(const struct wire_field *message, uint32_t number)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field field, found = {0};
    wire_foreach(&reader, &field)
        if (field.number == number)
            found = field;
    return found;
}

static void record_translate(struct simpleperf *simpleperf, const uint8_t *bytes, size_t size)
{
    struct wire_reader reader = wire_reader_over(bytes, size);
    struct wire_field field, time = {0};
    bool is_known = false;
    simpleperf->n_records++;
    wire_foreach(&reader, &field) {
        is_known = true;
        if (field.number == PB_SimpleperfRecord_sample)
            time = field_in(&field, PB_SimpleperfRecord_Sample_time);
        else if (field.number == PB_SimpleperfRecord_context_switch)
            time = field_in(&field, PB_SimpleperfRecord_ContextSwitch_time);
        else if (field.number == PB_SimpleperfRecord_lost) {
            struct wire_field lost = field_in(&field, PB_SimpleperfRecord_LostSituation_lost_count);
            simpleperf->n_lost += lost.value;
        }
    }
    if (reader.error || !is_known) {
        if (simpleperf->n_bad++ == 0)
            translation_damage(simpleperf->to, "record %" PRIu64 " cannot be read",
                               simpleperf->n_records);
        return;
    }
    if (time.value && time.value <= INT64_MAX)
        simpleperf->ts = (int64_t)time.value;
    packets_put(&simpleperf->to->packets, simpleperf->ts, PB_TracePacket_simpleperf_record, bytes,
                size);
}

static void problems_write(const struct simpleperf *simpleperf)
{
    struct packets *packets = &simpleperf->to->packets;
    struct wire_writer *w = packets_begin(packets, PACKETS_NO_TIME);
    size_t problems = wire_begin(w, PB_TracePacket_foreign_problems);
    if (simpleperf->n_bad)
        wire_uint(w, PB_ForeignProblems_simpleperf_records, simpleperf->n_bad);
    if (simpleperf->n_lost)
        wire_uint(w, PB_ForeignProblems_perf_samples_lost, simpleperf->n_lost);
    wire_end(w, problems);
    packets_end(packets);
}

static int simpleperf_run(struct translation *to)
{
    struct simpleperf simpleperf = {.to = to};
    const uint8_t *start = input_bytes(to->input), *end = start + input_size(to->input);
    const uint8_t *at = start + SIGNATURE_SIZE + VERSION_SIZE;
    uint16_t version;
    uint32_t size = 1;
    int r = 0;
    if (at > end)
        translation_damage(to, "the file ends in its header");
    else
        memcpy(&version, start + SIGNATURE_SIZE, sizeof(version));
    if (at <= end && le16toh(version) != VERSION) {
        translation_damage(to, "version %u of simpleperf's reports is not known", le16toh(version));
        at = end;
        size = 0;
    }
    while (r == 0 && at < end && size) {
        if (end - at < LENGTH_SIZE)
            break;
        memcpy(&size, at, sizeof(size));
        size = le32toh(size);
        if (size > (size_t)(end - at) - LENGTH_SIZE)
            break;
        at += LENGTH_SIZE;
        if (size)
            record_translate(&simpleperf, at, size);
        at += size;
        r = translation_step(to, size + LENGTH_SIZE);
    }
    if (size) {
        simpleperf.n_bad++;
        translation_damage(to, "the file ends in record %" PRIu64, simpleperf.n_records + 1);
    }
    problems_write(&simpleperf);
    return r;
}

const struct translator translator_simpleperf = {
    .type = "simpleperf_proto",
    .run = simpleperf_run,
};
