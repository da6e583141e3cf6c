// SPDX-License-Identifier: Apache-2.0
//
// TranslationProblems: stats of the untranslated parts of a file that is not a binary trace
// (converter/translate).
#include "common/elements.h"
#include "converter/import/importer.h"

static void problems_now(struct import *im, const struct packet *packet)
{
    MESSAGE(problems, TranslationProblems, packet->message);
    const struct {
        const struct wire_field *field;
        enum stat stat;
    } rows[] = {
        {&problems.unknown_fields, STAT_mmsql_text_unknown_fields},
        {&problems.wrong_values, STAT_mmsql_text_wrong_values},
        {&problems.wrong_packets, STAT_mmsql_text_wrong_packets},
        {&problems.json_events, STAT_json_tokenizer_failure},
        {&problems.json_time_units, STAT_json_display_time_unit},
        {&problems.json_samples, STAT_mmsql_json_samples_left_out},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        stats_add(&im->stats, rows[i].stat, field_i64(rows[i].field));
}

const struct importer importer_translation_problems = {
    .field = PB_TracePacket_translation_problems,
    .now = problems_now,
};
