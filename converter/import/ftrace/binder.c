// SPDX-License-Identifier: Apache-2.0
//
// Calls through binder: a slice on the calling thread, from its transaction to the reply that the
// thread receives, and a slice on the answering thread. A one-way call is an instant on both
// threads. Commands and returns show failed calls: each thread has a stack of its open calls, with
// the step that each call has reached. Without these events, the stack has only received calls,
// until their replies. Invariants: a frame is in the stack of one thread or free; a transaction is
// kept from sending to receipt.
#include "common/vec.h"
#include "converter/import/ftrace/ftrace.h"

#define FLAG_ONE_WAY 0x01

enum {
    BC_TRANSACTION = 0x40406300,
    BC_REPLY = 0x40406301,
    BC_TRANSACTION_SG = 0x40486311,
    BC_REPLY_SG = 0x40486312,
    BR_DEAD_REPLY = 0x7205,
    BR_TRANSACTION_COMPLETE = 0x7206,
    BR_FAILED_REPLY = 0x7211,
    BR_FROZEN_REPLY = 0x7212,
    BR_ONEWAY_SPAM_SUSPECT = 0x7213,
    BR_TRANSACTION_PENDING_FROZEN = 0x7214,
};
#define BR_TRANSACTION         0x80407202u
#define BR_REPLY               0x80407203u
#define BR_TRANSACTION_SEC_CTX 0x80487202u

// The step of a call, on the thread that sends (S) or answers (R).
enum step {
    S_COMMAND,
    S_TRANSACTION,
    S_COMPLETE,
    S_RECEIVED,
    R_RECEIVED,
    R_RETURN,
    R_REPLY_COMMAND,
    R_TRANSACTION,
};

#define FRAME_NONE 0 // frames and transactions are numbered by index + 1

struct frame {
    uint32_t older; // the thread's next frame, or the next free frame; FRAME_NONE: none
    uint8_t step;
    bool known, one_way, is_reply; // known: the other two members are valid
};
VEC_DEFINE(frame_vec, struct frame);

// A transaction that is sent and not yet received.
struct transaction {
    int32_t id, node;
    uint32_t to_process, flags, code, tid, track;
    bool is_reply;
    int64_t slice;
    uint32_t next_free;
};
VEC_DEFINE(transaction_vec, struct transaction);

struct binder {
    struct map64 top;              // utid -> frame
    struct map64 sent;             // id -> transaction
    struct map64 waiting, holding; // sets of tids, for the lock
    struct frame_vec frames;
    struct transaction_vec transactions;
    uint32_t free_frame, free_transaction;
};

static struct frame *frame_at(const struct binder *binder, uint32_t number)
{
    return &binder->frames.items[number - 1];
}

static struct transaction *transaction_at(const struct binder *binder, uint32_t number)
{
    return &binder->transactions.items[number - 1];
}

static struct frame *frame_top(struct import *im, struct binder *binder, uint32_t tid)
{
    const uint64_t *top = map64_find(&binder->top, (uint64_t)processes_thread(&im->processes, tid));
    return top ? frame_at(binder, (uint32_t)*top) : NULL;
}

static void frame_push(struct import *im, struct binder *binder, uint32_t tid, struct frame frame)
{
    uint64_t utid = (uint64_t)processes_thread(&im->processes, tid);
    const uint64_t *top = map64_find(&binder->top, utid);
    frame.older = top ? (uint32_t)*top : FRAME_NONE;
    uint32_t at = binder->free_frame;
    if (at != FRAME_NONE) {
        binder->free_frame = frame_at(binder, at)->older;
        *frame_at(binder, at) = frame;
    } else {
        import_fail(im, frame_vec_push(&binder->frames, frame));
        at = (uint32_t)binder->frames.n;
    }
    import_fail(im, map64_set(&binder->top, utid, at));
}

static void frame_pop(struct import *im, struct binder *binder, uint32_t tid)
{
    uint64_t utid = (uint64_t)processes_thread(&im->processes, tid);
    uint64_t *top = map64_find(&binder->top, utid);
    if (!top)
        return;
    uint32_t at = (uint32_t)*top, older = frame_at(binder, at)->older;
    frame_at(binder, at)->older = binder->free_frame;
    binder->free_frame = at;
    if (older == FRAME_NONE)
        map64_remove(&binder->top, utid);
    else
        *top = older;
}

static void transaction_keep(struct import *im, struct binder *binder,
                             const struct transaction *transaction)
{
    const uint64_t *known = map64_find(&binder->sent, (uint64_t)transaction->id);
    uint32_t at = known ? (uint32_t)*known : binder->free_transaction;
    if (at == FRAME_NONE) {
        import_fail(im, transaction_vec_push(&binder->transactions, *transaction));
        at = (uint32_t)binder->transactions.n;
    } else {
        if (!known)
            binder->free_transaction = transaction_at(binder, at)->next_free;
        *transaction_at(binder, at) = *transaction;
    }
    if (!known)
        import_fail(im, map64_set(&binder->sent, (uint64_t)transaction->id, at));
}

static bool transaction_take(struct binder *binder, int32_t id, struct transaction *ret)
{
    const uint64_t *known = map64_find(&binder->sent, (uint64_t)id);
    if (!known)
        return false;
    uint32_t at = (uint32_t)*known;
    *ret = *transaction_at(binder, at);
    transaction_at(binder, at)->next_free = binder->free_transaction;
    binder->free_transaction = at;
    map64_remove(&binder->sent, (uint64_t)id);
    return true;
}

static struct slice_name flags_text(struct import *im, uint32_t flags)
{
    return import_text(im, "0x%02x %s%s%s%s%s", flags,
                       flags & FLAG_ONE_WAY ? "this is a one-way call: async, no return; " : "",
                       flags & 0x04 ? "contents are the components root object; " : "",
                       flags & 0x08 ? "contents are a 32-bit status code; " : "",
                       flags & 0x10 ? "allow replies with file descriptors; " : "",
                       flags ? "" : "No Flags Set");
}

#define TRANSACTION_ARGS 7

static void transaction_args(struct import *im, const struct transaction *transaction,
                             struct arg args[TRANSACTION_ARGS])
{
    struct slice_name flags = flags_text(im, transaction->flags);
    struct slice_name code = import_text(im, "0x%02x Java Layer Dependent", transaction->code);
    args[0] = arg_int("transaction id", transaction->id);
    args[1] = arg_int("destination node", transaction->node);
    args[2] = arg_int("destination process", transaction->to_process);
    args[3] = (struct arg){
        .key = "reply transaction?", .integer = transaction->is_reply, .type = ARG_BOOL};
    args[4] = arg_name("flags", flags);
    args[5] = arg_name("code", code);
    args[6] = arg_uint("calling tid", transaction->tid);
}

// Adds the destination thread to an open slice of the caller or of the answering thread.
static void destination_add(struct import *im, const struct ftrace_event *event, uint32_t track,
                            const char *slice, uint32_t tid, bool is_reply)
{
    int64_t utid = processes_thread(&im->processes, tid);
    struct arg args[2] = {is_reply ? arg_int("destination thread", tid)
                                   : arg_uint("destination thread", tid)};
    const char *name = strset_text(&im->strings, processes_thread_at(&im->processes, utid)->name);
    if (name)
        args[1] = arg_text("destination name", name, strlen(name));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = track,
        .category = slice_name("binder"),
        .name = slice_name(slice),
        .args = args,
        .n_args = name ? 2 : 1,
    };
    slice_add_args(&im->slices, &spec);
}

static int64_t transaction_slice(struct import *im, const struct ftrace_event *event,
                                 const struct transaction *transaction)
{
    struct arg args[TRANSACTION_ARGS];
    transaction_args(im, transaction, args);
    struct slice_spec spec = {
        .ts = event->ts,
        .track = transaction->track,
        .args = args,
        .n_args = TRANSACTION_ARGS,
    };
    if (transaction->is_reply) {
        destination_add(im, event, transaction->track, "binder reply",
                        (uint32_t)ftrace_int(event, "to_thread"), true);
        return slice_end(&im->slices, &spec);
    }
    spec.category = slice_name("binder");
    if (transaction->flags & FLAG_ONE_WAY) {
        spec.name = slice_name("binder transaction async");
        return slice_add(&im->slices, &spec);
    }
    spec.name = slice_name("binder transaction");
    return slice_begin(&im->slices, &spec);
}

static void binder_transaction(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    struct transaction transaction = {
        .id = (int32_t)ftrace_int(event, "debug_id"),
        .node = (int32_t)ftrace_int(event, "target_node"),
        .to_process = (uint32_t)ftrace_int(event, "to_proc"),
        .flags = (uint32_t)ftrace_int(event, "flags"),
        .code = (uint32_t)ftrace_int(event, "code"),
        .tid = event->pid,
        .track = ftrace_own_track(im, event),
        .is_reply = ftrace_int(event, "reply") == 1,
    };
    transaction.slice = transaction_slice(im, event, &transaction);
    transaction_keep(im, binder, &transaction);
    struct frame *frame = frame_top(im, binder, event->pid);
    if (!frame)
        return;
    if (frame->step == R_RECEIVED) { // without commands, the reply ends the call
        frame_pop(im, binder, event->pid);
    } else if (frame->step == S_COMMAND || frame->step == R_REPLY_COMMAND) {
        frame->step = frame->step == S_COMMAND ? S_TRANSACTION : R_TRANSACTION;
        frame->known = true;
        frame->one_way = transaction.flags & FLAG_ONE_WAY;
        frame->is_reply = transaction.is_reply;
    }
}

static void reply_received(struct import *im, struct binder *binder,
                           const struct ftrace_event *event)
{
    struct frame *frame = frame_top(im, binder, event->pid);
    if (frame && frame->step == S_COMPLETE)
        frame->step = S_RECEIVED;
    slice_close(&im->slices, event->ts, ftrace_own_track(im, event));
}

static void binder_transaction_received(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    struct transaction transaction;
    if (!transaction_take(binder, (int32_t)ftrace_int(event, "debug_id"), &transaction))
        return;
    bool one_way = transaction.flags & FLAG_ONE_WAY;
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_own_track(im, event),
        .category = slice_name("binder"),
    };
    if (transaction.is_reply) {
        if (one_way)
            slice_end(&im->slices, &spec);
        else
            reply_received(im, binder, event);
        return;
    }
    struct arg args[TRANSACTION_ARGS];
    int64_t slice;
    if (one_way) {
        transaction_args(im, &transaction, args);
        spec.name = slice_name("binder async rcv");
        spec.args = args;
        spec.n_args = TRANSACTION_ARGS;
        slice = slice_add(&im->slices, &spec);
    } else {
        frame_push(im, binder, event->pid, (struct frame){.step = R_RECEIVED, .known = true});
        destination_add(im, event, transaction.track, "binder transaction", event->pid, false);
        spec.name = slice_name("binder reply");
        slice = slice_begin(&im->slices, &spec);
    }
    flow_row_write(im, transaction.slice, slice);
}

static void binder_command(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    uint32_t command = (uint32_t)ftrace_int(event, "cmd");
    if (command == BC_TRANSACTION || command == BC_TRANSACTION_SG) {
        frame_push(im, binder, event->pid, (struct frame){.step = S_COMMAND});
    } else if (command == BC_REPLY || command == BC_REPLY_SG) {
        struct frame *frame = frame_top(im, binder, event->pid);
        if (frame && frame->step == R_RETURN)
            frame->step = R_REPLY_COMMAND;
    }
}

// Ends the slice and the frame of a failed call.
static void call_failed(struct import *im, struct binder *binder, const struct ftrace_event *event,
                        const struct frame *frame)
{
    if (frame->step == S_RECEIVED || frame->step == R_RECEIVED || frame->step == R_RETURN)
        return;
    if (frame->step != S_COMMAND && frame->known && !frame->one_way && !frame->is_reply)
        slice_close(&im->slices, event->ts, ftrace_own_track(im, event));
    frame_pop(im, binder, event->pid);
}

static void call_complete(struct import *im, struct binder *binder,
                          const struct ftrace_event *event, struct frame *frame)
{
    if (frame->step == S_TRANSACTION && frame->known && !frame->one_way)
        frame->step = S_COMPLETE;
    else if (frame->step == R_TRANSACTION || frame->step == S_COMMAND ||
             frame->step == S_TRANSACTION)
        frame_pop(im, binder, event->pid);
}

static void binder_return(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    struct frame *frame = frame_top(im, binder, event->pid);
    if (!frame)
        return;
    switch ((uint32_t)ftrace_int(event, "cmd")) {
    case BR_DEAD_REPLY:
    case BR_FAILED_REPLY:
    case BR_FROZEN_REPLY:
    case BR_TRANSACTION_PENDING_FROZEN:
        call_failed(im, binder, event, frame);
        break;
    case BR_TRANSACTION_COMPLETE:
    case BR_ONEWAY_SPAM_SUSPECT:
        call_complete(im, binder, event, frame);
        break;
    case BR_REPLY:
        if (frame->step == S_RECEIVED)
            frame_pop(im, binder, event->pid);
        break;
    case BR_TRANSACTION:
    case BR_TRANSACTION_SEC_CTX:
        if (frame->step == R_RECEIVED)
            frame->step = R_RETURN;
        break;
    default:
        break;
    }
}

static void lock_slice(struct import *im, const struct ftrace_event *event, const char *ended,
                       const char *begun)
{
    struct slice_spec spec = {.ts = event->ts, .track = ftrace_own_track(im, event)};
    if (ended) {
        if (!begun) {
            spec.category = slice_name("binder");
            spec.name = slice_name(ended);
        }
        slice_end(&im->slices, &spec);
    }
    if (begun) {
        spec.category = slice_name("binder");
        spec.name = slice_name(begun);
        slice_begin(&im->slices, &spec);
    }
}

static void binder_lock(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    import_fail(im, map64_set(&binder->waiting, event->pid, 1));
    lock_slice(im, event, NULL, "binder lock waiting");
}

static void binder_locked(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    if (!map64_remove(&binder->waiting, event->pid))
        return;
    lock_slice(im, event, "binder lock waiting", "binder lock held");
    import_fail(im, map64_set(&binder->holding, event->pid, 1));
}

static void binder_unlock(struct import *im, const struct ftrace_event *event)
{
    struct binder *binder = event->own;
    if (map64_remove(&binder->holding, event->pid))
        lock_slice(im, event, "binder lock held", NULL);
}

static const struct ftrace_form forms[] = {
    {"binder_transaction_alloc_buf", FORM_ARGS, .category = "binder", .name = "binder transaction",
     .args = "data size=data_size, offsets size=offsets_size"},
    {"binder_transaction", FORM_CALL(binder_transaction)},
    {"binder_transaction_received", FORM_CALL(binder_transaction_received)},
    {"binder_command", FORM_CALL(binder_command)},
    {"binder_return", FORM_CALL(binder_return)},
    {"binder_lock", FORM_CALL(binder_lock)},
    {"binder_locked", FORM_CALL(binder_locked)},
    {"binder_unlock", FORM_CALL(binder_unlock)},
    {0},
};

static void binder_done(void *state)
{
    struct binder *binder = state;
    frame_vec_done(&binder->frames);
    transaction_vec_done(&binder->transactions);
}

const struct ftrace_subject ftrace_binder = {
    .forms = forms,
    .state_size = sizeof(struct binder),
    .n_maps = 4,
    .done = binder_done,
};
