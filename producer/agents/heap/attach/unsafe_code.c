// SPDX-License-Identifier: Apache-2.0
//
// Each of these functions keeps its frame while an inner function runs, so its address is on the
// stack. Some jump to a static function instead; safe_point.c detects that.
//
// The list of threads has a lock, which dlopen() takes for a library with thread-local variables. A
// function that changes the user id of all threads holds it until each thread has answered a
// signal.
#include "producer/agents/heap/attach/unsafe_code.h"

#include "common/elements.h"

static const char *const functions[] = {
    // The allocator.
    "malloc",
    "free",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "malloc_info",
    "mallinfo",
    "mallinfo2",
    "malloc_stats",
    "mallopt",
    "malloc_usable_size",
    // Start or end of a process.
    "fork",
    "_Fork",
    "vfork",
    "clone",
    "exit",
    "_exit",
    "quick_exit",
    "execve",
    "fexecve",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    // Handlers of its end, and of fork().
    "on_exit",
    "__cxa_atexit",
    "__cxa_at_quick_exit",
    "__cxa_finalize",
    "__cxa_thread_atexit_impl",
    "__register_atfork",
    // The loader.
    "dlopen",
    "dlmopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dladdr1",
    "dlinfo",
    "dlerror",
    "dl_iterate_phdr",
    "_dl_find_object",
    "__libc_dlopen_mode",
    "__libc_dlsym",
    // Threads.
    "pthread_create",
    "pthread_detach",
    "pthread_exit",
    "pthread_getattr_np",
    "pthread_getattr_default_np",
    "pthread_setattr_default_np",
    "thrd_create",
    "thrd_detach",
    "thrd_exit",
    // Ids of all threads.
    "setuid",
    "setgid",
    "seteuid",
    "setegid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "initgroups",
    // The locale, which the messages of the loader need.
    "setlocale",
    "newlocale",
    "bindtextdomain",
};

void unsafe_code_add(struct unsafe_code *code, uint64_t start, uint64_t end)
{
    if (code->n == UNSAFE_RANGES_MAX) {
        code->is_full = true;
        return;
    }
    code->ranges[code->n].start = start;
    code->ranges[code->n++].end = end;
}

void unsafe_code_add_libc(struct unsafe_code *code, const struct elf_symbols *symbols,
                          uint64_t base)
{
    for (size_t i = 0; i < ELEMENTS(functions); i++) {
        const struct elf_symbol *found = elf_symbols_named(symbols, functions[i]);
        if (found)
            unsafe_code_add(code, base + found->start, base + found->start + found->size);
    }
}

bool unsafe_code_has(const struct unsafe_code *code, uint64_t pc)
{
    for (size_t i = 0; i < code->n; i++)
        if (pc >= code->ranges[i].start && pc < code->ranges[i].end)
            return true;
    return code->is_full;
}
