// SPDX-License-Identifier: Apache-2.0
//
// A snapshot is a session that was never started: it has the config, the packets and the statistics
// of the original at one moment. The snapshot is only read, or written into a file as any session
// at its end. All steps that can fail precede the changes to the original, so that a failed
// snapshot has no effect. A copy is as large as the content, not as the buffer, so that a nearly
// empty large buffer costs little.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "producer/service/session/session_private.h"
#include "protos/fields.h"

static int replace_buffer(struct session *session, size_t i)
{
    struct packet_buffer *empty;
    int r = session_buffer_make(session->config, i, &empty, NULL);
    if (r < 0)
        return r;
    struct packet_buffer *old = session->buffers.items[i];
    session->buffers.items[i] = empty;
    source_set_replace_buffer(&session->sources, i, empty);
    session_journal_replace_buffer(session, i);
    packet_buffer_free(old);
    return 0;
}

static bool will_be_cleared(const struct session *session, size_t i)
{
    return (session->state & SESSION_RECORDING) &&
           session_buffer_config(session->config, i)->clear_before_clone;
}

static uint64_t clone_bytes(const struct session *session, bool cleared)
{
    uint64_t size = 0;
    for (size_t i = 0; i < session->buffers.n; i++) {
        struct packet_buffer_stats stats;
        packet_buffer_get_stats(session->buffers.items[i], &stats);
        if (session_buffer_config(session->config, i)->transfer_on_clone)
            size += stats.size_bytes;
        else if (cleared || !will_be_cleared(session, i))
            size += packet_buffer_copy_bytes(session->buffers.items[i]);
    }
    return size;
}

uint64_t session_clone_bytes(const struct session *session)
{
    return clone_bytes(session, false);
}

uint64_t session_prepare_clone(struct session *session)
{
    for (size_t i = 0; i < session->buffers.n; i++)
        if (will_be_cleared(session, i))
            replace_buffer(session, i);
    session_event(session, EVENT_FLUSH_DUE);
    return clone_bytes(session, true);
}

static void transfer_buffers(struct session *session, struct session *clone)
{
    for (size_t i = 0; i < session->buffers.n; i++) {
        if (!session_buffer_config(session->config, i)->transfer_on_clone)
            continue;
        struct packet_buffer *empty = clone->buffers.items[i];
        clone->buffers.items[i] = session->buffers.items[i];
        session->buffers.items[i] = empty;
        source_set_replace_buffer(&session->sources, i, empty);
        session_journal_replace_buffer(session, i);
    }
}

static void clone_events(struct session *clone, const struct session_clone_options *options)
{
    struct service_packets *packets = &clone->packets;
    service_packets_event(packets, PB_TracingServiceEvent_clone_started);
    for (size_t i = 0; i < clone->buffers.n; i++)
        service_packets_event_at(packets, PB_TracingServiceEvent_buffer_cloned, (uint32_t)i,
                                 boot_now(clone));
    if (options->for_bugreport)
        service_packets_event(packets, PB_TracingServiceEvent_seized_for_bugreport);
    service_packets_event(packets, PB_TracingServiceEvent_tracing_disabled);
    service_packets_snapshot(packets);
}

static int fill_clone(struct session *session, const struct session_clone_options *options,
                      struct session *clone, struct err *err)
{
    int r = session_copy_config(clone, session->config_bytes, session->config_size, err);
    if (r == 0)
        r = session_make_scratch(clone, err);
    if (r == 0)
        r = session_settings_read(clone->config, &clone->settings, err);
    if (r == 0)
        r = session_buffers_make(session->config, &session->buffers, &clone->buffers, err);
    if (r < 0)
        return r;
    session_settings_renew_uuid(&clone->settings, session->settings.uuid_lsb);
    r = session_connect_parts(clone, err);
    if (r < 0)
        return r;
    r = service_packets_copy(&clone->packets, &session->packets);
    if (r == 0 && options->trigger)
        r = trigger_hit_copy(options->trigger, &clone->packets.clone_trigger);
    if (r < 0)
        return err_errno(err, r, "snapshot");
    session_update_buffer_stats(session);
    memcpy(clone->buffer_stats, session->buffer_stats,
           session->buffers.n * sizeof(clone->buffer_stats[0]));
    memcpy(clone->writer_losses, session->writer_losses,
           session->buffers.n * sizeof(clone->writer_losses[0]));
    return 0;
}

int session_clone(struct session *session, const struct session_clone_options *options,
                  struct session **ret, struct err *err)
{
    struct session *clone = memory_calloc(1, sizeof(*clone));
    if (!clone)
        return err_errno(err, -ENOMEM, "snapshot");
    clone->env = session->env;
    clone->env.userdata = options->userdata;
    clone->state = SESSION_DONE;
    clone->is_clone = true;
    clear_due(clone);
    int r = fill_clone(session, options, clone, err);
    if (r < 0) {
        session_free(clone);
        return r;
    }
    clone->started_at = session->started_at;
    clone->stopped_at = boot_now(session);
    clone->flushes = session->flushes;
    clone->failed_flushes = session->failed_flushes;
    clone->final_flush_done = true;
    transfer_buffers(session, clone);
    clone_events(clone, options);
    // Each snapshot has the triggers since the previous one.
    if (session->settings.mode == SESSION_MODE_CLONE)
        service_packets_forget_triggers(&session->packets);
    *ret = clone;
    return 0;
}

void session_flush_file(struct session *session, struct session_file *ret)
{
    struct trace_file *file = session->output.file;
    *ret = (struct session_file){.fd = -1};
    if (!file || session->journal)
        return;
    trace_file_flush_now(file, NULL); // the rest follows with the next packets
    struct trace_file_stats stats;
    trace_file_get_stats(file, &stats);
    *ret = (struct session_file){
        .fd = trace_file_fd(file),
        .start = stats.start,
        .end = stats.start + stats.bytes_written,
    };
}

int session_write_late(struct session *session, struct trace_file *file, struct err *err)
{
    session->timer = loop_remove_timer(session->timer);
    session->result = 0;
    return session_write_clone(session, file, -1, NULL, err);
}

static void keep_in_fork(const struct session *session, bool keep)
{
    for (size_t i = 0; i < session->buffers.n; i++)
        packet_buffer_keep_in_fork(session->buffers.items[i], keep);
}

void session_begin_copy(struct session *session)
{
    if (session->state & SESSION_RECORDING)
        source_set_flush(&session->sources);
    keep_in_fork(session, true);
}

void session_end_copy(struct session *session)
{
    keep_in_fork(session, false);
}

// The loop and its kernel objects belong to the original.
int session_save_copy(struct session *session, struct trace_file *file, struct err *err)
{
    session->timer = NULL;
    session->env.loop = session->output.loop = NULL;
    session->env.told = NULL;
    session->env.ended = NULL;
    clear_due(session);
    source_set_dump_copy(&session->sources);
    session->stopped_at = boot_now(session);
    int r = session_write_clone(session, file, -1, NULL, err);
    while (r == 0 && session->state != SESSION_DONE)
        session_run_due(session);
    return r < 0 ? r : session_result(session, err);
}

int session_write_clone(struct session *session, struct trace_file *file, int copy_fd,
                        const struct session_file *copy, struct err *err)
{
    session_set_file(session, file);
    if (copy_fd >= 0 && copy->start < copy->end) {
        session->output.copy_fd = copy_fd;
        session->output.copied = copy->start;
        session->output.copy_end = copy->end;
    } else {
        close_fd(copy_fd);
    }
    int r = session_make_timer(session, err);
    if (r < 0)
        return r;
    session->output.syncs = trace_file_has_disk(file);
    session_reader_begin(&session->reader);
    session->state = SESSION_STOPPING;
    set_due(session, DUE_SLICE, boot_now(session), 0);
    session_arm_timer(session);
    return 0;
}
