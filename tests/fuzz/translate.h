// SPDX-License-Identifier: Apache-2.0
//
// Translates any bytes into packets: the packets can be framed up to their end, or the translation
// fails with a reason.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/wire.h"
#include "converter/input/input.h"
#include "converter/translate/translate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline int fuzz_translate(enum kind_id kind, const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct input *input = NULL;
    if (!size || input_from_memory(data, size, &err, &input) < 0)
        return 0;
    int r = translate(input, translator_of(kind), NULL, &err);
    struct wire_reader packets = wire_reader_over(input_bytes(input), input_size(input));
    struct wire_field packet;
    while (r == 0 && wire_next(&packets, &packet))
        ;
    if (r < 0 ? !*err.text : packets.error) {
        fprintf(stderr, r < 0 ? "it failed without a word\n" : "the packets are not whole\n");
        abort();
    }
    input_free(input);
    return 0;
}
