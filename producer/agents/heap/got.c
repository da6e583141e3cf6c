// SPDX-License-Identifier: Apache-2.0
//
// An entry is changed only while it has the loader's value: the real function or, with lazy
// binding, an address in the object itself. Hooks of other tools, and objects with an allocator of
// their own, stay as they are. Pointers to functions in data (R_*_64) are entries, too: a free
// through this pointer must be seen.
//
// Entries behind RELRO are opened (made writable) for the write and closed again. An object that
// another thread is just loading must not be closed before its loader has finished. Therefore
// /proc/self/maps is read, and only pages that were closed are closed again. Writes are whole
// words: other threads see one function or the other.
#include "producer/agents/heap/got.h"

#include <elf.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define R_SLOT     R_X86_64_JUMP_SLOT
#define R_ADDRESS  R_X86_64_GLOB_DAT
#define R_ABSOLUTE R_X86_64_64
#elif defined(__aarch64__)
#define R_SLOT     R_AARCH64_JUMP_SLOT
#define R_ADDRESS  R_AARCH64_GLOB_DAT
#define R_ABSOLUTE R_AARCH64_ABS64
#else
#error "the relocations of this machine are not known here"
#endif

#define RELOCATIONS_MAX (1u << 24)

struct object {
    const struct dl_phdr_info *info;
    uintptr_t base, start, end; // of all segments
    uintptr_t relro_start, relro_end;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2];
    size_t n_entries[2];
    bool relro_known, relro_closed, relro_open; // set by this walk
};

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(getpagesize() - 1);
}

static uintptr_t dynamic_address(const struct object *object, ElfW(Addr) value)
{
    return value < object->base ? object->base + value : value;
}

static bool is_covered(const struct object *object, uintptr_t address)
{
    return address >= object->start && address < object->end;
}

static void read_segments(struct object *object, const ElfW(Dyn) * *ret_dynamic)
{
    object->base = object->info->dlpi_addr;
    object->start = UINTPTR_MAX;
    for (int i = 0; i < object->info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->info->dlpi_phdr[i];
        uintptr_t start = object->base + segment->p_vaddr, end = start + segment->p_memsz;
        if (segment->p_type == PT_DYNAMIC) {
            *ret_dynamic = (const ElfW(Dyn) *)start;
        } else if (segment->p_type == PT_GNU_RELRO) {
            object->relro_start = page_down(start);
            object->relro_end = page_down(end);
        } else if (segment->p_type == PT_LOAD) {
            object->start = start < object->start ? start : object->start;
            object->end = end > object->end ? end : object->end;
        }
    }
}

static bool read_dynamic(struct object *object)
{
    const ElfW(Dyn) *dynamic = NULL;
    size_t sizes[2] = {0};
    bool plt_is_rela = false;
    read_segments(object, &dynamic);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t address = dynamic_address(object, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            object->symbols = (const ElfW(Sym) *)address;
            break;
        case DT_STRTAB:
            object->strings = (const char *)address;
            break;
        case DT_RELA:
            object->tables[0] = (const ElfW(Rela) *)address;
            break;
        case DT_RELASZ:
            sizes[0] = dynamic->d_un.d_val;
            break;
        case DT_JMPREL:
            object->tables[1] = (const ElfW(Rela) *)address;
            break;
        case DT_PLTRELSZ:
            sizes[1] = dynamic->d_un.d_val;
            break;
        case DT_PLTREL:
            plt_is_rela = dynamic->d_un.d_val == DT_RELA;
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < 2; i++)
        object->n_entries[i] = object->tables[i] ? sizes[i] / sizeof(ElfW(Rela)) : 0;
    if (!plt_is_rela)
        object->n_entries[1] = 0;
    return object->symbols && object->strings && object->n_entries[0] < RELOCATIONS_MAX &&
           object->n_entries[1] < RELOCATIONS_MAX;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The mappings, and whether they are writable. They are read once per walk, and again for a page
// that seems writable, because the text is long and takes the kernel a while to make. Mappings that
// do not fit count as unknown.
#define MAPPINGS_MAX 8192
#define READ_BYTES   16384

static struct {
    struct mapping {
        uintptr_t start, end;
        bool writable;
    } items[MAPPINGS_MAX];
    size_t n;
    bool is_read;
    char text[READ_BYTES];
} mappings;

struct maps_scan {
    uintptr_t numbers[2];
    int field; // 0, 1: addresses; 2: permissions; 3: the rest of the line
    int column;
};

static void scan_char(struct maps_scan *scan, char c)
{
    if (c == '\n') {
        *scan = (struct maps_scan){0};
    } else if (scan->field < 2) {
        int digit = hex_digit(c);
        if (digit >= 0)
            scan->numbers[scan->field] = scan->numbers[scan->field] << 4 | (uintptr_t)digit;
        else
            scan->field++;
    } else if (scan->field == 2 && scan->column++ == 1) {
        scan->field = 3;
        if (mappings.n < MAPPINGS_MAX)
            mappings.items[mappings.n++] =
                (struct mapping){scan->numbers[0], scan->numbers[1], c == 'w'};
    }
}

static void read_mappings(void)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    struct maps_scan scan = {0};
    mappings.n = 0;
    mappings.is_read = true;
    for (ssize_t n; fd >= 0 && (n = read(fd, mappings.text, sizeof(mappings.text))) > 0;)
        for (ssize_t i = 0; i < n; i++)
            scan_char(&scan, mappings.text[i]);
    if (fd >= 0)
        close(fd);
}

static const struct mapping *mapping_of(uintptr_t address)
{
    size_t low = 0, high = mappings.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mappings.items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < mappings.n && mappings.items[low].start <= address ? &mappings.items[low] : NULL;
}

// Returns 1 if the page is writable, 0 if not, or -1 if unknown.
static int is_writable(uintptr_t address)
{
    const struct mapping *mapping = NULL;
    if (mappings.is_read)
        mapping = mapping_of(address);
    // A writable page may belong to an object that was just being loaded, and may be closed by now.
    if (!mapping || mapping->writable) {
        read_mappings();
        mapping = mapping_of(address);
    }
    return mapping ? mapping->writable : -1;
}

static bool open_relro(struct object *object)
{
    if (!object->relro_known) {
        int writable = is_writable(object->relro_start);
        object->relro_known = true;
        object->relro_closed = writable != 1;
        object->relro_open = writable == 1;
        if (writable == 0)
            object->relro_open =
                mprotect((void *)object->relro_start, object->relro_end - object->relro_start,
                         PROT_READ | PROT_WRITE) == 0;
    }
    return object->relro_open;
}

static void close_relro(struct object *object)
{
    if (object->relro_open && object->relro_closed)
        mprotect((void *)object->relro_start, object->relro_end - object->relro_start, PROT_READ);
}

static const struct got_hook *hook_of(const struct got_walk *walk, const char *name)
{
    for (size_t i = 0; i < walk->n_hooks; i++)
        if (walk->hooks[i].name[0] == name[0] && strcmp(walk->hooks[i].name, name) == 0)
            return walk->hooks[i].real ? &walk->hooks[i] : NULL;
    return NULL;
}

static void change_entry(struct got_walk *walk, struct object *object, const ElfW(Rela) * entry)
{
    unsigned type = ELF64_R_TYPE(entry->r_info);
    if ((type != R_SLOT && type != R_ADDRESS && type != R_ABSOLUTE) ||
        (type == R_ABSOLUTE && entry->r_addend != 0))
        return;
    const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
    const struct got_hook *hook = hook_of(walk, object->strings + symbol->st_name);
    uintptr_t slot = object->base + entry->r_offset;
    if (!hook || !is_covered(object, slot) || slot % sizeof(void *) != 0)
        return;
    _Atomic(void *) *value = (_Atomic(void *) *)slot;
    void *now = atomic_load_explicit(value, memory_order_relaxed);
    bool is_lazy = type == R_SLOT && is_covered(object, (uintptr_t)now) && symbol->st_shndx == 0;
    void *wanted = walk->install ? hook->hook : hook->real;
    if (walk->install ? now != hook->real && !is_lazy : now != hook->hook)
        return;
    if (slot >= object->relro_start && slot < object->relro_end && !open_relro(object)) {
        walk->n_refused++;
        return;
    }
    atomic_store_explicit(value, wanted, memory_order_release);
    walk->n_changed++;
}

static bool is_spared(const struct got_walk *walk, const struct object *object)
{
    if (object->base == getauxval(AT_SYSINFO_EHDR) ||
        (object->base && object->base == getauxval(AT_BASE)))
        return true;
    for (size_t i = 0; i < walk->n_spared; i++)
        if (is_covered(object, (uintptr_t)walk->spared[i]))
            return true;
    return false;
}

void got_walk_object(struct got_walk *walk, const struct dl_phdr_info *info)
{
    struct object object = {.info = info};
    if (!read_dynamic(&object) || is_spared(walk, &object))
        return;
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < object.n_entries[i]; k++)
            change_entry(walk, &object, &object.tables[i][k]);
    close_relro(&object);
}

static int visit(struct dl_phdr_info *info, size_t size, void *userdata)
{
    struct got_walk *walk = userdata;
    (void)size;
    if (walk->seen)
        walk->seen(walk->userdata, info);
    got_walk_object(walk, info);
    return 0;
}

void got_walk_objects(struct got_walk *walk)
{
    mappings.is_read = false;
    dl_iterate_phdr(visit, walk);
}
