// SPDX-License-Identifier: Apache-2.0
//
// Messages of mmsql on standard error.
#pragma once

// Prints "mmsql: MESSAGE" as one line. Names of files and of archive entries are untrusted, so
// control characters, also newlines, become `?`.
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

struct strbuf;

// From now on messages are appended to `to`, which the caller prints later; NULL: messages are
// printed.
void say_hold(struct strbuf *to);
