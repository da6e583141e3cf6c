// SPDX-License-Identifier: Apache-2.0
//
// Writes a recording in memory into its file during the recording. For session_machine.c and
// session.c.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct session;
struct session_journal;

struct session_journal *session_journal_free(struct session_journal *journal);

// Must be called before each write-out.
void session_journal_prepare(struct session *session);
// Returns whether this write-out must reach the disk, however recent the last sync was.
bool session_journal_syncs(const struct session *session);
// Must be called when buffer `i` was replaced by an empty buffer.
void session_journal_replace_buffer(struct session *session, size_t i);
// Must be called when all data are in the file.
void session_journal_written(struct session *session);
// Must be called when the file has no room. Returns true if the previous file has taken its place.
bool session_journal_goes_back(struct session *session);
