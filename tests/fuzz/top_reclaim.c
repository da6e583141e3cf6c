// SPDX-License-Identifier: Apache-2.0
//
// Lines of the kernel's trace_pipe as `mmtrace top` reads them. Tasks choose their own names.
#include <stdlib.h>
#include <string.h>

#include "producer/cli/top.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct top_line lines[TOP_ROWS_MAX];
    struct top_sampler sampler = {.reclaim = top_reclaim_new()};
    if (!sampler.reclaim)
        return 0;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (data + at)) : size - at;
        char *line = malloc(length ? length : 1); // its end is the end of the memory
        if (!line)
            break;
        memcpy(line, data + at, length);
        top_reclaim_line(sampler.reclaim, line, length);
        free(line);
        at += length + 1;
    }
    size_t n = top_view_lines(&sampler, &(struct top_view){0}, 24, 80, lines), n_tasks;
    bool lost;
    const struct top_task *tasks = top_reclaim_tasks(sampler.reclaim, &n_tasks, &lost);
    for (size_t i = 0; i < n_tasks; i++)
        if (tasks[i].pid <= 0 || tasks[i].took < 0 || tasks[i].longest > tasks[i].took)
            abort();
    for (size_t i = 0; i < n; i++)
        for (const char *c = lines[i].text; *c; c++)
            if (*c < ' ' || *c > '~')
                abort();
    top_reclaim_free(sampler.reclaim);
    return 0;
}
