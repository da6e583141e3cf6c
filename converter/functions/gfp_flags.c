// SPDX-License-Identifier: Apache-2.0
//
// Flags of the kernel's page allocator, as the kernel prints them. Names of several bits come
// first. The kernel changed the bits several times: one table is for kernels from 4.14 on, the
// other is for all older kernels, also for those before 4.4, whose bits differ from the table.
#include "converter/functions/to_ftrace.h"

#include "common/task_state.h"

SQLITE_EXTENSION_INIT3

struct flag {
    uint32_t bits;
    const char *name;
};

#define IO        0x40
#define FS        0x80
#define USER      (IO | FS | 0x20000)
#define HIGHUSER  (USER | 0x02)
#define MOVABLE   (HIGHUSER | 0x08)
#define HUGE_PAGE (MOVABLE | 0x4000 | 0x10000 | 0x200)

#define DIRECT     0x400000
#define KSWAPD_4_4 0x2000000
#define BOTH_4_4   (DIRECT | KSWAPD_4_4)

static const struct flag of_4_4[] = {
    {HUGE_PAGE | 0x1000 | DIRECT, "GFP_TRANSHUGE"},
    {MOVABLE | BOTH_4_4, "GFP_HIGHUSER_MOVABLE"},
    {HIGHUSER | BOTH_4_4, "GFP_HIGHUSER"},
    {USER | BOTH_4_4, "GFP_USER"},
    {IO | FS | 0x10 | BOTH_4_4, "GFP_TEMPORARY"},
    {IO | FS | BOTH_4_4, "GFP_KERNEL"},
    {IO | BOTH_4_4, "GFP_NOFS"},
    {0x20 | 0x80000 | KSWAPD_4_4, "GFP_ATOMIC"},
    {BOTH_4_4, "GFP_NOIO"},
    {0x20, "GFP_HIGH"},
    {0x80000, "GFP_ATOMIC"},
    {IO, "GFP_IO"},
    {0x100, "GFP_COLD"},
    {0x200, "GFP_NOWARN"},
    {0x400, "GFP_REPEAT"},
    {0x800, "GFP_NOFAIL"},
    {0x1000, "GFP_NORETRY"},
    {0x4000, "GFP_COMP"},
    {0x8000, "GFP_ZERO"},
    {0x10000, "GFP_NOMEMALLOC"},
    {0x2000, "GFP_MEMALLOC"},
    {0x20000, "GFP_HARDWALL"},
    {0x40000, "GFP_THISNODE"},
    {0x10, "GFP_RECLAIMABLE"},
    {0x08, "GFP_MOVABLE"},
    {0x200000, "GFP_NOTRACK"},
    {DIRECT, "GFP_DIRECT_RECLAIM"},
    {KSWAPD_4_4, "GFP_KSWAPD_RECLAIM"},
    {0x800000, "GFP_OTHER_NODE"},
    {0, NULL},
};

#define KSWAPD_4_14 0x1000000
#define BOTH_4_14   (DIRECT | KSWAPD_4_14)

static const struct flag of_4_14[] = {
    {HUGE_PAGE | DIRECT, "GFP_TRANSHUGE"},
    {HUGE_PAGE, "GFP_TRANSHUGE_LIGHT"},
    {MOVABLE | BOTH_4_14, "GFP_HIGHUSER_MOVABLE"},
    {HIGHUSER | BOTH_4_14, "GFP_HIGHUSER"},
    {USER | BOTH_4_14, "GFP_USER"},
    {IO | FS | 0x100000 | BOTH_4_14, "GFP_KERNEL_ACCOUNT"},
    {IO | FS | BOTH_4_14, "GFP_KERNEL"},
    {IO | BOTH_4_14, "GFP_NOFS"},
    {0x20 | 0x80000 | KSWAPD_4_14, "GFP_ATOMIC"},
    {BOTH_4_14, "GFP_NOIO"},
    {KSWAPD_4_14, "GFP_NOWAIT"},
    {0x01, "GFP_DMA"},
    {0x02, "__GFP_HIGHMEM"},
    {0x04, "GFP_DMA32"},
    {0x20, "__GFP_HIGH"},
    {0x80000, "__GFP_ATOMIC"},
    {IO, "__GFP_IO"},
    {FS, "__GFP_FS"},
    {0x100, "__GFP_COLD"},
    {0x200, "__GFP_NOWARN"},
    {0x400, "__GFP_RETRY_MAYFAIL"},
    {0x800, "__GFP_NOFAIL"},
    {0x1000, "__GFP_NORETRY"},
    {0x4000, "__GFP_COMP"},
    {0x8000, "__GFP_ZERO"},
    {0x10000, "__GFP_NOMEMALLOC"},
    {0x2000, "__GFP_MEMALLOC"},
    {0x20000, "__GFP_HARDWALL"},
    {0x40000, "__GFP_THISNODE"},
    {0x10, "__GFP_RECLAIMABLE"},
    {0x08, "__GFP_MOVABLE"},
    {0x100000, "__GFP_ACCOUNT"},
    {0x800000, "__GFP_WRITE"},
    {BOTH_4_14, "__GFP_RECLAIM"},
    {DIRECT, "__GFP_DIRECT_RECLAIM"},
    {KSWAPD_4_14, "__GFP_KSWAPD_RECLAIM"},
    {0, NULL},
};

void gfp_flags_add(sqlite3_str *text, uint64_t flags, uint32_t kernel_version)
{
    const struct flag *known = kernel_version >= KERNEL_VERSION(4, 14) ? of_4_14 : of_4_4;
    const char *before = "";
    if (!flags)
        sqlite3_str_appendall(text, "GFP_NOWAIT");
    for (; known->name; known++) {
        if ((flags & known->bits) != known->bits)
            continue;
        flags &= ~(uint64_t)known->bits;
        sqlite3_str_appendf(text, "%s%s", before, known->name);
        before = "|";
    }
    if (flags)
        sqlite3_str_appendf(text, "%s0x%llx", before, (sqlite3_uint64)flags);
}
