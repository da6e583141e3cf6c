// SPDX-License-Identifier: Apache-2.0
//
// In JSON, a single result set is an array of objects. Several sets are an array of such arrays.
// The number of sets is known only after the last statement, because a statement's result depends
// on the statements before it. If statements follow, the first set therefore waits in an unnamed
// file. A single statement prints its rows directly.
#include "converter/cli/result_sets.h"

#include <errno.h>
#include <sqlite3.h>

#include "common/cleanup.h"
#include "converter/ground/spill.h"

static void output_begin(const struct result_form *form)
{
    if (form->begin)
        form->begin(form->userdata);
}

static FILE *held_open(void)
{
    int fd = unnamed_open(temporary_folder(NULL));
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!file)
        close_fd(fd);
    return file;
}

// Copies the held set to standard output.
static void held_print(struct result_sets *sets)
{
    char chunk[16384];
    size_t n;
    FILE *held = STEAL(sets->held);
    if (!held)
        return;
    rewind(held);
    while (!ferror(stdout) && (n = fread(chunk, 1, sizeof(chunk), held)) > 0)
        fwrite(chunk, 1, n, stdout);
    sets->failed |= ferror(held) != 0;
    fclose(held);
}

static int held_make(struct result_sets *sets, struct sqlite3_stmt *statement)
{
    struct result_form form = {.format = sets->form->format, .out = held_open()};
    sets->held = form.out;
    if (!form.out) {
        sets->failed = true;
        return SQLITE_CANTOPEN;
    }
    int code = result_print(statement, &form);
    if (fflush(form.out) == 0 && !ferror(form.out))
        return code;
    int why = errno;
    fclose(STEAL(sets->held));
    errno = why;
    sets->failed = true;
    return SQLITE_FULL;
}

static int json_print(struct result_sets *sets, struct sqlite3_stmt *statement, bool more)
{
    if (sets->n++ == 0 && more)
        return held_make(sets, statement);
    if (sets->held) {
        output_begin(sets->form);
        fputs("[\n", stdout);
        held_print(sets);
        sets->nested = true;
    }
    if (sets->nested)
        fputs(",\n", stdout);
    return sets->failed ? SQLITE_IOERR : result_print(statement, sets->form);
}

int result_sets_print(struct result_sets *sets, struct sqlite3_stmt *statement, bool more)
{
    if (sets->form->format == FORMAT_JSON)
        return json_print(sets, statement, more);
    struct result_form form = *sets->form;
    form.apart = sets->n++ > 0;
    return result_print(statement, &form);
}

void result_sets_finish(struct result_sets *sets)
{
    if (sets->held) {
        output_begin(sets->form);
        held_print(sets);
    }
    if (sets->nested)
        fputs("]\n", stdout);
    sets->nested = false;
    if (sets->form->format == FORMAT_JSON)
        sets->n = 0;
}
