// SPDX-License-Identifier: Apache-2.0
//
// TranslationTable: rules for translations.h. A rule is an entry of a protobuf map: key and value.
// If several rules have the same key, the first rule counts for a hash and the last rule for a
// name, as in Perfetto.
#include <errno.h>

#include "converter/import/importer.h"
#include "protos/fields.h"

static uint32_t text_add(struct translations *all, const struct wire_field *text)
{
    return strset_add(all->strings, field_text(text), text->size);
}

// Reads the rules in the field `number` of the table.
static void hashes_read(struct translations *all, const struct wire_field *table, uint32_t number,
                        enum translated_hash kind)
{
    for (struct fields each = fields_of(table, number); fields_next(&each);) {
        MESSAGE(entry, ChromeHistorgramTranslationTable_HashToNameEntry, &each.field);
        uint32_t name = text_add(all, &entry.value);
        bool is_new;
        if (name == STRSET_NONE ||
            !map64_get_or_add(&all->hashes[kind], field_u64(&entry.key), name, &is_new))
            failure_note(all->strings->failure, -ENOMEM);
        all->has_hashes = true;
    }
}

static void names_read(struct translations *all, const struct wire_field *table, uint32_t number,
                       struct map64 *rules)
{
    for (struct fields each = fields_of(table, number); fields_next(&each);) {
        MESSAGE(entry, SliceNameTranslationTable_RawToDeobfuscatedNameEntry, &each.field);
        uint32_t key = text_add(all, &entry.key), name = text_add(all, &entry.value);
        if (key != STRSET_NONE && name != STRSET_NONE)
            failure_note(all->strings->failure, map64_set(rules, key, name));
    }
}

static void table_now(struct import *im, const struct packet *packet)
{
    struct translations *all = &im->translations;
    MESSAGE(table, TranslationTable, packet->message);
    const struct wire_field *marks = &table.chrome_performance_mark;
    if (field_present(&table.chrome_histogram)) {
        hashes_read(all, &table.chrome_histogram, PB_ChromeHistorgramTranslationTable_hash_to_name,
                    HASH_HISTOGRAM);
    } else if (field_present(&table.chrome_user_event)) {
        hashes_read(all, &table.chrome_user_event,
                    PB_ChromeUserEventTranslationTable_action_hash_to_name, HASH_USER_EVENT);
    } else if (field_present(marks)) {
        hashes_read(all, marks, PB_ChromePerformanceMarkTranslationTable_site_hash_to_name,
                    HASH_MARK_SITE);
        hashes_read(all, marks, PB_ChromePerformanceMarkTranslationTable_mark_hash_to_name,
                    HASH_MARK);
    } else if (field_present(&table.slice_name)) {
        names_read(all, &table.slice_name, PB_SliceNameTranslationTable_raw_to_deobfuscated_name,
                   &all->slices);
    } else if (field_present(&table.process_track_name)) {
        names_read(all, &table.process_track_name,
                   PB_ProcessTrackNameTranslationTable_raw_to_deobfuscated_name,
                   &all->process_tracks);
    } else {
        hashes_read(all, &table.chrome_study, PB_ChromeStudyTranslationTable_hash_to_name,
                    HASH_STUDY);
    }
}

const struct importer importer_translation_table = {
    .field = PB_TracePacket_translation_table,
    .now = table_now,
};
