// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/heap/elf_symbols.h"
#include "producer/heap/elf_unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_symbols symbols;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size &&
        elf_symbols_read(fd, ELF_TABLE_MAX, &symbols) == 0) {
        for (size_t i = 0; i < symbols.n; i++) {
            const char *name = elf_symbols_find(&symbols, symbols.items[i].start);
            if (name && strlen(name) > size)
                abort();
        }
        elf_symbols_find(&symbols, 0);
        elf_symbols_find(&symbols, UINT64_MAX);
        elf_symbols_done(&symbols);
    }
    struct elf_unwind tables;
    int to_fd = memfd_create("tables", MFD_CLOEXEC);
    if (elf_unwind_copy(fd, to_fd, &tables) == 0 &&
        (tables.size > size || tables.index < tables.start ||
         tables.index_size > tables.size - (tables.index - tables.start)))
        abort();
    close(to_fd);
    close(fd);
    return 0;
}
