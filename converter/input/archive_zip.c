// SPDX-License-Identifier: Apache-2.0
//
// minizip reads through callbacks, which read the bytes of the archive's input: a file, a pipe or
// another archive. Entries are inflated into unnamed files, like other compressed inputs.
#include "converter/input/archive_zip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef HAVE_MINIZIP
#include <unzip.h>
#endif

#define ENTRIES_MAX    1000000
#define FLAG_ENCRYPTED 1

#ifdef HAVE_MINIZIP

struct zip {
    struct archive *archive; // borrowed
    unzFile file;
    uint64_t at; // reading position
};

static voidpf bytes_open(voidpf opaque, const void *name, int mode)
{
    (void)name;
    return mode & ZLIB_FILEFUNC_MODE_WRITE ? NULL : opaque;
}

static uLong bytes_read(voidpf opaque, voidpf stream, void *buffer, uLong size)
{
    (void)stream;
    struct zip *zip = opaque;
    const struct input *input = zip->archive->input;
    uint64_t there = input_size(input);
    uint64_t left = zip->at < there ? there - zip->at : 0;
    if (size > left)
        size = (uLong)left;
    if (size)
        memcpy(buffer, input_bytes(input) + zip->at, size);
    zip->at += size;
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
    return ((struct zip *)opaque)->at;
}

static long bytes_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
    (void)stream;
    struct zip *zip = opaque;
    uint64_t size = input_size(zip->archive->input), base = 0;
    if (origin == ZLIB_FILEFUNC_SEEK_CUR)
        base = zip->at;
    else if (origin == ZLIB_FILEFUNC_SEEK_END)
        base = size;
    if (offset > size - (base < size ? base : size))
        return -1;
    zip->at = base + offset;
    return 0;
}

static int bytes_fine(voidpf opaque, voidpf stream)
{
    (void)opaque, (void)stream;
    return 0;
}

static int zip_open(struct zip *zip)
{
    zlib_filefunc64_def functions = {
        .zopen64_file = bytes_open,
        .zread_file = bytes_read,
        .zwrite_file = bytes_write,
        .ztell64_file = bytes_tell,
        .zseek64_file = bytes_seek,
        .zclose_file = bytes_fine,
        .zerror_file = bytes_fine,
        .opaque = zip,
    };
    zip->file = unzOpen2_64(zip->archive->path, &functions);
    return zip->file ? 0 : -EBADMSG;
}

static bool is_without_memory(int code)
{
    return code == UNZ_INTERNALERROR || code == Z_MEM_ERROR;
}

static ssize_t entry_read(void *source, void *buffer, size_t size, struct err *err)
{
    struct zip *zip = source;
    int n = unzReadCurrentFile(zip->file, buffer, (unsigned)size);
    if (is_without_memory(n))
        return err_errno(err, -ENOMEM, "zip");
    if (n < 0)
        return err_set(err, -EBADMSG, "the data is damaged (zip error %d)", n);
    int r = inflation_take(zip->archive->needs.inflation, (uint64_t)n, err);
    if (r < 0)
        return r;
    if (!n && unzCloseCurrentFile(zip->file) == UNZ_CRCERROR)
        return err_set(err, -EBADMSG, "the data is damaged (its checksum is wrong)");
    return n;
}

// Reads the entry's first bytes. Returns the number of bytes; -EBADMSG if the entry cannot be read,
// after a note; -ENOMEM.
static int entry_head(struct zip *zip, const char *name, uint8_t *head)
{
    int code = unzOpenCurrentFile(zip->file);
    if (is_without_memory(code))
        return -ENOMEM;
    if (code != UNZ_OK) {
        archive_note(zip->archive, name, false,
                     "its method of compression or encryption is not supported");
        return -EBADMSG;
    }
    int n = unzReadCurrentFile(zip->file, head, ARCHIVE_HEAD_BYTES);
    unzCloseCurrentFile(zip->file);
    if (is_without_memory(n))
        return -ENOMEM;
    if (n < 0)
        archive_note(zip->archive, name, true, "the data is damaged");
    return n < 0 ? -EBADMSG : n;
}

static int entry_take(struct zip *zip, const char *name, struct err *err)
{
    int code = unzOpenCurrentFile(zip->file);
    if (is_without_memory(code))
        return err_errno(err, -ENOMEM, "%s!%s", zip->archive->path, name);
    if (code != UNZ_OK)
        return 0;
    int r = archive_take(zip->archive, name, NULL, entry_read, zip, err);
    unzCloseCurrentFile(zip->file);
    return r;
}

static int entry_visit(struct zip *zip, struct err *err)
{
    struct archive *archive = zip->archive;
    char name[ARCHIVE_NAME_BYTES_MAX + 1];
    uint8_t head[ARCHIVE_HEAD_BYTES];
    unz_file_info64 info;
    if (unzGetCurrentFileInfo64(zip->file, &info, name, sizeof(name), NULL, 0, NULL, 0) != UNZ_OK ||
        !info.uncompressed_size)
        return 0;
    if (info.size_filename > ARCHIVE_NAME_BYTES_MAX) {
        archive_note(archive, "(a member)", true, "its name is too long");
        return 0;
    }
    name[info.size_filename] = '\0';
    if (info.flag & FLAG_ENCRYPTED) {
        archive_note(archive, name, false, "encrypted");
        return 0;
    }
    if (archive_leaves_out(archive, name))
        return 0;
    int n = archive_ends(archive, name, err);
    if (n)
        return n;
    n = entry_head(zip, name, head);
    if (n == -ENOMEM)
        return err_errno(err, n, "%s!%s", archive->path, name);
    if (n <= 0 || !archive->wanted(name, head, (size_t)n))
        return 0;
    return entry_take(zip, name, err);
}

// Calls `visit` for every entry until `visit` returns a value other than 0, and returns this value.
static int entries_walk(struct zip *zip, int (*visit)(struct zip *zip, struct err *err),
                        struct err *err)
{
    int code = unzGoToFirstFile(zip->file), r = 0;
    size_t n = 0;
    for (; code == UNZ_OK && r == 0 && n < ENTRIES_MAX; n++) {
        if (!archive_goes_on(zip->archive))
            return -ECANCELED;
        r = visit(zip, err);
        code = unzGoToNextFile(zip->file);
    }
    if (r == 0 && visit == entry_visit && code != UNZ_END_OF_LIST_OF_FILE)
        archive_note_rest(zip->archive, n,
                          code == UNZ_OK ? "these are too many"
                                         : "the directory of the archive is damaged");
    return r;
}

// Returns true for a trace of a bugreport. An archive without the bugreport's folder may have
// traces anywhere.
static int entry_is_bugreport(struct zip *zip, struct err *err)
{
    (void)err;
    char name[sizeof(BUGREPORT_FOLDER)];
    unz_file_info64 info;
    return unzGetCurrentFileInfo64(zip->file, &info, name, sizeof(name), NULL, 0, NULL, 0) ==
               UNZ_OK &&
           info.uncompressed_size && strncmp(name, BUGREPORT_FOLDER, sizeof(name) - 1) == 0;
}

int archive_read_zip(struct archive *archive, struct err *err)
{
    struct zip zip = {.archive = archive};
    if (input_bytes(archive->input)[2] == 5) { // the archive begins with its end record
        err_set(err, -ENOENT, "%s: no trace in this archive", archive->path);
        return err_hint(err, -ENOENT, "it is empty");
    }
    if (zip_open(&zip) < 0)
        return err_set(err, -EBADMSG,
                       "%s: the zip archive is damaged or cut: no directory at its end",
                       archive->path);
    int r = entries_walk(&zip, entry_is_bugreport, err);
    archive->only_bugreport = r > 0;
    if (r >= 0)
        r = entries_walk(&zip, entry_visit, err);
    unzClose(zip.file);
    return r;
}

#else

int archive_read_zip(struct archive *archive, struct err *err)
{
    err_set(err, -EOPNOTSUPP, "%s: a zip archive, and this mmsql is built without minizip",
            archive->path);
    return err_hint(err, -EOPNOTSUPP, "unpack it first");
}

#endif
