// SPDX-License-Identifier: Apache-2.0
//
// Everything is read with pread() into our own memory: a file that is truncated while it is mapped
// would kill the recorder. Symbols without a size (assembler) extend up to the next symbol.
#include "producer/heap/elf_symbols.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SECTIONS_MAX 65536
#define NOTES_MAX    4096
#define SIZELESS_MAX 65536 // maximum length of a symbol without a size

// *ret is owned by the caller.
static int read_part(int fd, uint64_t offset, uint64_t size, uint64_t max, size_t extra, void **ret)
{
    if (size == 0 || offset > INT64_MAX - size)
        return -ENOEXEC;
    if (size > max)
        return -EFBIG;
    char *bytes = malloc(size + extra);
    if (!bytes)
        return -ENOMEM;
    memset(bytes + size, 0, extra);
    for (uint64_t done = 0; done < size;) {
        ssize_t n = pread(fd, bytes + done, size - done, (off_t)(offset + done));
        if (n <= 0) {
            free(bytes);
            return n < 0 ? -errno : -ENOEXEC;
        }
        done += (uint64_t)n;
    }
    *ret = bytes;
    return 0;
}

static const Elf64_Shdr *find_table(const Elf64_Shdr *sections, size_t n, bool exports)
{
    const Elf64_Shdr *found = NULL;
    for (size_t i = 0; i < n; i++) {
        if (sections[i].sh_type == SHT_SYMTAB && !exports)
            return &sections[i];
        if (sections[i].sh_type == SHT_DYNSYM)
            found = &sections[i];
    }
    return found;
}

static uint64_t padded(uint64_t size)
{
    return (size + 3) & ~UINT64_C(3);
}

// Notes are a header, a name and a description, each padded to four bytes.
static void take_build_id(const char *notes, size_t size, uint8_t *ret, uint32_t *ret_size)
{
    Elf64_Nhdr note;
    for (uint64_t at = 0; at + sizeof(note) <= size;) {
        memcpy(&note, notes + at, sizeof(note));
        uint64_t name = at + sizeof(note), id = name + padded(note.n_namesz);
        at = id + padded(note.n_descsz);
        if (at > size)
            return;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof(ELF_NOTE_GNU) ||
            memcmp(notes + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) != 0 ||
            note.n_descsz > ELF_BUILD_ID_MAX)
            continue;
        memcpy(ret, notes + id, note.n_descsz);
        *ret_size = note.n_descsz;
        return;
    }
}

static void find_build_id(int fd, const Elf64_Shdr *sections, size_t n, struct elf_symbols *ret)
{
    for (size_t i = 0; i < n && ret->build_id_size == 0; i++) {
        void *notes CLEANUP(freep) = NULL;
        if (sections[i].sh_type == SHT_NOTE &&
            read_part(fd, sections[i].sh_offset, sections[i].sh_size, NOTES_MAX, 0, &notes) == 0)
            take_build_id(notes, sections[i].sh_size, ret->build_id, &ret->build_id_size);
    }
}

static int compare_starts(const void *left, const void *right)
{
    const struct elf_symbol *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->size < b->size ? -1 : a->size > b->size;
}

// Cuts the versions, which are not part of a function's name ("memcpy@GLIBC_2.2.5"). One walk cuts
// all names: many symbols may share one text of any length, and a walk for each symbol would take
// too long.
static void cut_versions(char *strings, size_t size)
{
    for (size_t i = 1; i < size; i++)
        if (strings[i] == '@' && strings[i - 1])
            strings[i] = 0;
}

static int take_functions(const Elf64_Sym *table, size_t n, struct elf_symbols *ret)
{
    ret->items = malloc(n * sizeof(*ret->items));
    if (!ret->items)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        unsigned type = ELF64_ST_TYPE(table[i].st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || table[i].st_shndx == SHN_UNDEF ||
            table[i].st_value == 0 || table[i].st_name >= ret->strings_size)
            continue;
        ret->items[ret->n++] =
            (struct elf_symbol){table[i].st_value, table[i].st_size, table[i].st_name};
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), compare_starts);
    return 0;
}

static int read_header(int fd, Elf64_Ehdr *ret)
{
    if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
        memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0 || ret->e_ident[EI_CLASS] != ELFCLASS64)
        return -ENOEXEC;
    return 0;
}

int elf_code_read(int fd, struct elf_code *ret)
{
    struct elf_code code = {0};
    Elf64_Ehdr header;
    void *parts CLEANUP(freep) = NULL;
    int r = read_header(fd, &header);
    if (r == 0 && header.e_phentsize != sizeof(Elf64_Phdr))
        r = -ENOEXEC;
    if (r == 0)
        r = read_part(fd, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr),
                      SECTIONS_MAX * sizeof(Elf64_Phdr), 0, &parts);
    bool has_code = false;
    for (size_t i = 0; r == 0 && i < header.e_phnum; i++) {
        const Elf64_Phdr *part = (const Elf64_Phdr *)parts + i;
        void *notes CLEANUP(freep) = NULL;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) && !has_code) {
            code.load_bias = part->p_vaddr - part->p_offset;
            has_code = true;
        }
        if (part->p_type == PT_NOTE && code.build_id_size == 0 &&
            read_part(fd, part->p_offset, part->p_filesz, NOTES_MAX, 0, &notes) == 0)
            take_build_id(notes, part->p_filesz, code.build_id, &code.build_id_size);
    }
    if (r == 0)
        *ret = code;
    return r;
}

static int read_table(int fd, uint64_t table_max, bool exports, struct elf_symbols *ret)
{
    struct elf_symbols found = {0};
    Elf64_Ehdr header;
    if (read_header(fd, &header) < 0 || header.e_shentsize != sizeof(Elf64_Shdr) ||
        header.e_shnum == 0)
        return -ENOEXEC;
    void *sections CLEANUP(freep) = NULL, *table CLEANUP(freep) = NULL;
    void *strings = NULL;
    int r = read_part(fd, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr),
                      SECTIONS_MAX * sizeof(Elf64_Shdr), 0, &sections);
    const Elf64_Shdr *symbols = r == 0 ? find_table(sections, header.e_shnum, exports) : NULL;
    if (!symbols || symbols->sh_link >= header.e_shnum)
        return r < 0 ? r : -ENOEXEC;
    const Elf64_Shdr *names = (const Elf64_Shdr *)sections + symbols->sh_link;
    r = read_part(fd, symbols->sh_offset, symbols->sh_size, table_max, 0, &table);
    if (r == 0)
        r = read_part(fd, names->sh_offset, names->sh_size, table_max, 1, &strings);
    if (r < 0)
        return r;
    found.strings = strings;
    found.strings_size = names->sh_size;
    found.is_whole = symbols->sh_type == SHT_SYMTAB;
    cut_versions(strings, names->sh_size);
    find_build_id(fd, sections, header.e_shnum, &found);
    r = take_functions(table, symbols->sh_size / sizeof(Elf64_Sym), &found);
    if (r < 0)
        elf_symbols_done(&found);
    else
        *ret = found;
    return r;
}

int elf_symbols_read(int fd, uint64_t table_max, struct elf_symbols *ret)
{
    return read_table(fd, table_max, false, ret);
}

int elf_exports_read(int fd, uint64_t table_max, struct elf_symbols *ret)
{
    return read_table(fd, table_max, true, ret);
}

uint64_t elf_symbols_bytes(const struct elf_symbols *symbols)
{
    return symbols->n * sizeof(symbols->items[0]) + symbols->strings_size;
}

void elf_symbols_done(struct elf_symbols *symbols)
{
    free(symbols->items);
    free(symbols->strings);
    *symbols = (struct elf_symbols){0};
}

const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address)
{
    size_t low = 0, high = symbols->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const struct elf_symbol *found = &symbols->items[low - 1];
    uint64_t reach = found->size ? found->size : SIZELESS_MAX;
    return address - found->start < reach ? symbols->strings + found->name : NULL;
}

const struct elf_symbol *elf_symbols_named(const struct elf_symbols *symbols, const char *name)
{
    for (size_t i = 0; i < symbols->n; i++)
        if (strcmp(symbols->strings + symbols->items[i].name, name) == 0)
            return &symbols->items[i];
    return NULL;
}
