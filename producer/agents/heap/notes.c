// SPDX-License-Identifier: Apache-2.0
//
// note_find() reads only notes with an alignment of four bytes. Property notes alone have another
// alignment, and nobody looks for property notes here.
#include "producer/agents/heap/notes.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

static const uint8_t *find_in_segment(const uint8_t *p, const uint8_t *end, const char *name,
                                      uint32_t type, uint32_t *ret_size)
{
    size_t name_size = strlen(name) + 1;
    while ((size_t)(end - p) >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)p;
        uint64_t to_content = (note->n_namesz + UINT64_C(3)) & ~UINT64_C(3);
        uint64_t size = (note->n_descsz + UINT64_C(3)) & ~UINT64_C(3);
        if (to_content + size > (uint64_t)(end - p) - sizeof(*note))
            break;
        p += sizeof(*note);
        if (note->n_type == type && note->n_namesz == name_size &&
            memcmp(p, name, name_size) == 0) {
            *ret_size = note->n_descsz;
            return p + to_content;
        }
        p += to_content + size;
    }
    return NULL;
}

const uint8_t *note_find(const struct dl_phdr_info *info, const char *name, uint32_t type,
                         uint32_t *ret_size)
{
    const uint8_t *found = NULL;
    *ret_size = 0;
    for (int i = 0; i < info->dlpi_phnum && !found; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint8_t *start = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_NOTE && segment->p_align <= 4)
            found = find_in_segment(start, start + segment->p_memsz, name, type, ret_size);
    }
    return found;
}
