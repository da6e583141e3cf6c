// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a zip with a pinlist inside: the unpacked list has the size and checksum of
// the directory, and the note about the zip fits the zip.
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "producer/pintool/embedded_list.h"
#include "producer/pintool/list_source.h"
#include "tests/fuzz/bytes.h"

#define LIST_MAX ((size_t)64 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_source(const struct pinlist *list, const struct strbuf *bytes,
                         const struct zipindex *index)
{
    CLEANUP(list_source_done) struct list_source made = {0};
    CLEANUP(list_source_done) struct list_source read = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct list_source_change change;
    if (list_source_make(list, index, "zip", 1, &made) < 0)
        return;
    list_source_encode(&made, bytes, &text);
    if (list_source_parse(text.text, text.size, bytes, &read) < 0)
        return;
    if (!read.known || read.entries.n != made.entries.n ||
        (list_source_compare(&read, index, &change) == 0 && change.n_changed))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {.data = data, .size = size};
    struct zipindex_source source = {.size_bytes = size, .read = bytes_read, .userdata = &bytes};
    CLEANUP(zipindex_done) struct zipindex index = {0};
    CLEANUP(strbuf_done) struct strbuf list_bytes = {0};
    CLEANUP(pinlist_done) struct pinlist list = {0};
    struct err err = {0};
    if (zipindex_read(&source, "zip", &index, NULL) < 0)
        return 0;
    int r = embedded_list_read(&source, &index, "zip", LIST_MAX, &list_bytes, &err);
    if ((r < 0) != (err.text[0] != '\0') || list_bytes.size > LIST_MAX)
        abort();
    if (r < 0)
        return 0;
    vec_foreach(&index.entries, entry) {
        if (str_eq(entry->name, EMBEDDED_LIST_NAME) &&
            (entry->uncompressed_bytes != list_bytes.size ||
             entry->crc32 != crc32(0, (const Bytef *)list_bytes.text, (uInt)list_bytes.size)))
            abort();
    }
    if (pinlist_parse(list_bytes.text, list_bytes.size, "list", &list, NULL) == 0)
        check_source(&list, &list_bytes, &index);
    return 0;
}
