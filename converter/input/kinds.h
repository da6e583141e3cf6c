// SPDX-License-Identifier: Apache-2.0
//
// The kinds of files, recognised by their first bytes. One table gives the kind of a file and the
// role of the kind in mmsql. Text formats that accompany a trace, and are recognised by name or by
// several lines, are in converter/import/files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text.h"

enum kind_id {
    KIND_NONE, // none of the kinds below; a file format may fit
    KIND_TRACE,
    KIND_GZIP,
    KIND_ZSTD,
    KIND_XZ,
    KIND_ZIP,
    KIND_TAR,
    KIND_TEXT_PROTO,
    KIND_JSON,
    KIND_FTRACE_TEXT, // a web page of systrace, too
    KIND_PERF_TEXT,
    KIND_PERF_DATA,
    KIND_SIMPLEPERF,
    KIND_DATABASE, // any SQLite database
    KIND_OTHER,    // named in the message only
    KIND_TEXT,     // of kind_of_rest(): text of an unknown form
    KIND_ZEROS,    // of kind_of_rest(): only zeros at the start
};

enum kind_role {
    ROLE_UNKNOWN,
    ROLE_TRACE,      // packets
    ROLE_COMPRESSED, // unpacked before anything else (unpack.h)
    ROLE_ARCHIVE,    // has entries (archive.h)
    ROLE_TRANSLATED, // becomes packets (converter/translate)
    ROLE_FOREIGN,    // not read: the message names the kind and gives advice
};

// Whether the Perfetto UI reads a kind. By default the UI reads what mmsql reads, and nothing of
// ROLE_FOREIGN.
enum kind_ui { KIND_UI_DEFAULT, KIND_UI_READS, KIND_UI_UNSURE };

struct kind {
    enum kind_id id;
    enum kind_role role;
    const char *name;   // "a PNG picture"
    const char *advice; // ROLE_FOREIGN: an instruction for the user
    // The signature: the first bytes, or a function.
    struct text magic;
    bool (*recognise)(const uint8_t *bytes, size_t size);
    enum kind_ui ui;
    bool is_weak; // the signature fits other files, too: not enough to read an entry of an archive
};

// Returns the kind of a file with these first bytes (4 KiB are enough for most kinds), or NULL.
const struct kind *kind_recognise(const uint8_t *bytes, size_t size);

static inline enum kind_role kind_role_of(const uint8_t *bytes, size_t size)
{
    const struct kind *kind = kind_recognise(bytes, size);
    return kind ? kind->role : ROLE_UNKNOWN;
}

// Returns a name and advice for bytes that kind_recognise() does not know: text, zeros or binary
// data.
const struct kind *kind_of_rest(const uint8_t *bytes, size_t size);

// Returns true if the 512 bytes are the header of an entry of a tar archive.
bool kind_is_tar_header(const uint8_t *bytes);
