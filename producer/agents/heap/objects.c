// SPDX-License-Identifier: Apache-2.0
//
// Called under the loader's lock and the client's own: one round runs at a time. An object is
// identified by its address and its name.
#include "producer/agents/heap/objects.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "producer/agents/heap/mapped_path.h"
#include "producer/agents/heap/notes.h"

#define OBJECTS_MAX 8192

struct known_object {
    uint64_t key;
    uint32_t round;
};

static struct {
    struct ring_writer *ring;
    struct known_object known[OBJECTS_MAX];
    size_t n;
    uint32_t round;
    bool full;
} objects;

void objects_reset(void)
{
    objects.n = 0;
}

void objects_begin(struct ring_writer *ring)
{
    objects.ring = ring;
    objects.round++;
    objects.full = false;
}

static uint64_t key_of(const struct dl_phdr_info *info)
{
    uint64_t key = info->dlpi_addr ^ (uint64_t)(uintptr_t)info->dlpi_phdr << 1;
    for (const char *c = info->dlpi_name; c && *c; c++)
        key = (key ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    return key;
}

struct build_id {
    const uint8_t *bytes;
    uint32_t size;
};

static struct build_id build_id_of(const struct dl_phdr_info *info)
{
    struct build_id id = {0};
    id.bytes = note_find(info, "GNU", NT_GNU_BUILD_ID, &id.size);
    if (id.size > HEAP_ID_MAX)
        id.size = HEAP_ID_MAX;
    return id;
}

static bool tell_segment(const struct dl_phdr_info *info, const ElfW(Phdr) * segment,
                         const char *path, size_t path_size, struct build_id id)
{
    uint64_t page = (uint64_t)getpagesize();
    struct heap_object *object =
        ring_reserve(objects.ring, HEAP_OBJECT, sizeof(*object) + id.size + path_size, 0);
    if (!object)
        return false;
    object->start = (info->dlpi_addr + segment->p_vaddr) & ~(page - 1);
    object->end = (info->dlpi_addr + segment->p_vaddr + segment->p_memsz + page - 1) & ~(page - 1);
    object->file_offset = segment->p_offset & ~(page - 1);
    object->load_bias = segment->p_vaddr - segment->p_offset;
    object->id_size = id.size;
    object->path_size = (uint32_t)path_size;
    memcpy(object + 1, id.bytes, id.size);
    memcpy((uint8_t *)(object + 1) + id.size, path, path_size);
    ring_commit(object);
    return true;
}

struct path {
    const char *text;
    size_t size;
    char room[HEAP_PATH_MAX];
};

// The loader's name of the program is empty. The name of a library is as the program gave it, and
// may be relative to a folder that was the current one.
static void path_of(const struct dl_phdr_info *info, struct path *ret)
{
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    ret->text = name;
    ret->size = strnlen(name, HEAP_PATH_MAX);
    if (*name == '/')
        return;
    ssize_t n = *name ? (ssize_t)mapped_path((uintptr_t)info->dlpi_phdr, ret->room, HEAP_PATH_MAX)
                      : readlink("/proc/self/exe", ret->room, HEAP_PATH_MAX);
    if (n > 0 || !*name) {
        ret->text = ret->room;
        ret->size = n > 0 ? (size_t)n : 0;
    }
}

static bool tell(const struct dl_phdr_info *info)
{
    struct path path;
    path_of(info, &path);
    struct build_id id = build_id_of(info);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
            !tell_segment(info, segment, path.text, path.size, id))
            return false;
    }
    return true;
}

void objects_seen(const struct dl_phdr_info *info)
{
    uint64_t key = key_of(info);
    for (size_t i = 0; i < objects.n; i++) {
        if (objects.known[i].key == key) {
            objects.known[i].round = objects.round;
            return;
        }
    }
    if (objects.full || objects.n == OBJECTS_MAX)
        return;
    if (tell(info))
        objects.known[objects.n++] = (struct known_object){key, objects.round};
    else
        objects.full = true;
}

enum objects_result objects_end(void)
{
    size_t n_here = 0;
    for (size_t i = 0; i < objects.n; i++)
        n_here += objects.known[i].round == objects.round;
    if (n_here == objects.n)
        return objects.full ? OBJECTS_AGAIN : OBJECTS_TOLD;
    struct heap_record *record = ring_reserve(objects.ring, HEAP_OBJECTS, sizeof(*record), 0);
    if (!record)
        return OBJECTS_AGAIN;
    ring_commit(record);
    objects.n = 0;
    return OBJECTS_GONE;
}
