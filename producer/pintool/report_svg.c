// SPDX-License-Identifier: Apache-2.0
//
// A row is a name, a percentage and a bar. The bar has one path per level of density, with a
// rectangle for each run of cells of this level. The picture's height is at its start, so the rows
// are gathered first. Their number is limited, because nobody reads more.
#include <inttypes.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "producer/pintool/report.h"
#include "producer/pintool/whole_file.h"

#define ROWS_MAX    2000
#define ROW_HEIGHT  18
#define BAR_HEIGHT  12
#define BAR_LEFT    330
#define N_CELLS     600
#define LEVELS      8
#define HEAD_HEIGHT 40
#define NAME_SHOWN  44

// XML does not permit U+FFFE and U+FFFF.
static bool is_noncharacter(const char *text)
{
    return str_starts_with(text, "\xef\xbf\xbe") || str_starts_with(text, "\xef\xbf\xbf");
}

static void add_escaped(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (is_noncharacter(text)) {
            strbuf_add_char(out, '?');
            text += 2;
            continue;
        }
        switch (*text) {
        case '&':
            strbuf_add_str(out, "&amp;");
            break;
        case '<':
            strbuf_add_str(out, "&lt;");
            break;
        case '>':
            strbuf_add_str(out, "&gt;");
            break;
        default:
            strbuf_add_char(out, *text);
        }
    }
}

// The end of a long name is more informative than its start.
static void add_name(struct strbuf *out, const char *name)
{
    const char *end = name + strlen(name), *from = name;
    size_t n = 0;
    bool ignored;
    for (const char *at = name; at < end; at += str_character(at, end, &ignored))
        n++;
    for (; n > NAME_SHOWN; n--)
        from += str_character(from, end, &ignored);
    if (from > name)
        strbuf_add_str(out, "\xe2\x80\xa6");
    add_escaped(out, from);
}

static void add_bar(struct strbuf *out, const uint8_t *cells, unsigned y)
{
    for (unsigned level = 1; level <= LEVELS; level++) {
        bool begun = false;
        for (size_t i = 0, run; i < N_CELLS; i += run) {
            for (run = 1; i + run < N_CELLS && cells[i + run] == cells[i];)
                run++;
            if (cells[i] != level)
                continue;
            if (!begun)
                strbuf_addf(out, "<path class=\"d%u\" d=\"", level);
            begun = true;
            strbuf_addf(out, "M%zu %uh%zuv%dh-%zuz", BAR_LEFT + i, y, run, BAR_HEIGHT, run);
        }
        if (begun)
            strbuf_add_str(out, "\"/>");
    }
}

static void add_row(struct report *report, const struct subject *subject,
                    const struct report_row *row)
{
    const struct part *part = &row->part;
    struct strbuf *out = &report->rows;
    uint8_t cells[N_CELLS] = {0};
    bool unknown = subject->origin == PROBE_UNKNOWN;
    if (report->n_rows == ROWS_MAX) {
        report->n_rows_left_out++;
        return;
    }
    unsigned y = HEAD_HEIGHT + (unsigned)report->n_rows++ * ROW_HEIGHT;
    char name_text[REPORT_NAME_MAX];
    const char *name = report_name(name_text, part->name);
    strbuf_addf(out, "<g><title>");
    add_escaped(out, name);
    strbuf_addf(out, ", %" PRIu64 " bytes, ", part->size_bytes);
    if (unknown)
        strbuf_add_str(out, "residency unknown</title>");
    else
        strbuf_addf(out, "%" PRIu64 " resident</title>", row->covered_bytes);
    strbuf_addf(out, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">", BAR_LEFT - 58, y + 10);
    add_name(out, name);
    strbuf_addf(out, "</text><text x=\"%d\" y=\"%u\" text-anchor=\"end\">", BAR_LEFT - 8, y + 10);
    if (unknown)
        strbuf_add_str(out, "?</text>");
    else
        strbuf_addf(out, "%.1f%%</text>", coverage_percent(row->covered_bytes, part->size_bytes));
    strbuf_addf(out, "<rect class=\"%s\" x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\"/>",
                unknown ? "unknown" : "d0", BAR_LEFT, y, N_CELLS, BAR_HEIGHT);
    if (part->size_bytes && !unknown) {
        density_levels(row->ranges, row->n_ranges, part->offset, part->size_bytes, LEVELS, N_CELLS,
                       cells);
        add_bar(out, cells, y);
    }
    strbuf_add_str(out, "</g>\n");
}

static void svg_subject(struct report *report, const struct subject *subject)
{
    report_rows(report, subject, add_row);
}

static void add_style(struct strbuf *out)
{
    strbuf_add_str(out, "<style>text{font:11px sans-serif;fill:#222}.d0{fill:#e4e7eb}"
                        ".unknown{fill:none;stroke:#999;stroke-dasharray:3 3}");
    for (unsigned level = 1; level <= LEVELS; level++)
        strbuf_addf(out, ".d%u{fill:#1f6feb;fill-opacity:%.2f}", level,
                    0.25 + 0.75 * level / LEVELS);
    strbuf_add_str(out, "</style>\n");
}

static int svg_end(struct report *report, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf out = {0};
    unsigned width = BAR_LEFT + N_CELLS + 12;
    unsigned height = HEAD_HEIGHT + (unsigned)report->n_rows * ROW_HEIGHT + ROW_HEIGHT;
    strbuf_addf(&out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                "viewBox=\"0 0 %u %u\">\n",
                width, height, width, height);
    add_style(&out);
    strbuf_addf(&out,
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                "<text x=\"%d\" y=\"22\">begin of the file</text>"
                "<text x=\"%d\" y=\"22\" text-anchor=\"end\">end</text>\n",
                BAR_LEFT, BAR_LEFT + N_CELLS);
    strbuf_add(&out, report->rows.text, report->rows.size);
    if (report->n_rows_left_out)
        strbuf_addf(&out, "<text x=\"%d\" y=\"%u\">and %zu more</text>\n", BAR_LEFT, height - 6,
                    report->n_rows_left_out);
    strbuf_add_str(&out, "</svg>\n");
    const char *path = report->options->svg_path;
    int r;
    if (out.failed || report->rows.failed)
        r = err_errno(err, -ENOMEM, "%s", path);
    else if (!str_eq(path, "-"))
        r = whole_file_write(path, out.text, out.size, err);
    else if ((r = fd_write_all(report->options->stream_fd, out.text, out.size)) < 0)
        err_errno(err, r, "standard output");
    strbuf_done(&report->rows);
    return r;
}

const struct report_kind report_svg = {.subject = svg_subject, .end = svg_end};
