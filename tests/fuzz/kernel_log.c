// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a record of /dev/kmsg: the output is one line, no longer than the input and
// the time before it.
#include <stdlib.h>
#include <string.h>

#include "producer/service/armed/kernel_log.h"

#define HEAD_MAX 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf line = {0};
    uint64_t sequence;
    nsec_t time = -1;
    int r = kernel_log_format((const char *)data, size, &line, &sequence, &time);
    if (r == 0 && (time < 0 || line.size > size + HEAD_MAX ||
                   memchr(line.text, '\n', line.size) != line.text + line.size - 1))
        abort();
    if (r < 0 && line.size > 0)
        abort();
    strbuf_done(&line);
    return 0;
}
