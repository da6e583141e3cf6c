// SPDX-License-Identifier: Apache-2.0
//
// pKVM, the hypervisor of Android: slices of each processor for the time in the hypervisor. The
// events in between have the reason of the entry. Events of older kernels are in the group hyp,
// events of newer kernels in the group hypervisor. The hypervisor knows no thread of Linux.
#include "converter/import/ftrace/ftrace.h"

#define PKVM                                                                                       \
    .type = "pkvm_hypervisor", .key = "cpu=@cpu", .track = "pkVM Hypervisor CPU {@cpu}",           \
    .category = "pkvm_hyp", .name = "hyp"
#define REASON(why, facts) FORM_ARGS, PKVM, .args = "hyp_enter_reason='" why "', " facts
#define HCALL              REASON("host_hcall", "id, invalid")
#define SMC                REASON("host_smc", "id, forwarded")
#define MEM_ABORT          REASON("host_mem_abort", "esr, addr")
#define IDMAP              REASON("iommu_idmap", "from, to, prot")
#define MEM_PROTECT        REASON("psci_mem_protect", "count, was")

static const struct ftrace_form forms[] = {
    {"hyp_enter", FORM_BEGIN, PKVM},
    {"hyp_exit", FORM_END, PKVM},
    {"host_hcall", HCALL},
    {"host_smc", SMC},
    {"host_mem_abort", MEM_ABORT},
    {"host_ffa_call", REASON("host_ffa_call", "func_id, handled, err")},
    {"iommu_idmap", IDMAP},
    {"psci_mem_protect", MEM_PROTECT},
    {"hypervisor_hyp_enter", FORM_BEGIN, PKVM},
    {"hypervisor_hyp_exit", FORM_END, PKVM},
    {"hypervisor_host_hcall", HCALL},
    {"hypervisor_host_smc", SMC},
    {"hypervisor_host_mem_abort", MEM_ABORT},
    {"hypervisor_iommu_idmap", IDMAP},
    {"hypervisor_iommu_idmap_complete", REASON("iommu_idmap_complete", "map:b")},
    {"hypervisor_psci_mem_protect", MEM_PROTECT},
    {"hypervisor_vcpu_illegal_trap", REASON("vcpu_illegal_trap", "esr")},
    {0},
};

const struct ftrace_subject ftrace_hypervisor = {.forms = forms, .without_pid = true};
