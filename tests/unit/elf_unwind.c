// SPDX-License-Identifier: Apache-2.0
//
// The unwind tables of this program, and of files that differ from it in one place.
#include "producer/heap/elf_unwind.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct copy {
    uint8_t *bytes;
    size_t size;
    Elf64_Phdr *index; // in the bytes
};

static void copy_init(struct copy *copy)
{
    struct stat st;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    *copy = (struct copy){.size = (size_t)st.st_size, .bytes = malloc((size_t)st.st_size)};
    assert_int_equal(pread(fd, copy->bytes, copy->size, 0), (ssize_t)copy->size);
    close(fd);
    const Elf64_Ehdr *header = (const void *)copy->bytes;
    Elf64_Phdr *parts = (Elf64_Phdr *)(copy->bytes + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++)
        if (parts[i].p_type == PT_GNU_EH_FRAME)
            copy->index = &parts[i];
    if (!copy->index)
        skip();
}

// Copies the tables of an ELF file, the first `size` bytes of `copy`, into a new *ret_fd, which the
// caller closes. Returns the result of elf_unwind_copy().
static int take(const struct copy *copy, size_t size, struct elf_unwind *ret, int *ret_fd)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    *ret_fd = memfd_create("tables", MFD_CLOEXEC);
    assert_true(fd >= 0 && *ret_fd >= 0);
    assert_int_equal(write(fd, copy->bytes, size), (ssize_t)size);
    int r = elf_unwind_copy(fd, *ret_fd, ret);
    close(fd);
    return r;
}

static int result_of(const struct copy *copy, size_t size)
{
    struct elf_unwind tables;
    int fd, r = take(copy, size, &tables, &fd);
    close(fd);
    return r;
}

static void the_tables_of_a_program_are_copied(void **state)
{
    (void)state;
    struct copy copy;
    struct elf_unwind tables;
    struct stat st;
    uint8_t begin[4];
    int fd;
    copy_init(&copy);
    assert_int_equal(take(&copy, copy.size, &tables, &fd), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal((uint64_t)st.st_size, tables.size);
    assert_int_equal(tables.index, copy.index->p_vaddr);
    assert_int_equal(tables.index_size, copy.index->p_filesz);
    assert_true(tables.start <= tables.index &&
                tables.index + tables.index_size <= tables.start + tables.size);
    assert_true(tables.low <= tables.start && tables.start + tables.size <= tables.high);
    assert_int_equal(pread(fd, begin, sizeof(begin), (off_t)(tables.index - tables.start)), 4);
    assert_int_equal(begin[0], 1); // its version
    close(fd);
    free(copy.bytes);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    struct copy copy;
    copy_init(&copy);
    Elf64_Phdr index = *copy.index;
    size_t end = (size_t)(index.p_offset + index.p_filesz);
    for (size_t size = 0; size < end; size += size < 4096 ? 7 : end / 16)
        assert_true(result_of(&copy, size) < 0);
    copy.index->p_filesz = UINT64_MAX - 7;
    assert_int_equal(result_of(&copy, copy.size), -ENOENT);
    copy.index->p_filesz = 4;
    assert_int_equal(result_of(&copy, copy.size), -ENOENT);
    *copy.index = index;
    copy.index->p_vaddr = UINT64_MAX - 3;
    assert_int_equal(result_of(&copy, copy.size), -ENOENT);
    *copy.index = index;
    copy.index->p_type = PT_NULL;
    assert_int_equal(result_of(&copy, copy.size), -ENOENT);
    *copy.index = index;
    copy.bytes[index.p_offset + 3] = 0; // another form of entries
    assert_int_equal(result_of(&copy, copy.size), -ENOENT);
    copy.bytes[index.p_offset + 3] = 0x3b;
    memset(copy.bytes + index.p_offset + 4, 0x7f, 4); // .eh_frame is far away
    assert_int_equal(result_of(&copy, copy.size), -ENOENT);
    ((Elf64_Ehdr *)(void *)copy.bytes)->e_phoff = UINT64_MAX - 8;
    assert_int_equal(result_of(&copy, copy.size), -ENOEXEC);
    free(copy.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_of_a_program_are_copied),
        cmocka_unit_test(wrong_files_are_refused),
    };
    return cmocka_run_group_tests_name("elf_unwind", tests, NULL, NULL);
}
