// SPDX-License-Identifier: Apache-2.0
//
// Writes a recording that is held in memory into its file while it is made. For session_machine.c
// and session.c.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct session;
struct session_journal;

struct session_journal *session_journal_free(struct session_journal *journal);

// Call it before each write-out.
void session_journal_prepare(struct session *session);
// Returns whether this write-out must reach the disk, however recent the last one was.
bool session_journal_syncs(const struct session *session);
// Buffer `i` has been replaced by another, empty one.
void session_journal_replace_buffer(struct session *session, size_t i);
// Everything is in the file.
void session_journal_written(struct session *session);
// There is no room for the file. Returns true if another existing file has taken its place.
bool session_journal_goes_back(struct session *session);
