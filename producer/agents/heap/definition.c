// SPDX-License-Identifier: Apache-2.0
//
// The tables are read in memory, where the loader has mapped them.
#include "producer/agents/heap/definition.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HIDDEN 0x8000 // a version that exists for older programs

struct tables {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash, *hash;
};

static bool read_tables(const struct dl_phdr_info *object, struct tables *ret)
{
    const ElfW(Dyn) *dynamic = NULL;
    *ret = (struct tables){.base = object->dlpi_addr};
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(ret->base + object->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t value = dynamic->d_un.d_ptr; // the loader may or may not have added the base
        const void *address = (const void *)(value < ret->base ? ret->base + value : value);
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            ret->symbols = address;
            break;
        case DT_STRTAB:
            ret->strings = address;
            break;
        case DT_VERSYM:
            ret->versions = address;
            break;
        case DT_GNU_HASH:
            ret->gnu_hash = address;
            break;
        case DT_HASH:
            ret->hash = address;
            break;
        default:
            break;
        }
    }
    return ret->symbols && ret->strings;
}

static void *address_of(const struct tables *tables, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
        (tables->versions && (tables->versions[index] & HIDDEN)) ||
        strcmp(tables->strings + symbol->st_name, name) != 0)
        return NULL;
    return (void *)(tables->base + symbol->st_value);
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (uint8_t)*name;
    return hash;
}

static void *find_by_gnu_hash(const struct tables *tables, const char *name)
{
    const uint32_t *head = tables->gnu_hash;
    uint32_t n_buckets = head[0], first = head[1], n_bloom = head[2], hash = gnu_hash_of(name);
    const uint32_t *buckets = head + 4 + n_bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + n_buckets;
    uint32_t index = n_buckets ? buckets[hash % n_buckets] : 0;
    if (index < first)
        return NULL;
    for (;; index++) {
        uint32_t value = chain[index - first];
        void *address = (value | 1) == (hash | 1) ? address_of(tables, index, name) : NULL;
        if (address || (value & 1)) // the low bit marks the last entry
            return address;
    }
}

static void *find_by_hash(const struct tables *tables, const char *name)
{
    uint32_t n_symbols = tables->hash[1];
    for (uint32_t i = 0; i < n_symbols; i++) {
        void *address = address_of(tables, i, name);
        if (address)
            return address;
    }
    return NULL;
}

void *definition_find(const struct dl_phdr_info *object, const char *name)
{
    struct tables tables;
    if (!read_tables(object, &tables))
        return NULL;
    if (tables.gnu_hash)
        return find_by_gnu_hash(&tables, name);
    return tables.hash ? find_by_hash(&tables, name) : NULL;
}
