// SPDX-License-Identifier: Apache-2.0
//
// The program headers lead to the index (PT_GNU_EH_FRAME), also in stripped files. The index says
// where .eh_frame begins, but not where it ends: everything up to the end of the segment is copied.
#include "producer/heap/elf_unwind.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PARTS_MAX 256
#define PIECE     65536

// The only form that linkers write: version 1; the address of .eh_frame, 4 bytes relative to their
// own address; the number of entries, 4 bytes; the entries, 4 bytes relative to the index.
static const uint8_t usual_form[4] = {1, 0x1b, 0x03, 0x3b};

static bool read_whole(int fd, void *bytes, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX - size && pread(fd, bytes, size, (off_t)offset) == (ssize_t)size;
}

static bool has(const Elf64_Phdr *part, uint64_t address)
{
    return part->p_type == PT_LOAD && address >= part->p_vaddr &&
           address - part->p_vaddr < part->p_filesz;
}

static int copy(int fd, int to_fd, uint64_t offset, uint64_t size)
{
    char piece[PIECE];
    for (uint64_t done = 0; done < size;) {
        size_t n = size - done < PIECE ? (size_t)(size - done) : PIECE;
        if (!read_whole(fd, piece, n, offset + done))
            return -ENOEXEC;
        if (pwrite(to_fd, piece, n, (off_t)done) != (ssize_t)n)
            return -EIO;
        done += n;
    }
    return 0;
}

// Finds the bounds of all that is mapped, and the place of the code.
static const Elf64_Phdr *walk(const Elf64_Phdr *parts, size_t n, struct elf_unwind *ret)
{
    const Elf64_Phdr *index = NULL;
    bool has_code = false;
    ret->low = UINT64_MAX;
    for (const Elf64_Phdr *part = parts; part < parts + n; part++) {
        if (part->p_type == PT_GNU_EH_FRAME)
            index = part;
        if (part->p_type != PT_LOAD || part->p_memsz > UINT64_MAX - part->p_vaddr)
            continue;
        ret->low = part->p_vaddr < ret->low ? part->p_vaddr : ret->low;
        if (part->p_vaddr + part->p_memsz > ret->high)
            ret->high = part->p_vaddr + part->p_memsz;
        if ((part->p_flags & PF_X) && !has_code) {
            ret->load_bias = part->p_vaddr - part->p_offset;
            has_code = true;
        }
    }
    return has_code ? index : NULL;
}

int elf_unwind_copy(int fd, int to_fd, struct elf_unwind *ret)
{
    Elf64_Ehdr header;
    Elf64_Phdr parts[PARTS_MAX];
    struct elf_unwind found = {0};
    uint8_t begin[8];
    int32_t distance;
    if (!read_whole(fd, &header, sizeof(header), 0) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof(parts[0]) || header.e_phnum > PARTS_MAX ||
        !read_whole(fd, parts, header.e_phnum * sizeof(parts[0]), header.e_phoff))
        return -ENOEXEC;
    const Elf64_Phdr *index = walk(parts, header.e_phnum, &found), *whole = NULL;
    for (size_t i = 0; index && !whole && i < header.e_phnum; i++)
        if (has(&parts[i], index->p_vaddr))
            whole = &parts[i];
    if (!whole || index->p_filesz <= sizeof(begin) ||
        index->p_filesz > whole->p_filesz - (index->p_vaddr - whole->p_vaddr) ||
        !read_whole(fd, begin, sizeof(begin),
                    whole->p_offset + (index->p_vaddr - whole->p_vaddr)) ||
        memcmp(begin, usual_form, sizeof(usual_form)) != 0)
        return -ENOENT;
    memcpy(&distance, begin + sizeof(usual_form), sizeof(distance));
    uint64_t frames = index->p_vaddr + sizeof(usual_form) + (uint64_t)(int64_t)distance;
    if (!has(whole, frames))
        return -ENOENT;
    found.start = frames < index->p_vaddr ? frames : index->p_vaddr;
    found.size = whole->p_filesz - (found.start - whole->p_vaddr);
    found.index = index->p_vaddr;
    found.index_size = index->p_filesz;
    if (found.size > ELF_UNWIND_MAX)
        return -EFBIG;
    int r = copy(fd, to_fd, whole->p_offset + (found.start - whole->p_vaddr), found.size);
    if (r == 0)
        *ret = found;
    return r;
}
