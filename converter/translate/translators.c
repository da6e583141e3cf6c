// SPDX-License-Identifier: Apache-2.0
//
// The list of translators: a row for each kind of files (converter/input/kinds.c).
#include "common/elements.h"
#include "converter/translate/translate.h"

#define TRANSLATORS(T)                                                                             \
    T(KIND_FTRACE_TEXT, ftrace_text)                                                               \
    T(KIND_JSON, chrome_json)                                                                      \
    T(KIND_PERF_DATA, perf_data)                                                                   \
    T(KIND_PERF_TEXT, perf_text)                                                                   \
    T(KIND_SIMPLEPERF, simpleperf)                                                                 \
    T(KIND_TEXT_PROTO, text_proto)

#define DECLARED(kind, name) extern const struct translator translator_##name;
TRANSLATORS(DECLARED)

#define ROW(kind, name) {kind, &translator_##name},

const struct translator *translator_of(enum kind_id kind)
{
    static const struct {
        enum kind_id kind;
        const struct translator *translator;
    } rows[] = {TRANSLATORS(ROW){KIND_NONE, NULL}};
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        if (rows[i].kind == kind)
            return rows[i].translator;
    return NULL;
}
