// SPDX-License-Identifier: Apache-2.0
//
// minizip reads through callbacks, which read the bytes of the archive's input: a file, a pipe or
// another archive. Entries are inflated into unnamed files, as other inputs.
//
// A zip may inflate to far more than it declares, or name the same bytes many times. All kept bytes
// count against one limit, which depends on the size of the archive; the inflated bytes of a gzip
// entry count, too. An entry that exceeds the limit is left out and its bytes are not counted, so
// that small entries behind it are read. Inflating takes time, also for left-out entries: a second
// limit, twice the first, counts all inflated bytes.
#include "converter/input/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"

#ifdef HAVE_MINIZIP
#include <unzip.h>
#endif

#define BUGREPORT_FOLDER "FS/data/misc/perfetto-traces/"
#define PROC_FOLDER      "FS/proc/"
#define HEAD_BYTES       4096
#define NAME_BYTES_MAX   4096
#define ENTRIES_MAX      1000000
#define FILES_MAX        4096
#define FLAG_ENCRYPTED   1

bool archive_recognise(const struct input *input)
{
    struct text head = {(const char *)input_bytes(input), input_size(input)};
    return head.size >= 22 &&
           (text_starts_with(head, TEXT("PK\3\4")) || text_starts_with(head, TEXT("PK\5\6")));
}

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

#ifdef HAVE_MINIZIP

struct archive {
    struct input *input; // borrowed
    const char *path;
    struct input_needs needs; // with a pointer to `inflation`
    struct inflation inflation;
    bool (*wanted)(const char *name, const uint8_t *head, size_t size);
    unzFile zip;
    uint64_t at; // reading position
    bool only_bugreport;
    struct archive_left_out *left_out;
    struct archive_files *files;
};

static voidpf bytes_open(voidpf opaque, const void *name, int mode)
{
    (void)name;
    return mode & ZLIB_FILEFUNC_MODE_WRITE ? NULL : opaque;
}

static uLong bytes_read(voidpf opaque, voidpf stream, void *buffer, uLong size)
{
    (void)stream;
    struct archive *archive = opaque;
    uint64_t there = input_size(archive->input);
    uint64_t left = archive->at < there ? there - archive->at : 0;
    if (size > left)
        size = (uLong)left;
    if (size)
        memcpy(buffer, input_bytes(archive->input) + archive->at, size);
    archive->at += size;
    return size;
}

static uLong bytes_write(voidpf opaque, voidpf stream, const void *buffer, uLong size)
{
    (void)opaque, (void)stream, (void)buffer, (void)size;
    return 0;
}

static ZPOS64_T bytes_tell(voidpf opaque, voidpf stream)
{
    (void)stream;
    return ((struct archive *)opaque)->at;
}

static long bytes_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
    (void)stream;
    struct archive *archive = opaque;
    uint64_t size = input_size(archive->input), base = 0;
    if (origin == ZLIB_FILEFUNC_SEEK_CUR)
        base = archive->at;
    else if (origin == ZLIB_FILEFUNC_SEEK_END)
        base = size;
    if (offset > size - (base < size ? base : size))
        return -1;
    archive->at = base + offset;
    return 0;
}

static int bytes_fine(voidpf opaque, voidpf stream)
{
    (void)opaque, (void)stream;
    return 0;
}

static int archive_open(struct archive *archive)
{
    zlib_filefunc64_def functions = {
        .zopen64_file = bytes_open,
        .zread_file = bytes_read,
        .zwrite_file = bytes_write,
        .ztell64_file = bytes_tell,
        .zseek64_file = bytes_seek,
        .zclose_file = bytes_fine,
        .zerror_file = bytes_fine,
        .opaque = archive,
    };
    archive->zip = unzOpen2_64(archive->path, &functions);
    return archive->zip ? 0 : -EBADMSG;
}

static bool is_without_memory(int code)
{
    return code == UNZ_INTERNALERROR || code == Z_MEM_ERROR;
}

static ssize_t entry_read(void *source, void *buffer, size_t size, struct err *err)
{
    struct archive *archive = source;
    int n = unzReadCurrentFile(archive->zip, buffer, (unsigned)size);
    if (is_without_memory(n))
        return err_errno(err, -ENOMEM, "zip");
    if (n < 0)
        return err_set(err, -EBADMSG, "the data is damaged (zip error %d)", n);
    int r = inflation_take(&archive->inflation, (uint64_t)n, err);
    if (r < 0)
        return r;
    if (!n && unzCloseCurrentFile(archive->zip) == UNZ_CRCERROR)
        return err_set(err, -EBADMSG, "the data is damaged (its checksum is wrong)");
    return n;
}

static void problem_note(struct archive *archive, const char *name, bool damaged, const char *why)
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

// Reads the entry's first bytes. Returns their number; -EBADMSG if the entry cannot be read, which
// is noted; -ENOMEM.
static int entry_head(struct archive *archive, const char *name, uint8_t *head)
{
    int code = unzOpenCurrentFile(archive->zip);
    if (is_without_memory(code))
        return -ENOMEM;
    if (code != UNZ_OK) {
        problem_note(archive, name, false,
                     "its method of compression or encryption is not supported");
        return -EBADMSG;
    }
    int n = unzReadCurrentFile(archive->zip, head, HEAD_BYTES);
    unzCloseCurrentFile(archive->zip);
    if (is_without_memory(n))
        return -ENOMEM;
    if (n < 0)
        problem_note(archive, name, true, "the data is damaged");
    return n < 0 ? -EBADMSG : n;
}

// Notes a left-out entry with the error in `err`, and clears `err`.
static void entry_leave_out(struct archive *archive, const char *name, struct err *err)
{
    char why[sizeof(err->text) + sizeof(err->hint) + 4];
    snprintf(why, sizeof(why), *err->hint ? "%s (%s)" : "%s", err->text, err->hint);
    problem_note(archive, name, true, why);
    *err = (struct err){0};
}

static int entry_take(struct archive *archive, const char *name, struct err *err)
{
    if (archive->files->n == FILES_MAX)
        return err_set(err, -EFBIG, "%s: more than %d files of use", archive->path, FILES_MAX);
    int code = unzOpenCurrentFile(archive->zip);
    if (is_without_memory(code))
        return err_errno(err, -ENOMEM, "%s!%s", archive->path, name);
    if (code != UNZ_OK)
        return 0;
    struct archive_file file = {.name = strdup(name)};
    uint64_t left = archive->inflation.left;
    int r = file.name ? input_from_reader(&archive->needs, entry_read, archive, err, &file.input)
                      : err_errno(err, -ENOMEM, "archive");
    unzCloseCurrentFile(archive->zip);
    if (r == 0)
        r = archive_files_push(archive->files, file);
    if (r == 0)
        return 0;
    free(file.name);
    input_free(file.input);
    if (r == -EFBIG || r == -EBADMSG) {
        entry_leave_out(archive, name, err);
        archive->inflation.left = left;
        return 0;
    }
    return r == -ECANCELED ? r : err_prefix(err, r, "%s!%s", archive->path, name);
}

// True for the entries about memory: traces, files of /proc, their index, and the kernel log
static bool is_of_bugreport(const char *name)
{
    return str_starts_with(name, BUGREPORT_FOLDER) || str_starts_with(name, PROC_FOLDER) ||
           str_eq(name, "index.txt") || str_eq(name, "kernel.log");
}

// The error if all useful entries were left out.
static int nothing_taken(const struct archive *archive, int r, struct err *err)
{
    const struct archive_left_out *left_out = archive->left_out;
    if (!left_out->texts[0])
        return err_errno(err, -ENOMEM, "%s", archive->path);
    if (left_out->n > 1)
        return err_set(err, r, "%s; nor can %zu further files in it be read", left_out->texts[0],
                       left_out->n - 1);
    return err_set(err, r, "%s", left_out->texts[0]);
}

static int entry_visit(struct archive *archive, struct err *err)
{
    char name[NAME_BYTES_MAX + 1];
    uint8_t head[HEAD_BYTES];
    unz_file_info64 info;
    if (unzGetCurrentFileInfo64(archive->zip, &info, name, sizeof(name), NULL, 0, NULL, 0) !=
            UNZ_OK ||
        !info.uncompressed_size)
        return 0;
    if (info.size_filename > NAME_BYTES_MAX) {
        problem_note(archive, "(a member)", true, "its name is too long");
        return 0;
    }
    name[info.size_filename] = '\0';
    if (info.flag & FLAG_ENCRYPTED) {
        problem_note(archive, name, false, "encrypted");
        return 0;
    }
    if (archive->only_bugreport && !is_of_bugreport(name))
        return 0;
    enum budget_limit stopped = budget_check(archive->needs.budget, BUDGET_INPUT);
    if (stopped) {
        char why[96];
        problem_note(archive, name, true,
                     budget_text(archive->needs.budget, stopped, why, sizeof(why)));
        archive->left_out->is_cut = true;
        return archive->files->n ? 1 : nothing_taken(archive, -EDQUOT, err);
    }
    int n = entry_head(archive, name, head);
    if (n == -ENOMEM)
        return err_errno(err, n, "%s!%s", archive->path, name);
    if (n <= 0 || !archive->wanted(name, head, (size_t)n))
        return 0;
    return entry_take(archive, name, err);
}

static void rest_note(struct archive *archive, size_t n_seen, int code)
{
    char name[64];
    snprintf(name, sizeof(name), "(members after number %zu)", n_seen);
    problem_note(archive, name, true,
                 code == UNZ_OK ? "these are too many" : "the directory of the archive is damaged");
}

// Calls `visit` for every entry until `visit` returns a value other than 0, and returns this value.
static int entries_walk(struct archive *archive,
                        int (*visit)(struct archive *archive, struct err *err), struct err *err)
{
    int code = unzGoToFirstFile(archive->zip), r = 0;
    size_t n = 0;
    for (; code == UNZ_OK && r == 0 && n < ENTRIES_MAX; n++) {
        if (archive->needs.goes_on && !archive->needs.goes_on(archive->needs.userdata))
            return -ECANCELED;
        r = visit(archive, err);
        code = unzGoToNextFile(archive->zip);
    }
    if (r == 0 && visit == entry_visit && code != UNZ_END_OF_LIST_OF_FILE)
        rest_note(archive, n, code);
    return r;
}

// True for a trace of a bugreport. An archive without the bugreport's folder may have traces
// anywhere.
static int entry_is_bugreport(struct archive *archive, struct err *err)
{
    (void)err;
    char name[sizeof(BUGREPORT_FOLDER)];
    unz_file_info64 info;
    return unzGetCurrentFileInfo64(archive->zip, &info, name, sizeof(name), NULL, 0, NULL, 0) ==
               UNZ_OK &&
           info.uncompressed_size && strncmp(name, BUGREPORT_FOLDER, sizeof(name) - 1) == 0;
}

static int entries_take(struct archive *archive, struct err *err)
{
    int r = entries_walk(archive, entry_is_bugreport, err);
    if (r < 0)
        return r;
    archive->only_bugreport = r > 0;
    r = entries_walk(archive, entry_visit, err);
    if (r < 0 || archive->files->n)
        return r < 0 ? r : 0;
    if (archive->left_out->n)
        return nothing_taken(archive, -EBADMSG, err);
    err_set(err, -ENOENT, "%s: no trace in this archive", archive->path);
    return err_hint(err, -ENOENT, "nor another file that mmsql reads");
}

int archive_read(struct input *input, const char *path, const struct input_needs *needs,
                 bool (*wanted)(const char *name, const uint8_t *head, size_t size),
                 struct err *err, struct archive_files *files, struct archive_left_out *left_out)
{
    uint64_t max = input_inflated_max(input_size(input));
    struct archive archive = {
        .input = input,
        .path = path,
        .needs = needs ? *needs : (struct input_needs){0},
        .inflation = {.archive_size = input_size(input), .left = max, .work = 2 * max},
        .wanted = wanted,
        .files = files,
        .left_out = left_out,
    };
    archive.needs.inflation = &archive.inflation;
    if (input_bytes(input)[2] == 5) { // the end record comes first
        err_set(err, -ENOENT, "%s: no trace in this archive", path);
        return err_hint(err, -ENOENT, "it is empty");
    }
    if (archive_open(&archive) < 0)
        return err_set(err, -EBADMSG,
                       "%s: the zip archive is damaged or cut: no directory at its end", path);
    int r = entries_take(&archive, err);
    unzClose(archive.zip);
    return r;
}

#else

int archive_read(struct input *input, const char *path, const struct input_needs *needs,
                 bool (*wanted)(const char *name, const uint8_t *head, size_t size),
                 struct err *err, struct archive_files *files, struct archive_left_out *left_out)
{
    (void)input;
    (void)needs;
    (void)wanted;
    (void)files;
    (void)left_out;
    err_set(err, -EOPNOTSUPP, "%s: a zip archive, and this mmsql is built without minizip", path);
    return err_hint(err, -EOPNOTSUPP, "unpack it first");
}

#endif
