// SPDX-License-Identifier: Apache-2.0
//
// Trusty, a secure operating system beside Linux, and calls of the secure monitor: slices of the
// calling thread.
#include "converter/import/ftrace/ftrace.h"

#define TIPC(does) .action = (does), .category = "tipc"

static const struct ftrace_form forms[] = {
    {"scm_call_start", FORM_BEGIN, .name = "scm id={x0:x}"},
    {"scm_call_end", FORM_END},
    {"trusty_smc", TIPC(FORM_BEGIN), .name = "trusty_smc:r0= {r0}"},
    {"trusty_smc_done", TIPC(FORM_END)},
    {"", TIPC(FORM_MOMENT), .name = "trusty_smc_done:r0= {ret}"},
    {"trusty_std_call32", TIPC(FORM_BEGIN), .name = "trusty_std"},
    {"trusty_std_call32_done", TIPC(FORM_END)},
    {"", TIPC(FORM_MOMENT), .when = "ret<0", .name = "trusty_err_std: err= {ret}"},
    {"trusty_share_memory", TIPC(FORM_BEGIN),
     .name = "trusty_share_mem: len= {len} nents= {nents} lend= {lend}"},
    {"trusty_share_memory_done", TIPC(FORM_END)},
    {"", TIPC(FORM_MOMENT), .name = "trusty_share_mem: handle= {handle} ret= {ret}"},
    {"trusty_reclaim_memory", TIPC(FORM_BEGIN), .name = "trusty_reclaim_mem: id={id}"},
    {"trusty_reclaim_memory_done", TIPC(FORM_END)},
    {"", TIPC(FORM_MOMENT), .when = "ret<0", .name = "trusty_reclaim_mem_err: err= {ret}"},
    {"trusty_irq", TIPC(FORM_MOMENT), .name = "trusty_irq: irq= {irq}"},
    {"trusty_ipc_handle_event", TIPC(FORM_MOMENT),
     .name = "trusty_ipc_handle_event: chan={chan} srv_name={srv_name} event={event_id}"},
    {"trusty_ipc_connect", TIPC(FORM_BEGIN), .name = "tipc_connect: {port}"},
    {"trusty_ipc_connect_end", TIPC(FORM_END)},
    {"", TIPC(FORM_MOMENT), .when = "err", .name = "tipc_err_connect:err= {err}"},
    {"trusty_ipc_write", TIPC(FORM_MOMENT), .when = "shm_cnt",
     .name = "tipc_write: {srv_name} shm_cnt:[{shm_cnt}]"},
    {"", TIPC(FORM_MOMENT), .when = "!shm_cnt", .name = "tipc_write: {srv_name}"},
    {"", TIPC(FORM_MOMENT), .when = "len_or_err<0",
     .name = "tipc_err_write:len_or_err= {len_or_err}"},
    {"trusty_ipc_read", TIPC(FORM_BEGIN), .name = "tipc_read: {srv_name}"},
    {"trusty_ipc_read_end", TIPC(FORM_END)},
    {"", TIPC(FORM_MOMENT), .when = "len_or_err<=0",
     .name = "tipc_err_read:len_or_err= {len_or_err}"},
    {"trusty_ipc_poll", TIPC(FORM_MOMENT), .name = "tipc_poll: {srv_name}"},
    {"trusty_ipc_rx", TIPC(FORM_MOMENT), .name = "tipc_rx"},
    {"trusty_enqueue_nop", TIPC(FORM_MOMENT),
     .name = "trusty_enqueue_nop: arg1= {arg1} arg2= {arg2} arg3={arg3}"},
    {0},
};

const struct ftrace_subject ftrace_trusty = {.forms = forms};
