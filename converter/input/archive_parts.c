// SPDX-License-Identifier: Apache-2.0
//
// Parts that all archives share: the choice of entries, and the limits.
//
// An archive may inflate to far more than it declares, or name the same bytes many times. All kept
// bytes count against one limit, which depends on the size of the archive; the inflated bytes of
// compressed entries and of archives in the archive count, too. An entry that exceeds the limit is
// left out and its bytes are not counted, so that small entries after it are read. Left-out entries
// take time to inflate, too: a second limit, twice the first, applies to all inflated bytes.
#include "converter/input/archive_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"

#define PROC_FOLDER "FS/proc/"
#define FILES_MAX   4096

void archive_files_free(struct archive_files *files)
{
    vec_foreach(files, file) {
        free(file->name);
        input_free(file->input);
    }
    archive_files_done(files);
}

void archive_left_out_free(struct archive_left_out *left_out)
{
    for (size_t i = 0; i < LEFT_OUT_TEXTS; i++)
        free(left_out->texts[i]);
    *left_out = (struct archive_left_out){0};
}

void archive_note(struct archive *archive, const char *name, bool damaged, const char *why)
{
    char printable[160], *text;
    struct archive_left_out *left_out = archive->left_out;
    left_out->damaged |= damaged;
    if (left_out->n++ >= LEFT_OUT_TEXTS)
        return;
    str_printable(printable, sizeof(printable), name, strlen(name));
    if (asprintf(&text, "%s!%s: %s", archive->path, printable, why) < 0)
        text = NULL;
    left_out->texts[left_out->n - 1] = text;
}

// Notes a left-out entry with the error in `err`, and clears `err`.
static void entry_leave_out(struct archive *archive, const char *name, struct err *err)
{
    char why[sizeof(err->text) + sizeof(err->hint) + 4];
    snprintf(why, sizeof(why), *err->hint ? "%s (%s)" : "%s", err->text, err->hint);
    archive_note(archive, name, true, why);
    *err = (struct err){0};
}

int archive_take(struct archive *archive, const char *name, const char *damage,
                 ssize_t (*read)(void *source, void *buffer, size_t size, struct err *err),
                 void *source, struct err *err)
{
    if (archive->files->n == FILES_MAX)
        return err_set(err, -EFBIG, "%s: more than %d files that mmsql reads", archive->path,
                       FILES_MAX);
    struct archive_file file = {.name = strdup(name)};
    uint64_t left = archive->needs.inflation->left;
    int r = file.name ? input_from_reader(&archive->needs, read, source, err, &file.input)
                      : err_errno(err, -ENOMEM, "archive");
    if (r == 0 && damage)
        input_note_damage(file.input, damage);
    if (r == 0)
        r = archive_files_push(archive->files, file);
    if (r == 0)
        return 0;
    free(file.name);
    input_free(file.input);
    if (r == -EFBIG || r == -EBADMSG || r == -EOPNOTSUPP) {
        entry_leave_out(archive, name, err);
        archive->needs.inflation->left = left;
        return 0;
    }
    return r == -ECANCELED ? r : err_prefix(err, r, "%s!%s", archive->path, name);
}

bool archive_is_bugreport(const char *name)
{
    return str_starts_with(name, BUGREPORT_FOLDER);
}

// Returns true for an entry that a bugreport's conversion reads: traces, files of /proc, their
// index, and the kernel log.
static bool is_of_bugreport(const char *name)
{
    return archive_is_bugreport(name) || str_starts_with(name, PROC_FOLDER) ||
           str_eq(name, "index.txt") || str_eq(name, "kernel.log");
}

bool archive_leaves_out(const struct archive *archive, const char *name)
{
    return archive->only_bugreport && !is_of_bugreport(name);
}

// Sets the error text for an archive whose useful entries were all left out.
int archive_nothing_taken(const struct archive *archive, int r, struct err *err)
{
    const struct archive_left_out *left_out = archive->left_out;
    if (!left_out->texts[0])
        return err_errno(err, -ENOMEM, "%s", archive->path);
    if (left_out->n > 1)
        return err_set(err, r, "%s; %zu further files in it cannot be read either",
                       left_out->texts[0], left_out->n - 1);
    return err_set(err, r, "%s", left_out->texts[0]);
}

int archive_ends(struct archive *archive, const char *name, struct err *err)
{
    enum budget_limit stopped = budget_check(archive->needs.budget, BUDGET_INPUT);
    if (!stopped)
        return 0;
    char why[96];
    archive_note(archive, name, true,
                 budget_text(archive->needs.budget, stopped, why, sizeof(why)));
    archive->left_out->is_cut = true;
    return archive->files->n ? 1 : archive_nothing_taken(archive, -EDQUOT, err);
}

void archive_note_rest(struct archive *archive, size_t n_seen, const char *why)
{
    char name[64];
    snprintf(name, sizeof(name), "(members after number %zu)", n_seen);
    archive_note(archive, name, true, why);
}

bool archive_goes_on(const struct archive *archive)
{
    return !archive->needs.goes_on || archive->needs.goes_on(archive->needs.userdata);
}
