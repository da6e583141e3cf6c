// SPDX-License-Identifier: Apache-2.0
//
// A ring is meant to drop old packets. Their number is therefore shown separately from lost data.
#include "producer/cli/progress.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/terminal.h"
#include "producer/cli/cli.h"

static void add_count(struct strbuf *out, uint64_t n)
{
    char digits[24];
    int size = snprintf(digits, sizeof(digits), "%" PRIu64, n);
    for (int i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0)
            strbuf_add_char(out, ',');
        strbuf_add_char(out, digits[i]);
    }
}

// Adds ", 1,234 NOUNs" and `rest`, or nothing if n is 0.
static void add_part(struct strbuf *out, uint64_t n, const char *noun, const char *rest)
{
    if (n == 0)
        return;
    strbuf_add_str(out, ", ");
    add_count(out, n);
    strbuf_addf(out, " %s%s%s", noun, n == 1 ? "" : "s", rest);
}

static void add_size(struct strbuf *out, uint64_t bytes)
{
    static const char *const units[] = {"KB", "MB", "GB", "TB"};
    if (bytes < 1024) {
        strbuf_addf(out, "%" PRIu64 " bytes", bytes);
        return;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    strbuf_addf(out, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void progress_format(const struct session_counts *counts, uint64_t bytes, struct strbuf *out)
{
    strbuf_addf(out, "%.1f s, ", (double)counts->elapsed / 1e9);
    if (counts->events != PROGRESS_EVENTS_UNKNOWN) {
        add_count(out, counts->events);
        strbuf_add_str(out, counts->events == 1 ? " event, " : " events, ");
    }
    add_size(out, bytes);
    if (counts->events_lost + counts->readings_missed + counts->packets_discarded +
            counts->packets_overwritten ==
        0)
        strbuf_add_str(out, ", nothing lost");
    add_part(out, counts->events_lost, "event", " lost");
    // Sources count the events of refused packets as lost.
    if (counts->events_lost == 0)
        add_part(out, counts->packets_discarded, "packet", " refused by full buffers");
    add_part(out, counts->packets_overwritten, "old packet", " overwritten");
    add_part(out, counts->readings_missed, "reading", " left out: too late");
}

void progress_print_end(const char *name, const struct session_counts *counts, uint64_t bytes,
                        const char *note)
{
    struct strbuf line CLEANUP(strbuf_done) = {0};
    char printable[PATH_MAX];
    if (counts)
        progress_format(counts, bytes, &line);
    else
        strbuf_addf(&line, "%" PRIu64 " bytes", bytes);
    str_printable(printable, sizeof(printable), name, strlen(name));
    if (line.text)
        fprintf(stderr, CLI_PROGRAM ": %s: %s%s\n", printable, line.text, note);
}

void progress_show_text(const char *text)
{
    unsigned columns = terminal_columns(stderr);
    int width = columns > 1 ? (int)columns - 1 : 79; // a line that wraps cannot be erased
    fprintf(stderr, "\r%.*s\033[K", width, text);
}

void progress_show(const struct session_counts *counts)
{
    struct strbuf line CLEANUP(strbuf_done) = {0};
    progress_format(counts, counts->bytes, &line);
    if (line.text)
        progress_show_text(line.text);
}

void progress_erase(void)
{
    fputs("\r\033[K", stderr);
}
