// SPDX-License-Identifier: Apache-2.0
//
// Text that parses prints as text that parses into the same bytes and prints the same again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/pbtext.h"
#include "protos/config/trace_config.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *pack(const ProtobufCMessage *message, size_t *ret_size)
{
    *ret_size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(*ret_size + 1);
    if (!bytes || protobuf_c_message_pack(message, bytes) != *ret_size)
        abort();
    return bytes;
}

static void check_error(const struct err *err)
{
    size_t size = strlen(err->text);
    if (!size || size >= ERR_TEXT_MAX - 1 || err->text[size - 1] != '^')
        abort();
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)err->text[i] < 0x20 && !strchr("\n\t", err->text[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *type = &pb__trace_config__descriptor;
    ProtobufCMessage *first, *second;
    struct err err = {0};
    if (pbtext_parse(type, "input", (const char *)data, size, &first, &err) < 0) {
        check_error(&err);
        return 0;
    }
    struct strbuf text = {0}, again = {0};
    pbtext_print(first, &text);
    strbuf_add(&text, "", 0);
    if (pbtext_parse(type, "printed", text.text, text.size, &second, &err) < 0)
        abort();
    pbtext_print(second, &again);
    strbuf_add(&again, "", 0);
    if (strcmp(text.text, again.text) != 0)
        abort();
    size_t first_size, second_size;
    void *first_bytes = pack(first, &first_size), *second_bytes = pack(second, &second_size);
    if (first_size != second_size || memcmp(first_bytes, second_bytes, first_size) != 0)
        abort();
    free(first_bytes);
    free(second_bytes);
    strbuf_done(&text);
    strbuf_done(&again);
    protobuf_c_message_free_unpacked(first, NULL);
    protobuf_c_message_free_unpacked(second, NULL);
    return 0;
}
