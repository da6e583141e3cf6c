// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a file of /proc, or of a bugreport. The first byte chooses the kind of file.
#include "common/elements.h"
#include "tests/fuzz/file_format.h"

#define ORPHANS(table)                                                                             \
    "SELECT count(*) FROM " table " t LEFT JOIN proc_snapshot p ON p.id = t.proc_snapshot_id "     \
    "WHERE p.id IS NULL OR typeof(t.proc_snapshot_id) <> 'integer'"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *option, *path, *orphans;
    } formats[] = {
        {"bugreport-index", "x.zip!index.txt", "SELECT 0"},
        {"kernel-log", "x.zip!kernel.log", ORPHANS("kernel_log")},
        {"proc-version", "x.zip!FS/proc/version", "SELECT 0"},
        {"proc-vmstat", "x.zip!FS/proc/vmstat", ORPHANS("proc_vmstat")},
        {"proc-meminfo", "meminfo", ORPHANS("proc_meminfo")},
        {"proc-zoneinfo", "x.zip!a/FS/proc/zoneinfo", ORPHANS("proc_zoneinfo")},
        {"proc-buddyinfo", "/buddyinfo", ORPHANS("proc_buddyinfo")},
        {"proc-slabinfo", "x.zip!FS/proc/slabinfo", ORPHANS("proc_slabinfo")},
        {"proc-swaps", "swaps.1", ORPHANS("proc_swap")},
        {"proc-pressure", "x/pressure/memory", ORPHANS("proc_pressure")},
    };
    if (!size)
        return 0;
    size_t i = (size_t)(*data - (uint8_t)'0') % (ELEMENTS(formats));
    return fuzz_file_format(formats[i].option, formats[i].path, formats[i].orphans, data + 1,
                            size - 1);
}
