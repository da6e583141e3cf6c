// SPDX-License-Identifier: Apache-2.0
//
// mmsql symbolize: adds functions and source lines to a trace, for every program that reads traces.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "common/wire.h"
#include "converter/cli/cli.h"
#include "converter/cli/conversion.h"
#include "converter/cli/interrupts.h"
#include "converter/cli/output_file.h"
#include "converter/cli/own_sandbox.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/ground/spill.h"
#include "converter/symbols/symbol_packets.h"
#include "converter/symbols/symbolize.h"
#include "converter/tables/statement.h"
#include "protos/fields.h"

#define WINDOW_BYTES 65536
#define HEAD_MAX     20 // bytes of the tag and the length of a packet

static const char help[] =
    "usage: mmsql symbolize [OPTION]... TRACE -o FILE\n"
    "\n"
    "Writes a copy of the trace that also has the functions and source lines of its\n"
    "call stacks, inlined functions included. The Perfetto UI and all other readers\n"
    "of traces show them, also on machines without the programs. The names come from\n"
    "files with the same build id: debug data in /usr/lib/debug, and the program and\n"
    "its libraries, in place or in DIR.\n"
    "\n"
    "      --symbol-path DIR  search in DIR, too; may be repeated\n"
    "      --symbols-only     write no copy, only the packets that belong behind the\n"
    "                         packets of the trace\n"
    "  -o, --output FILE      write there; '-' is standard output\n"
    "      --max-memory SIZE  memory limit of the conversion of the trace\n"
    "      --max-output SIZE  disk limit of the conversion of the trace\n"
    "  -h, --help             this text\n"
    "\n"
    "TRACE is a plain trace; with --symbols-only, it may be compressed, a bugreport,\n"
    "or '-', standard input.\n"
    "\n"
    "Examples:\n"
    "  mmsql symbolize heap.pftrace -o heap-lines.pftrace\n"
    "  mmsql symbolize --symbols-only heap.pftrace -o - >> heap.pftrace\n"
    "\n"
    "Exit code: 0 written; 1 no symbols were found, or a failure; 2 wrong usage.\n";

struct options {
    const char *path, *output; // borrowed
    struct option_texts folders;
    bool symbols_only;
    struct limits limits;
};

struct symbols {
    const struct options *options;
    sqlite3 *handle; // owned
    int fd;          // owned; the trace that is copied; -1: none
    uint64_t size;   // of the whole packets in the trace
    size_t n;        // addresses with symbols
};

static void symbols_done(struct symbols *symbols)
{
    sqlite3_close(symbols->handle);
    close_fd(symbols->fd);
}

// Converts the trace with its symbols into a database without a name.
static int trace_convert(struct symbols *symbols, struct err *err)
{
    const struct options *options = symbols->options;
    CLEANUP(freep) char *output = NULL;
    struct conversion_result result = {0};
    struct conversion conversion = {.quiet = true,
                                    .opened = &symbols->handle,
                                    .symbolize = true,
                                    .limits = options->limits,
                                    .goes_on = interrupts_none};
    int r = asprintf(&output, "%s/mmsql-symbolize", temporary_folder(NULL)) < 0 ? -ENOMEM : 0;
    if (r < 0)
        output = NULL;
    conversion.output = output;
    vec_foreach(&options->folders, folder)
        r = r < 0 ? r : path_vec_push(&conversion.symbols, *folder);
    if (r == 0)
        r = conversion_files_push(&conversion.files,
                                  (struct conversion_file){.path = options->path});
    r = r < 0 ? err_errno(err, r, "symbols") : conversion_run(&conversion, &result, err);
    conversion_files_done(&conversion.files);
    path_vec_done(&conversion.symbols);
    return r;
}

// Returns the size of the packets that the trace has as a whole: the recorder may have died in the
// middle of a packet. The packets of a damaged trace cannot be told apart: then the trace counts as
// whole.
static uint64_t whole_packets(int fd, uint64_t size)
{
    uint8_t bytes[WINDOW_BYTES];
    uint64_t begin = 0, end = 0, at = 0; // `bytes` are those from `begin` to `end`
    while (at < size) {
        if (at + HEAD_MAX > end && end < size) {
            ssize_t n = pread(fd, bytes, sizeof(bytes), (off_t)at);
            if (n <= 0)
                return size;
            begin = at;
            end = at + (uint64_t)n < size ? at + (uint64_t)n : size;
        }
        uint64_t tag, length;
        const uint8_t *head = bytes + (at - begin), *pos = head, *last = bytes + (end - begin);
        if (!wire_get_varint(&pos, last, &tag) || !wire_get_varint(&pos, last, &length))
            return end - at < HEAD_MAX ? at : size;
        if (tag != (PB_Trace_packet << 3 | WIRE_BYTES))
            return size;
        at += (uint64_t)(pos - head);
        if (length > size - at)
            return at - (uint64_t)(pos - head);
        at += length;
    }
    return at;
}

// Looks at the end of a plain trace. Packets behind a packet that is not whole would become parts
// of this packet.
static int end_check(struct symbols *symbols, uint64_t size, struct err *err)
{
    const char *path = symbols->options->path;
    symbols->size = whole_packets(symbols->fd, size);
    if (symbols->size == size)
        return 0;
    if (!symbols->options->symbols_only) {
        say("%s: the last packet is not whole: the copy leaves out %llu bytes", path,
            (unsigned long long)(size - symbols->size));
        return 0;
    }
    err_set(err, -EINVAL, "%s: the last packet is not whole: no packet can be added behind it",
            path);
    return err_hint(err, -EINVAL, "make a copy, without --symbols-only");
}

// Opens the trace for the copy, and checks its end. A compressed trace, or a trace in an archive,
// takes no further packets.
static int copy_open(struct symbols *symbols, struct err *err)
{
    struct stat st;
    const char *path = symbols->options->path;
    int64_t plain = sql_number(symbols->handle,
                               "SELECT CASE WHEN count(*) = 1 AND min(format) = 'trace' "
                               "THEN min(size_bytes) END FROM input_file",
                               -1);
    if (symbols->options->symbols_only && (plain < 0 || str_eq(path, "-")))
        return 0;
    symbols->fd = open_regular(path, INT64_MAX);
    if (symbols->fd < 0)
        return err_errno(err, symbols->fd, "%s", path);
    if (fstat(symbols->fd, &st) == 0 && st.st_size == plain)
        return end_check(symbols, (uint64_t)plain, err);
    if (symbols->options->symbols_only)
        return 0;
    err_set(err, -EINVAL, "%s: not a plain trace, which packets can be added to", path);
    return err_hint(err, -EINVAL, "--symbols-only writes the packets alone");
}

static int fill(void *userdata, FILE *out, struct err *err)
{
    struct symbols *symbols = userdata;
    bool write;
    bool copies = !symbols->options->symbols_only;
    int r = copies ? fd_copy_bytes(symbols->fd, fileno(out), symbols->size, &write) : 0;
    if (r < 0)
        return err_errno(err, r, "%s",
                         write && symbols->options->output ? symbols->options->output
                                                           : symbols->options->path);
    r = symbol_packets_write(symbols->handle, out, &symbols->n, err);
    if (r == 0 && symbols->n == 0) {
        r = err_set(err, -ENODATA, "%s: no symbols were found", symbols->options->path);
        err_hint(err, r, "install debug data, or name a folder with --symbol-path");
    }
    return r;
}

static bool sandbox_enter(const struct options *options)
{
    struct own_sandbox sandbox = {.reads_all = true}; // the trace names the files
    own_sandbox_input(&sandbox, options->path);
    own_sandbox_output(&sandbox, options->output);
    return own_sandbox_enter(&sandbox);
}

static int symbolize_run(const struct options *options)
{
    CLEANUP(symbols_done) struct symbols symbols = {.options = options, .fd = -1};
    struct err err = {0};
    if (!sandbox_enter(options))
        return EXIT_FAILED;
    interrupts_note();
    int r = trace_convert(&symbols, &err);
    if (!interrupts_let() && r == 0)
        r = err_set(&err, -ECANCELED, "interrupted; nothing was written");
    if (r == 0)
        r = copy_open(&symbols, &err);
    if (r < 0) {
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    return output_file_write(options->output, fill, &symbols);
}

static void options_done(struct options *options)
{
    option_texts_done(&options->folders);
}

static int run_symbolize(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"symbol-path", OPTION_TEXTS, offsetof(struct options, folders)},
        {"symbols-only", OPTION_FLAG, offsetof(struct options, symbols_only)},
        {"output", OPTION_TEXT, offsetof(struct options, output), 'o'},
        LIMIT_OPTIONS(struct options),
        {0},
    };
    CLEANUP(options_done) struct options options = {0};
    int code;
    if (!verb_options_read("symbolize", help, rows, argc, argv, &options, &code))
        return code;
    if (optind + 1 != argc)
        return usage_error("symbolize", "one trace is needed");
    options.path = argv[optind];
    if (!options.output)
        return usage_error("symbolize", "-o FILE is missing");
    if (str_eq(options.path, "-") && !options.symbols_only)
        return usage_error("symbolize", "a trace from standard input needs --symbols-only");
    bool is_stdout = str_eq(options.output, "-"), appends = is_stdout && options.symbols_only;
    if (!appends && file_is_same(is_stdout ? "/dev/stdout" : options.output, options.path)) {
        say("%s: the output would replace the input (choose another name for the output)",
            options.output);
        return EXIT_FAILED;
    }
    if (symbolize_is_built_in())
        return symbolize_run(&options);
    say("this mmsql is built without libdw and cannot read symbols");
    return EXIT_FAILED;
}

const struct program_verb verb_symbolize = {
    .name = "symbolize",
    .arguments = "TRACE -o FILE",
    .summary = "add functions and source lines to the call stacks of a trace",
    .run = run_symbolize,
};
