// SPDX-License-Identifier: Apache-2.0
//
// ChromeEventBundle: data of Chrome in older formats. Facts go to the metadata table, like the
// facts of ChromeMetadataPacket. Facts, and texts that are complete traces, are also rows of
// chrome_raw. Events of the oldest format, which Chrome no longer writes, are only counted.
#include <stdio.h>

#include "common/cleanup.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct bundles {
    uint32_t n; // bundles with facts so far
};

static void raw_write(struct import *im, int64_t ts, const char *name, const struct arg *args,
                      size_t n)
{
    struct cell *row = database_row(im->db, TABLE_chrome_raw, NULL);
    cell_int(row, COL_chrome_raw_ts, ts);
    cell_text(row, COL_chrome_raw_name, name);
    cell_arg_set(row, COL_chrome_raw_arg_set_id, args_add(&im->args, args, n));
}

// Reads the fact's value. False: the fact has no value.
static bool value_read(const union message_ChromeMetadata *part, struct arg *ret)
{
    const struct wire_field *text = &part->string_value;
    const struct wire_field *json = &part->json_value;
    if (field_present(text))
        *ret = arg_text(NULL, text->data, text->size);
    else if (field_present(&part->int_value))
        *ret = arg_int(NULL, field_i64(&part->int_value));
    else if (field_present(&part->bool_value))
        *ret = arg_int(NULL, field_u64(&part->bool_value) != 0);
    else if (field_present(json))
        *ret =
            (struct arg){.text = field_text(json), .size = (uint32_t)json->size, .type = ARG_JSON};
    else
        return false;
    return true;
}

static void fact_read(struct import *im, uint32_t bundle, const struct wire_field *message,
                      struct arg_vec *args)
{
    MESSAGE(part, ChromeMetadata, message);
    const struct wire_field *name = &part.name;
    struct arg arg;
    if (!value_read(&part, &arg)) {
        stats_add(&im->stats, STAT_empty_chrome_metadata, 1);
        return;
    }
    // Several instances of Chrome may have written into the trace.
    char prefix[24] = "cr-";
    if (bundle > 1)
        snprintf(prefix, sizeof(prefix), "cr-%u-", bundle);
    const char *key = metadata_name(&im->metadata, prefix, name->data, name->size);
    if (arg.type == ARG_INT)
        metadata_add_int(&im->metadata, key, arg.integer);
    else
        metadata_add_text(&im->metadata, key, (struct text){arg.text, arg.size});
    uint32_t text = import_keep(im, name);
    arg.key = strset_text(&im->strings, text);
    if (arg.key)
        import_fail(im, arg_vec_push(args, arg));
}

static void facts_read(struct import *im, struct bundles *state, int64_t ts,
                       const struct wire_field *message)
{
    CLEANUP(arg_vec_done) struct arg_vec args = {0};
    uint32_t bundle = ++state->n;
    for (struct fields each = fields_of(message, PB_ChromeEventBundle_metadata);
         fields_next(&each);)
        fact_read(im, bundle, &each.field, &args);
    raw_write(im, ts, "chrome_event.metadata", args.items, args.n);
}

// Joins the pieces of a text, and writes the text.
static void kernel_text_read(struct import *im, int64_t ts, const struct wire_field *message)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct wire_field piece = {0};
    size_t n = 0;
    for (struct fields each = fields_of(message, PB_ChromeEventBundle_legacy_ftrace_output);
         fields_next(&each);) {
        if (!each.field.data)
            continue;
        if (n++ == 1)
            strbuf_add(&text, piece.data, piece.size);
        if (n > 1)
            strbuf_add(&text, each.field.data, each.field.size);
        piece = each.field;
    }
    struct arg arg = arg_text("data", piece.data, piece.size);
    if (n > 1) {
        uint32_t id = import_strbuf_keep(im, &text);
        arg = arg_text("data", strset_text(&im->strings, id), text.size);
    }
    raw_write(im, ts, "chrome_event.legacy_system_trace", &arg, 1);
}

static void json_read(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(part, ChromeLegacyJsonTrace, message);
    const struct wire_field *data = &part.data;
    struct arg arg = arg_text("data", data->data, data->size);
    raw_write(im, ts,
              field_u64(&part.type) == PB_USER_TRACE ? "chrome_event.legacy_user_trace"
                                                     : "chrome_event.legacy_system_trace",
              &arg, 1);
}

static void bundle_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(bundle, ChromeEventBundle, packet->message);
    if (field_present(&bundle.metadata))
        facts_read(im, packet->own, packet->ts, packet->message);
    if (field_present(&bundle.legacy_ftrace_output))
        kernel_text_read(im, packet->ts, packet->message);
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    while (!import_failed(im) && wire_next(&reader, &field))
        if (field.number == PB_ChromeEventBundle_legacy_json_trace)
            json_read(im, packet->ts, &field);
        else if (field.number == PB_ChromeEventBundle_trace_events)
            stats_add(&im->stats, STAT_mmsql_chrome_events_left_out, 1);
}

const struct importer importer_chrome_events = {
    .field = PB_TracePacket_chrome_events,
    .sorted = bundle_sorted,
    .state_size = sizeof(struct bundles),
};
