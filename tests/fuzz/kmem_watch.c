// SPDX-License-Identifier: Apache-2.0
//
// Texts of the kernel's trace_pipe, in which tasks choose their own names, and pressure thresholds
// of the command line.
#include <stdlib.h>
#include <string.h>

#include "producer/service/armed/kmem_watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_within(const char *text, size_t size, struct text part)
{
    return !part.at || (part.at >= text && part.size <= size && part.at <= text + size - part.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    struct trace_line line;
    if (kmem_watch_parse(text, size, NSEC_PER_SEC, 10000 * NSEC_PER_SEC, &line) &&
        (line.time < NSEC_PER_SEC || line.time > 10000 * NSEC_PER_SEC || line.event.at < text ||
         !line.event.size || !is_within(text, size, line.event) ||
         !is_within(text, size, line.task) || !is_within(text, size, line.name) ||
         !is_within(text, size, line.arguments)))
        abort();
    text[size] = '\0';
    kmem_watch_check_psi(text, NULL);
    free(text);
    return 0;
}
