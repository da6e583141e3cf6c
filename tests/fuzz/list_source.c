// SPDX-License-Identifier: Apache-2.0
//
// Reads any text as the note beside a pinlist (an empty list, so that its checksum is 0): a note
// that can be read is written again, and reads equal again.
#include <stdlib.h>

#include "common/cleanup.h"
#include "producer/pintool/list_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(list_source_done) struct list_source source = {0};
    CLEANUP(list_source_done) struct list_source again = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct strbuf list = {0};
    struct list_source_change change;
    if (list_source_parse((const char *)data, size, &list, &source) < 0)
        return 0;
    if (!source.known && (source.entries.n || source.zip_name))
        abort();
    if (!source.known)
        return 0;
    list_source_encode(&source, &list, &text);
    if (list_source_parse(text.text, text.size, &list, &again) < 0)
        return 0;
    if (!again.known || again.zip_bytes != source.zip_bytes || again.entries.n != source.entries.n)
        abort();
    struct zipindex index = {.entries = source.entries};
    if (list_source_compare(&again, &index, &change) == 0 && change.n_changed)
        abort();
    return 0;
}
