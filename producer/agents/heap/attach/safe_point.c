// SPDX-License-Identifier: Apache-2.0
//
// A thread is safe if its whole stack is known and has none of these:
// - unsafe code (unsafe_code.h);
// - above the program's own code, a static function of the C library, unless the thread waits: this
//   function may hold any lock. aligned_alloc() and pthread_join() leave no frame and jump to a
//   static function. A static function that a signal handler has interrupted is unsafe even if the
//   handler waits;
// - nothing but the C library: the thread is just starting or ending.
//
// The stack must be the thread's first stack, and have room for the frame of the calls. A
// coroutine's stack may be too small, and the memory below it is unknown.
//
// A stack must end in a known start (of the program, or of a thread in the C library). Otherwise it
// was not followed to its end, and counts as unknown.
//
// If the program has an allocator of its own, nothing distinguishes the allocator's functions from
// others, except the functions that the program exports. Then a thread is safe only while it waits
// for something that no allocator waits for, and not in a signal handler, which may have
// interrupted the allocator.
//
// A thread in a restartable sequence is not safe: it would not restart the sequence after the
// calls.
#include "producer/agents/heap/attach/safe_point.h"

#include <libunwind-ptrace.h>
#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/elements.h"

#define FRAMES_MAX 4096
#define ENTRY_SIZE 64
#define RED_ZONE   128

// System calls in which a waiting thread holds no lock of the allocator, the loader or the list of
// threads.
static const long calls_at_rest[] = {
    SYS_accept, SYS_accept4,         SYS_connect,    SYS_epoll_pwait, SYS_epoll_wait,
    SYS_msgrcv, SYS_pause,           SYS_poll,       SYS_ppoll,       SYS_pselect6,
    SYS_read,   SYS_readv,           SYS_recvfrom,   SYS_recvmsg,     SYS_rt_sigsuspend,
    SYS_select, SYS_rt_sigtimedwait, SYS_semtimedop, SYS_sendmsg,     SYS_sendto,
    SYS_wait4,  SYS_waitid,          SYS_write,      SYS_writev,
};

static bool is_at_rest(const struct tracee *tracee)
{
    for (size_t i = 0; i < ELEMENTS(calls_at_rest); i++)
        if ((long)tracee->saved.orig_rax == calls_at_rest[i])
            return true;
    return false;
}

// This may be a wait for a lock: the thread has not yet touched the data that the lock guards.
static bool waits_in_futex(const struct tracee *tracee)
{
    uint64_t operation = tracee->saved.rsi & FUTEX_CMD_MASK;
    return (long)tracee->saved.orig_rax == SYS_futex &&
           (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
            operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2);
}

static bool sleeps(const struct tracee *tracee)
{
    return (long)tracee->saved.orig_rax == SYS_nanosleep ||
           (long)tracee->saved.orig_rax == SYS_clock_nanosleep;
}

static bool is_in_libc(const struct target *target, uint64_t pc)
{
    return pc >= target->libc.start && pc < target->libc.end;
}

static bool is_exported(const struct target *target, uint64_t pc)
{
    return elf_symbols_find(&target->libc_exports, pc - target->libc_base) != NULL;
}

static bool is_beginning(const struct target *target, uint64_t pc)
{
    // For a program without a fixed address: the offset of its entry in the page is enough.
    bool at_entry = ((pc - target->entry) & 0xfff) < ENTRY_SIZE;
    return at_entry || is_in_libc(target, pc);
}

// Returns whether static functions of the C library may be above the program's code. The allocator
// reads a file of the kernel through a static function, so the innermost function must be an
// exported one.
static bool may_be_static(const struct target *target, const struct tracee *tracee)
{
    return waits_in_futex(tracee) ||
           ((is_at_rest(tracee) || sleeps(tracee)) && is_exported(target, tracee->saved.rip));
}

static bool is_signal_frame(const struct target *target, unw_cursor_t *cursor, uint64_t pc)
{
    return pc == target->sigreturn_address || unw_is_signal_frame(cursor) > 0;
}

static bool is_stack_safe(const struct target *target, const struct tracee *tracee,
                          unw_addr_space_t space, void *access)
{
    unw_cursor_t cursor;
    unw_word_t pc = 0;
    bool left_libc = false, may = may_be_static(target, tracee);
    bool is_return = false; // pc follows a call
    int n = 0, r = unw_init_remote(&cursor, space, access) < 0 ? -1 : 1;
    while (r > 0 && n++ < FRAMES_MAX) {
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || unsafe_code_has(&target->unsafe, pc) ||
            unsafe_code_has(&target->unsafe, pc - 1))
            return false;
        left_libc |= !is_in_libc(target, pc);
        if (!left_libc && !may && !is_exported(target, is_return ? pc - 1 : pc))
            return false;
        is_return = !is_signal_frame(target, &cursor, pc);
        if (!is_return && target->has_allocator)
            return false;
        if (!is_return) // the outer frames were interrupted
            left_libc = may = false;
        r = unw_step(&cursor);
    }
    return r == 0 && left_libc && is_beginning(target, pc);
}

bool safe_point_is_here(const struct target *target, const struct tracee *tracee)
{
    if ((target->has_allocator && !is_at_rest(tracee)) || tracee_is_in_sequence(tracee))
        return false;
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    void *access = space ? _UPT_create(tracee->tid) : NULL;
    bool is_safe = access && is_stack_safe(target, tracee, space, access);
    if (access)
        _UPT_destroy(access);
    if (space)
        unw_destroy_addr_space(space);
    // Last, because the map of a large process takes time.
    return is_safe && target_is_own_stack(target, tracee->saved.rsp, tracee->saved.fs_base,
                                          RED_ZONE + TRACEE_FRAME_MAX);
}
