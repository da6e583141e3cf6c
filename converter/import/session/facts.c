// SPDX-License-Identifier: Apache-2.0
//
// Packets with facts about a trace (the metadata table): attributes, benchmarks, the state of the
// user interface, and Chrome's versions.
#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/arg_writer.h"
#include "converter/import/importer.h"
#include "converter/import/session/attributes.h"
#include "protos/fields.h"

struct fact_field {
    uint32_t number;
    const char *name;
    bool is_list;
};

static void fact_add(struct import *im, const char *name, const struct wire_field *value)
{
    if (value->type == WIRE_BYTES)
        metadata_add_text(&im->metadata, name, field_words(value));
    else
        metadata_add_int(&im->metadata, name, field_i64(value));
}

static void fact_set(struct import *im, const char *name, const struct wire_field *value)
{
    if (value->type == WIRE_BYTES)
        metadata_set_text(&im->metadata, name, field_words(value));
    else
        metadata_set_int(&im->metadata, name, field_i64(value));
}

static void facts_read(struct import *im, const struct wire_field *message,
                       const struct fact_field *known, size_t n_known)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        for (size_t i = 0; i < n_known; i++)
            if (known[i].number == field.number)
                (known[i].is_list ? fact_add : fact_set)(im, known[i].name, &field);
    }
}

static void benchmark_now(struct import *im, const struct packet *packet)
{
    static const struct fact_field known[] = {
        {PB_ChromeBenchmarkMetadata_benchmark_start_time_us, "benchmark_start_time_us", false},
        {PB_ChromeBenchmarkMetadata_story_run_time_us, "benchmark_story_run_time_us", false},
        {PB_ChromeBenchmarkMetadata_benchmark_name, "benchmark_name", false},
        {PB_ChromeBenchmarkMetadata_benchmark_description, "benchmark_description", false},
        {PB_ChromeBenchmarkMetadata_label, "benchmark_label", false},
        {PB_ChromeBenchmarkMetadata_story_name, "benchmark_story_name", false},
        {PB_ChromeBenchmarkMetadata_story_tags, "benchmark_story_tags", true},
        {PB_ChromeBenchmarkMetadata_story_run_index, "benchmark_story_run_index", false},
        {PB_ChromeBenchmarkMetadata_had_failures, "benchmark_had_failures", false},
    };
    facts_read(im, packet->message, known, ELEMENTS(known));
}

static void ui_state_now(struct import *im, const struct packet *packet)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    base64_add(&text, packet->message->data, packet->message->size);
    if (import_strbuf_whole(im, &text))
        metadata_set_text(&im->metadata, "ui_state", (struct text){text.text, text.size});
}

void attributes_read(struct import *im, const struct wire_field *message)
{
    for (struct fields each = fields_of(message, PB_TraceAttributes_attribute);
         fields_next(&each);) {
        MESSAGE(part, TraceAttributes_Attribute, &each.field);
        const struct wire_field *key = &part.key;
        const struct wire_field *number = &part.long_value;
        const struct wire_field *text = &part.string_value;
        const struct wire_field *value = field_present(number) ? number : text;
        if (field_present(value))
            fact_set(im, metadata_name(&im->metadata, "trace_attribute.", key->data, key->size),
                     value);
    }
}

static void attributes_now(struct import *im, const struct packet *packet)
{
    attributes_read(im, packet->message);
}

// Number of instances of Chrome so far. The facts of each instance have another letter in their
// names.
struct chromes {
    uint32_t n;
};

static const char *chrome_name(struct import *im, char letter, const char *name)
{
    char prefix[] = {'c', 'r', '-', letter, '-', '\0'};
    return metadata_name(&im->metadata, prefix, name, strlen(name));
}

static void trials_read(struct import *im, char letter, const struct wire_field *message)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    size_t on_line = 0;
    for (struct fields each = fields_of(message, PB_ChromeMetadataPacket_field_trial_hashes);
         fields_next(&each);) {
        MESSAGE(trial, ChromeMetadataPacket_FinchHash, &each.field);
        if (on_line == 2)
            strbuf_add_char(&text, '\n');
        on_line = on_line == 2 ? 1 : on_line + 1;
        strbuf_addf(&text, "{ name: %u, group: %u } ", (uint32_t)field_u64(&trial.name),
                    (uint32_t)field_u64(&trial.group));
    }
    if (import_strbuf_whole(im, &text) && text.size)
        metadata_add_text(&im->metadata, chrome_name(im, letter, "field_trial_hashes"),
                          (struct text){text.text, text.size});
}

static void chrome_now(struct import *im, const struct packet *packet)
{
    static const struct fact_field known[] = {
        {PB_ChromeMetadataPacket_chrome_version_code, "playstore_version_code", true},
        {PB_ChromeMetadataPacket_app_version, "product-version", true},
        {PB_ChromeMetadataPacket_os_name, "os-name", true},
        {PB_ChromeMetadataPacket_app_package_name, "package-name", true},
        {PB_ChromeMetadataPacket_channel, "channel", true},
        {PB_ChromeMetadataPacket_enabled_categories, "enabled_categories", true},
    };
    struct chromes *chromes = packet->own;
    char letter = (char)('a' + chromes->n++ % 26);
    MESSAGE(part, ChromeMetadataPacket, packet->message);
    for (size_t i = 0; i < ELEMENTS(known); i++)
        if (field_present(&part.at[known[i].number]))
            fact_add(im, chrome_name(im, letter, known[i].name), &part.at[known[i].number]);
    trials_read(im, letter, packet->message);
    const struct wire_field *background = &part.background_tracing_metadata;
    if (!field_present(background))
        return;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    base64_add(&text, background->data, background->size);
    if (import_strbuf_whole(im, &text))
        metadata_add_text(&im->metadata, "cr-background_tracing_metadata",
                          (struct text){text.text, text.size});
    MESSAGE(inner, BackgroundTracingMetadata, background);
    if (field_present(&inner.scenario_name_hash))
        fact_add(im, "cr-scenario_name_hash", &inner.scenario_name_hash);
}

const struct importer importer_chrome_benchmark = {
    .field = PB_TracePacket_chrome_benchmark_metadata,
    .now = benchmark_now,
};
const struct importer importer_chrome_metadata = {
    .field = PB_TracePacket_chrome_metadata,
    .now = chrome_now,
    .state_size = sizeof(struct chromes),
};
const struct importer importer_trace_attributes = {
    .field = PB_TracePacket_trace_attributes,
    .now = attributes_now,
};
const struct importer importer_ui_state = {
    .field = PB_TracePacket_ui_state,
    .now = ui_state_now,
};
