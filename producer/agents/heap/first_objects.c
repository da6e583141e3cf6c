// SPDX-License-Identifier: Apache-2.0
//
// Copies the loader's descriptions of these objects. The memory that the descriptions point to
// stays valid as long as the process runs.
#include "producer/agents/heap/first_objects.h"

#define OBJECTS_MAX 128

static struct {
    struct dl_phdr_info items[OBJECTS_MAX];
    size_t n;
} first;

static int note(struct dl_phdr_info *info, size_t size, void *userdata)
{
    (void)size;
    (void)userdata;
    if (first.n < OBJECTS_MAX)
        first.items[first.n++] = *info;
    return 0;
}

void first_objects_note(void)
{
    first.n = 0;
    dl_iterate_phdr(note, NULL);
}

void first_objects_walk(struct got_walk *walk)
{
    for (size_t i = 0; i < first.n; i++)
        got_walk_object(walk, &first.items[i]);
}
