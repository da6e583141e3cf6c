// SPDX-License-Identifier: Apache-2.0
//
// See pid_namespaces.h. Only the innermost number counts: the process itself sees this number.
#include "converter/import/process/pid_namespaces.h"

#include <errno.h>

#include "converter/decode/message.h"
#include "converter/import/importer.h"

static uint64_t local_key(uint32_t pid, uint32_t local)
{
    return (uint64_t)pid << 32 | local;
}

int pid_namespaces_process(struct pid_namespaces *namespaces, uint32_t pid,
                           const struct wire_field *message, uint32_t number)
{
    struct values values = values_of(message, number);
    uint64_t local, n = 0;
    while (values_next(&values, &local))
        n++;
    if (!n)
        return 0;
    int r = map64_set(&namespaces->levels, pid, n - 1);
    return r < 0 ? r : map64_set(&namespaces->tids, local_key(pid, (uint32_t)local), pid);
}

int pid_namespaces_thread(struct pid_namespaces *namespaces, uint32_t pid, uint32_t tid,
                          const struct wire_field *message, uint32_t number)
{
    struct values values = values_of(message, number);
    const uint64_t *level = map64_find(&namespaces->levels, pid);
    uint64_t local;
    for (uint64_t i = 0; values_next(&values, &local); i++) {
        if (!level)
            return -ENOENT;
        if (i == *level)
            return map64_set(&namespaces->tids, local_key(pid, (uint32_t)local), tid);
    }
    return 0;
}

bool pid_namespaces_find(const struct pid_namespaces *namespaces, uint32_t pid, uint32_t local,
                         uint32_t *ret)
{
    const uint64_t *tid = map64_find(&namespaces->tids, local_key(pid, local));
    if (tid)
        *ret = (uint32_t)*tid;
    return tid != NULL;
}

struct pid_namespaces *pid_namespaces_of(const struct import *im)
{
    return importer_state(im, &importer_process_tree);
}

void pid_namespaces_done(void *state)
{
    struct pid_namespaces *namespaces = state;
    map64_done(&namespaces->levels);
    map64_done(&namespaces->tids);
}
