// SPDX-License-Identifier: Apache-2.0
//
// A service manager takes most rights away before the daemon starts (configs/systemd). Elsewhere,
// or if the unit was changed, the daemon drops the rights itself. The two lists differ: the unit
// leaves out the rights that only heap profiles of running programs need.
//
// Under the unit there is nothing left to drop, and its filter of system calls refuses capset().
//
// Invariant: helpers start with these rights and need no others. Each helper is tested under the
// daemon.
#include "producer/service/rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/sandbox.h"
#include "producer/foreign/process_file.h"

#define BIT(capability) ((uint64_t)1 << (capability))

// Capabilities that older headers lack.
#define PERFMON            38
#define CHECKPOINT_RESTORE 40

static const uint64_t kept = BIT(CAP_DAC_READ_SEARCH) | // files and processes of all users
                             BIT(CAP_SYS_PTRACE) |      // maps, heaps
                             BIT(PERFMON) |             // samples of call stacks
                             BIT(CAP_FOWNER) |          // mincore() of other users' files
                             BIT(CHECKPOINT_RESTORE) |  // files that processes have mapped
                             BIT(CAP_SYSLOG) |          // names of kernel functions
                             BIT(CAP_SYS_RESOURCE) |    // pressure thresholds, OOM scores
                             BIT(CAP_SYS_NICE) |        // priorities of the daemon and its helpers
                             BIT(CAP_IPC_LOCK) |        // locks the daemon's own memory
                             BIT(CAP_SETUID) |          // helpers run as owners of files, or nobody
                             BIT(CAP_SETGID) |          // the groups of these helpers
                             BIT(CAP_KILL);             // wakes programs that wait for a profile

// Drops capabilities from the bounding set, so that executed programs cannot gain them.
static void bound(void)
{
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (!(kept & BIT(i)))
            prctl(PR_CAPBSET_DROP, i, 0, 0, 0); // needs CAP_SETPCAP; no_new_privs follows
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static int keep(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    bool drops = false;
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t rest = data[i].permitted & (uint32_t)(kept >> (32 * i));
        drops |= data[i].permitted != rest || data[i].effective != rest || data[i].inheritable;
        data[i].permitted = data[i].effective = rest;
        data[i].inheritable = 0;
    }
    return drops && syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

void rights_drop(const struct log *log)
{
    process_files_end(); // each thread has capabilities of its own
    bound();
    int r = keep();
    if (r < 0)
        log_warning(log, "capabilities that are not needed cannot be given up: %s", strerror(-r));
    if (!sandbox_is_wanted())
        return;
    r = sandbox_service();
    if (r < 0)
        log_warning(log, "system calls that are not needed stay allowed: %s", strerror(-r));
}
