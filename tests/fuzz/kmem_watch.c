// SPDX-License-Identifier: Apache-2.0
//
// Texts of the kernel's trace_pipe, in which tasks choose their own names, and pressure thresholds
// of the command line.
#include <stdlib.h>
#include <string.h>

#include "producer/service/armed/kmem_watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    nsec_t time = 0;
    const char *name = NULL;
    size_t name_size = 0;
    if (kmem_watch_parse(text, size, NSEC_PER_SEC, 10000 * NSEC_PER_SEC, &time, &name,
                         &name_size) &&
        (time < NSEC_PER_SEC || time > 10000 * NSEC_PER_SEC || name < text || !name_size ||
         name_size > size || name > text + size - name_size))
        abort();
    text[size] = '\0';
    kmem_watch_check_psi(text, NULL);
    free(text);
    return 0;
}
