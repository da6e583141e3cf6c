// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a zip or tar archive, which may be compressed: entries that can be inflated
// are there, the others are refused with a reason.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "converter/input/archive.h"
#include "converter/input/recognise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool wanted(const char *name, const uint8_t *head, size_t size)
{
    return *name != 'n' || trace_recognise(head, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct archive_left_out left_out = {0};
    struct input *input = NULL;
    struct archive_files files = {0};
    if (input_from_memory(data, size, &err, &input) < 0)
        return 0;
    if (archive_recognise(input) &&
        archive_read(input, "x.zip", NULL, wanted, &err, &files, &left_out) < 0 && !*err.text) {
        fprintf(stderr, "it failed without a word\n");
        abort();
    }
    archive_left_out_free(&left_out);
    archive_files_free(&files);
    input_free(input);
    return 0;
}
