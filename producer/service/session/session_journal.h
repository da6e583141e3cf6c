// SPDX-License-Identifier: Apache-2.0
//
// How a recording that is held in memory gets into its file while it is made. For
// session_machine.c and session.c.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct session;
struct session_journal;

struct session_journal *session_journal_free(struct session_journal *journal);

// Before each write-out.
void session_journal_prepare(struct session *session);
// This write-out has to end on the disk, whenever the last one did.
bool session_journal_syncs(const struct session *session);
// Buffer `i` is another one now, an empty one.
void session_journal_replace_buffer(struct session *session, size_t i);
// All that there was is in the file.
void session_journal_written(struct session *session);
// There is no room for the file. True: another one that there is has taken its place.
bool session_journal_goes_back(struct session *session);
