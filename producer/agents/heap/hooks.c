// SPDX-License-Identifier: Apache-2.0
//
// A hook may be called after the profile has ended, because programs keep addresses of functions.
// Therefore each hook does all the work of the real function at any time.
//
// A free is recorded before the real free: its record must be in the ring before the address can be
// handed out again. An allocation is recorded after the real allocation.
//
// The loader looks at its caller's address: search paths and RTLD_NEXT depend on it. Where this
// matters the hooks are tail calls, which keep the caller's address, and new objects are looked for
// later.
//
// A program that enters a seccomp jail may permit itself only the system calls of its allocator.
// The profile therefore ends before the program enters the jail.
#include "producer/agents/heap/hooks.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/elements.h"
#include "producer/agents/heap/client.h"
#include "producer/agents/heap/definition.h"

#pragma weak dladdr1 // musl has none

// clang-format off
#define FUNCTIONS(F)                                                                               \
    F(malloc) F(calloc) F(realloc) F(reallocarray) F(free) F(posix_memalign) F(aligned_alloc)      \
    F(memalign) F(valloc) F(pvalloc) F(dlopen) F(dlmopen) F(dlclose) F(dlsym) F(dl_iterate_phdr)   \
    F(prctl) F(syscall)
// clang-format on

#define NUMBER(function) REAL_##function,
enum real { FUNCTIONS(NUMBER) };

#define REAL_AS(function, type) ((type)hooks_table[REAL_##function].real)
#define REAL(function)          REAL_AS(function, __typeof__(&(function)))

// A function that allocates `size` bytes. An allocation that is not a sample jumps to the real
// function.
#define ALLOCATOR(function, parameters, arguments)                                                 \
    static void *hook_##function parameters                                                        \
    {                                                                                              \
        if (client_passes(size))                                                                   \
            return REAL(function) arguments;                                                       \
        void *p = REAL(function) arguments;                                                        \
        client_allocated(p, size);                                                                 \
        return p;                                                                                  \
    }

ALLOCATOR(malloc, (size_t size), (size))
ALLOCATOR(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
ALLOCATOR(memalign, (size_t alignment, size_t size), (alignment, size))
ALLOCATOR(valloc, (size_t size), (size))
ALLOCATOR(pvalloc, (size_t size), (size))

static void *hook_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || client_passes(bytes))
        return REAL(calloc)(n, size);
    void *p = REAL(calloc)(n, size);
    client_allocated(p, bytes);
    return p;
}

static void *hook_realloc(void *old, size_t size)
{
    bool was_sample = client_free(old);
    if (!was_sample && client_passes(size))
        return REAL(realloc)(old, size);
    void *p = REAL(realloc)(old, size);
    if (p && (!was_sample || !client_passes(size)))
        client_allocated(p, size);
    else if (!p && was_sample && size > 0)
        client_kept(old, malloc_usable_size(old)); // realloc failed: the old allocation lives on
    return p;
}

static void *hook_reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return hook_realloc(old, bytes);
}

static void hook_free(void *p)
{
    client_free(p);
    REAL(free)(p);
}

static int hook_posix_memalign(void **ret, size_t alignment, size_t size)
{
    if (client_passes(size))
        return REAL(posix_memalign)(ret, alignment, size);
    int r = REAL(posix_memalign)(ret, alignment, size);
    if (r == 0)
        client_allocated(*ret, size);
    return r;
}

// A file with a path is opened in the same way for any caller.
static void *hook_dlopen(const char *file, int flags)
{
    if (!file || !strchr(file, '/') || strchr(file, '$')) {
        if (file)
            client_objects_changed_soon();
        return REAL(dlopen)(file, flags);
    }
    void *handle = REAL(dlopen)(file, flags);
    if (handle)
        client_objects_changed();
    return handle;
}

static void *hook_dlmopen(Lmid_t where, const char *file, int flags)
{
    if (where == LM_ID_BASE)
        client_objects_changed_soon();
    return REAL(dlmopen)(where, file, flags);
}

static int hook_dlclose(void *handle)
{
    int r = REAL(dlclose)(handle);
    client_objects_changed();
    return r;
}

static void *hook_dlsym(void *handle, const char *name)
{
    if (client_objects_pending())
        client_objects_changed();
    return REAL(dlsym)(handle, name);
}

// The callbacks run under the loader's lock. Another thread may hold a lock of the unwinder and
// wait for the loader's lock. If a callback unwound a stack, neither thread would go on.
static int hook_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *),
                                void *userdata)
{
    client_thread.in_the_list++;
    int r = REAL(dl_iterate_phdr)(callback, userdata);
    client_thread.in_the_list--;
    return r;
}

// The two calls that enter a seccomp jail.

typedef int (*prctl_fn)(int, long, long, long, long);

static int hook_prctl(int option, long a, long b, long c, long d)
{
    if (option == PR_SET_SECCOMP)
        client_enter_jail();
    return REAL_AS(prctl, prctl_fn)(option, a, b, c, d);
}

typedef long (*syscall_fn)(long, long, long, long, long, long, long);

// Returns the function that makes the call.
__attribute__((used)) static syscall_fn syscall_begins(long number, long a)
{
    if ((number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER)) ||
        (number == SYS_prctl && a == PR_SET_SECCOMP))
        client_enter_jail();
    return REAL_AS(syscall, syscall_fn);
}

#if defined(__x86_64__)
// The last argument is on the stack. A call with fewer arguments has the caller's own variables
// there, which other threads may write to: a function in C would read this place and write it
// again.
__attribute__((naked)) static long hook_syscall(void)
{
    __asm__("push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n"
            "sub $8, %rsp\n"
            ".cfi_adjust_cfa_offset 56\n"
            "call syscall_begins\n"
            "add $8, %rsp\n"
            "pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n"
            ".cfi_adjust_cfa_offset -56\n"
            "jmp *%rax\n");
}
#else
static long hook_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    return syscall_begins(number, a)(number, a, b, c, d, e, f);
}
#endif

#define HOOK(function)                                                                             \
    [REAL_##function] = {.name = #function, .hook = (void *)(uintptr_t)hook_##function},

struct got_hook hooks_table[] = {FUNCTIONS(HOOK)};

const size_t hooks_n = ELEMENTS(hooks_table);

struct definition {
    const char *name;
    void *address;
};

static int find_definition(struct dl_phdr_info *info, size_t size, void *userdata)
{
    (void)size;
    struct definition *definition = userdata;
    if (!info->dlpi_name[0])
        return 0; // the program itself
    definition->address = definition_find(info, definition->name);
    return definition->address != NULL;
}

// A program at fixed addresses that takes a function's address has a stub, which stands for the
// function everywhere. The stub jumps through the entry that will be hooked: a hook that called the
// stub would never end. The stub's symbol has no definition. The real function is in the first
// library that defines it.
static void *real_function(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    Dl_info where;
    const ElfW(Sym) *symbol = NULL;
    if (!address || !dladdr1(address, &where, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT) ||
        !symbol || symbol->st_shndx != SHN_UNDEF)
        return address;
    struct definition definition = {.name = name};
    dl_iterate_phdr(find_definition, &definition);
    return definition.address;
}

void hooks_resolve_all(struct got_hook *hooks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!hooks[i].real)
            hooks[i].real = real_function(hooks[i].name);
}

void hooks_resolve(void)
{
    hooks_resolve_all(hooks_table, hooks_n);
}

const void *hooks_allocator(void)
{
    return hooks_table[REAL_malloc].real;
}
