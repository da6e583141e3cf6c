// SPDX-License-Identifier: Apache-2.0
//
// The page is written from front to back: texts, and slots between them. Only the slots need the
// databases.
#include "converter/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/report/json_text.h"
#include "converter/report/report_data.h"
#include "converter/report/report_files.h"
#include "converter/report/report_flames.h"
#include "converter/report/report_verdicts.h"
#include "converter/verdict/health.h"

#define BINS     800
#define BINS_MIN 200 // if a page has many traces

struct report {
    const struct report_input *inputs; // borrowed
    size_t n;
    bool compares;
    struct verdict_vec verdicts; // of the page's traces, in the order of the inputs
    struct report_input *owners; // owned; the input of each verdict
    size_t n_left_out;           // further traces
};

static void report_done(struct report *report)
{
    verdicts_done(&report->verdicts);
    free(report->owners);
}

// Adds the last traces of an input to the report, or its first trace if the report compares traces.
static int input_read(struct report *report, const struct report_input *input, struct err *err)
{
    CLEANUP(verdicts_done) struct verdict_vec found = {0};
    int r = report_verdicts_make(input->handle, input->name, !report->compares, &found, err);
    if (r < 0)
        return r;
    size_t max = report->compares ? 1 : REPORT_TRACES_MAX;
    size_t first = report->compares || found.n < max ? 0 : found.n - max;
    size_t end = report->compares ? 1 : found.n;
    report->n_left_out += found.n - (end - first);
    for (size_t i = first; i < end; i++) {
        struct report_input *owners =
            realloc(report->owners, (report->verdicts.n + 1) * sizeof(*owners));
        if (!owners)
            return err_errno(err, -ENOMEM, "report");
        report->owners = owners;
        owners[report->verdicts.n] = *input;
        if (verdict_vec_push(&report->verdicts, found.items[i]) < 0)
            return err_errno(err, -ENOMEM, "report");
        found.items[i] = (struct verdict){0};
    }
    return 0;
}

static void title_write(const struct report *report, FILE *out)
{
    CLEANUP(strbuf_done) struct strbuf html = {0};
    for (size_t i = 0; i < report->n; i++) {
        const char *slash = strrchr(report->inputs[i].name, '/');
        strbuf_add_str(&html, i ? " and " : "");
        html_add_text(&html, slash ? slash + 1 : report->inputs[i].name);
    }
    fputs(html.text ? html.text : "", out);
}

// Writes the sentences of each trace. The script makes each sentence a link to its moment.
static int verdicts_write(const struct report *report, FILE *out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf html = {0};
    vec_foreach(&report->verdicts, verdict) {
        strbuf_add_str(&html, "<ol class=\"verdict\">\n");
        vec_foreach(&verdict->findings, finding) {
            strbuf_addf(&html, "<li class=\"%s\" data-kind=\"%s\"",
                        verdict_severity_name(finding->severity), verdict_kind_name(finding->kind));
            if (finding->has_time)
                strbuf_addf(&html, " data-ts=\"%" PRId64 "\" data-dur=\"%" PRId64 "\"", finding->ts,
                            finding->dur);
            strbuf_add_str(&html, "><p>");
            html_add_text(&html, finding->text);
            strbuf_add_str(&html, "</p></li>\n");
        }
        strbuf_add_str(&html, "</ol>\n");
    }
    if (html.failed)
        return err_errno(err, -ENOMEM, "report");
    fputs(html.text ? html.text : "", out);
    return 0;
}

static int health_write(const struct report_trace *trace, FILE *out, struct err *err)
{
    CLEANUP(health_lines_done) struct health_line_vec lines = {0};
    CLEANUP(strbuf_done) struct strbuf json = {0};
    int r = health_read(trace->handle, trace->trace_id, &lines, err);
    if (r < 0)
        return r;
    vec_foreach(&lines, line) {
        strbuf_add_str(&json, json.size ? "],[" : "[");
        json_add_text(&json, line->what);
        strbuf_add_char(&json, ',');
        json_add_text(&json, line->hint ? line->hint : "");
    }
    strbuf_add_str(&json, json.size ? "]" : "");
    if (json.failed)
        return err_errno(err, -ENOMEM, "report");
    fprintf(out, "\"health\":[%s],", json.text);
    return 0;
}

static int trace_open(const struct report *report, size_t i, struct report_trace *ret,
                      struct err *err)
{
    bool is_fine = report->compares || BINS / report->verdicts.n > BINS_MIN;
    return report_trace_open(ret, report->owners[i].handle, report->verdicts.items[i].trace_id,
                             is_fine ? BINS : BINS_MIN, err);
}

static int trace_write(const struct report *report, size_t i, FILE *out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf name = {0};
    struct report_trace trace;
    int r = trace_open(report, i, &trace, err);
    if (r < 0)
        return r;
    json_add_text(&name, report->owners[i].name);
    fprintf(out,
            "{\"input\":%s,\"start\":\"%" PRId64 "\",\"span\":%" PRId64 ",\"bin\":%" PRId64 ",",
            name.text ? name.text : "null", trace.start, (trace.end - trace.start) / 1000,
            trace.bin / 1000);
    r = health_write(&trace, out, err);
    if (r == 0) {
        fputs("\"data\":", out);
        r = report_data_write(&trace, out, err);
    }
    if (r == 0 && !report->compares) {
        fputs(",\"flames\":", out);
        r = report_flames_write(&trace, out, err);
    }
    fputc('}', out);
    return r;
}

static int data_write(const struct report *report, FILE *out, struct err *err)
{
    int r = 0;
    fprintf(out, "{\"compares\":%s,\"left_out\":%zu,\"traces\":[",
            report->compares ? "true" : "false", report->n_left_out);
    for (size_t i = 0; r == 0 && i < report->verdicts.n; i++) {
        fputs(i ? ",\n" : "", out);
        r = trace_write(report, i, out, err);
    }
    fputs("]", out);
    if (r == 0 && report->compares) {
        struct report_trace traces[2];
        r = trace_open(report, 0, &traces[0], err);
        if (r == 0)
            r = trace_open(report, 1, &traces[1], err);
        fputs(",\"flames\":", out);
        if (r == 0)
            r = report_flames_compare(&traces[0], &traces[1], out, err);
    }
    fputc('}', out);
    return r;
}

int report_write(const struct report_input *inputs, size_t n, bool compares, FILE *out,
                 struct err *err)
{
    CLEANUP(report_done) struct report report = {.inputs = inputs, .n = n, .compares = compares};
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = input_read(&report, &inputs[i], err);
    for (const struct report_part *part = report_parts; r == 0 && part->slot != REPORT_END;
         part++) {
        switch (part->slot) {
        case REPORT_TITLE:
            title_write(&report, out);
            break;
        case REPORT_VERDICT:
            r = verdicts_write(&report, out, err);
            break;
        case REPORT_DATA:
            r = data_write(&report, out, err);
            break;
        default:
            fputs(part->text, out);
        }
    }
    return r;
}
