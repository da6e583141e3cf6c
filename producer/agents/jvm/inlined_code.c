// SPDX-License-Identifier: Apache-2.0
//
// The VM describes places where a thread can be stopped or return to. The code between two places
// is attributed to the second place. This is exact for calls, and stacks consist of calls: the
// return address is described, and the call is directly before it. The innermost frame of a
// CPU profile may be off by about one instruction.
#include "producer/agents/jvm/inlined_code.h"

#include <jvmticmlr.h>
#include <stdbool.h>
#include <string.h>

#define RECORDS_MAX 16

static const jvmtiCompiledMethodLoadInlineRecord *record_find(const void *info)
{
    const jvmtiCompiledMethodLoadRecordHeader *header = info;
    for (int i = 0; header && i < RECORDS_MAX; i++, header = header->next)
        if (header->kind == JVMTI_CMLR_INLINE_INFO)
            return (const jvmtiCompiledMethodLoadInlineRecord *)header;
    return NULL;
}

static bool is_same(const struct inlined_part *a, const PCStackInfo *b)
{
    return a->n_methods == (size_t)b->numstackframes &&
           memcmp(a->methods, b->methods, a->n_methods * sizeof(a->methods[0])) == 0;
}

void inlined_code_each(const void *info, const void *address, size_t size,
                       void (*put)(void *userdata, const struct inlined_part *part), void *userdata)
{
    const jvmtiCompiledMethodLoadInlineRecord *record = record_find(info);
    uintptr_t at = (uintptr_t)address, end = at + size;
    struct inlined_part part = {.from = at, .to = at};
    for (jint i = 0; record && i < record->numpcs; i++) {
        const PCStackInfo *place = &record->pcinfo[i];
        uintptr_t pc = (uintptr_t)place->pc;
        if (pc <= part.to || pc > end || place->numstackframes <= 0)
            continue;
        if (!is_same(&part, place)) {
            if (part.n_methods > 1)
                put(userdata, &part);
            part.from = part.to;
            part.methods = place->methods;
            part.n_methods = (size_t)place->numstackframes;
        }
        part.to = pc;
    }
    if (part.n_methods > 1)
        put(userdata, &part);
}
