// SPDX-License-Identifier: Apache-2.0
//
// A recording in memory is also written to a file during the recording, so that the data survive
// the death of the process. The buffers are unchanged: the file follows them by cursors, and the
// service's own packets go into a second list beside the session's. Therefore snapshots, rings and
// full buffers work as always.
//
// The file also has packets that a ring has dropped since. The file must not grow without limit,
// and should finally have the same content as the buffers. Therefore the journal is written again
// into a second file when the first has become large, and at the end if packets were dropped. The
// first file stays until the second file is complete. While a ring wraps, each of its bytes is
// therefore written at most twice.
//
// If the disk has no room for the second file, the journal continues in the first file.
//
// A snapshot may take a buffer away and leave an empty one (transfer_on_clone, clear_before_clone).
// The file follows the new buffer from its beginning. At the end the journal is written again into
// a second file, because the first file has the packets of the old buffer.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "producer/service/session/session_private.h"

#define SECOND_DELAY (60 * NSEC_PER_SEC) // pause after a lack of room for a second file
#define SLACK_BYTES  ((uint64_t)1 << 20) // beyond twice the buffers

int session_keep_journal(struct session *session, struct err *err)
{
    // On failure, session_free() frees the parts.
    size_t n = session->buffers.n + 1;
    session->journal = memory_calloc(1, sizeof(*session->journal));
    session->reader.cursors = memory_calloc(n, sizeof(struct packet_cursor));
    if (session->journal)
        session->journal->cursors = memory_calloc(n, sizeof(struct packet_cursor));
    bool is_whole = session->reader.cursors && session->journal && session->journal->cursors;
    return is_whole ? 0 : err_errno(err, -ENOMEM, "journal");
}

struct session_journal *session_journal_free(struct session_journal *journal)
{
    if (!journal)
        return NULL;
    trace_file_free(journal->previous);
    service_packets_done(&journal->packets);
    free(journal->cursors);
    free(journal);
    return NULL;
}

// Begins the journal with the content of the buffers and the service's packets so far.
static void begin(struct session *session)
{
    struct session_journal *journal = session->journal;
    service_packets_done(&journal->packets);
    service_packets_init(&journal->packets, session->env.clock, &session->settings,
                         session->config_bytes, session->config_size);
    service_packets_copy(&journal->packets,
                         &session->packets); // if memory runs out, a trigger is missing
    session->packets.twin = &journal->packets;
    session->reader.packets = &journal->packets;
    session_reader_reset(&session->reader);
    journal->passed_over = session_buffers_sum(&session->buffers).passed_over;
    journal->buffer_replaced = false;
    if (!journal->begun)
        session_tell(session, SERVICE_EVENT_WRITING, 0, NULL);
    journal->begun = true;
}

static void use_file(struct session *session, struct trace_file *file)
{
    session->output.file = file;
    trace_file_set_ready(file, session->output.goes_on, session->output.userdata);
}

// Begins the journal again in a second file. No effect if no second file can be made.
static void begin_second(struct session *session)
{
    struct session_journal *journal = session->journal;
    struct trace_file *file;
    if (journal->previous || boot_now(session) < journal->second_due || !session->env.next_file ||
        session->env.next_file(session->env.userdata, session, &file) < 0)
        return;
    journal->previous = session->output.file;
    memcpy(journal->cursors, session->reader.cursors,
           session->buffers.n * sizeof(journal->cursors[0]));
    use_file(session, file);
    begin(session);
}

void session_journal_prepare(struct session *session)
{
    struct session_journal *journal = session->journal;
    bool recording = session->state & SESSION_RECORDING;
    uint64_t limit = 2 * session_buffer_bytes(session) + SLACK_BYTES;
    if (!journal->begun)
        begin(session);
    else if (recording
                 ? session_output_bytes(&session->output) > limit
                 : session_buffers_sum(&session->buffers).passed_over > journal->passed_over ||
                       journal->buffer_replaced)
        begin_second(session);
}

void session_journal_replace_buffer(struct session *session, size_t i)
{
    struct session_journal *journal = session->journal;
    if (!journal)
        return;
    session->reader.cursors[i] = journal->cursors[i] = (struct packet_cursor){0};
    journal->buffer_replaced = true;
}

bool session_journal_syncs(const struct session *session)
{
    return session->journal && session->journal->previous;
}

void session_journal_written(struct session *session)
{
    struct session_journal *journal = session->journal;
    if (!journal->previous)
        return;
    journal->previous = trace_file_free(journal->previous);
    session_tell(session, SERVICE_EVENT_FILE_REPLACED, 0, NULL);
}

bool session_journal_goes_back(struct session *session)
{
    struct session_journal *journal = session->journal;
    if (!journal->previous)
        return false;
    trace_file_free(session->output.file);
    use_file(session, journal->previous);
    journal->previous = NULL;
    session_reader_reset(&session->reader);
    memcpy(session->reader.cursors, journal->cursors,
           session->buffers.n * sizeof(journal->cursors[0]));
    journal->second_due = boot_now(session) + SECOND_DELAY;
    session_tell(session, SERVICE_EVENT_FILE_KEPT, 0, NULL);
    return true;
}
