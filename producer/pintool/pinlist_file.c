// SPDX-License-Identifier: Apache-2.0
//
// The limit is eight million ranges: far more than a real list has, and few enough to be read at
// once.
//
// A zip is distinguished from a list by its first bytes, or by its file name, because other bytes
// may precede a zip. A list with exactly these bytes would begin at byte 1,347,093,252, in the
// middle of a page.
#include "producer/pintool/pinlist_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "producer/pintool/embedded_list.h"
#include "producer/pintool/whole_file.h"
#include "producer/pintool/zip_source.h"

#define PINLIST_BYTES_MAX ((size_t)64 << 20)
#define SOURCE_BYTES_MAX  ((size_t)16 << 20)

static bool is_called_zip(const char *path)
{
    static const char *const suffixes[] = {".apk", ".zip", ".jar"};
    for (size_t i = 0; i < ELEMENTS(suffixes); i++)
        if (str_ends_with(path, suffixes[i]))
            return true;
    return false;
}

static int zip_read(const struct zipindex_source *bytes, const char *path, struct pinlist *ret,
                    struct list_source *ret_source, struct err *err)
{
    CLEANUP(zipindex_done) struct zipindex index = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    CLEANUP(strbuf_done) struct strbuf name = {0};
    strbuf_addf(&name, "%s: " EMBEDDED_LIST_NAME, path);
    if (name.failed)
        return err_errno(err, -ENOMEM, "%s", path);
    int r = zipindex_read(bytes, path, &index, err);
    if (r == 0)
        r = embedded_list_read(bytes, &index, path, PINLIST_BYTES_MAX, &text, err);
    if (r == 0)
        r = pinlist_parse(text.text, text.size, name.text, ret, err);
    if (r < 0 || !ret_source)
        return r;
    r = list_source_make(ret, &index, path, bytes->size_bytes, ret_source);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}

static int zip_file_read(int fd, uint64_t size, const char *path, struct pinlist *ret,
                         struct list_source *ret_source, struct err *err)
{
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    int r = residency_probe_new(RESIDENCY_AUTO, &probe);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    CLEANUP(zip_source_done) struct zip_source source = {.probe = probe, .fd = fd};
    struct zipindex_source bytes = zip_source_bytes(&source, size);
    return zip_read(&bytes, path, ret, ret_source, err);
}

static int memory_read(void *userdata, uint64_t offset, void *ret, size_t size)
{
    const struct strbuf *bytes = userdata;
    memcpy(ret, bytes->text + offset, size);
    return 0;
}

// A source file that cannot be read counts as unknown.
static int source_read(const char *path, const struct strbuf *list, struct list_source *ret,
                       struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf name = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct stat st;
    *ret = (struct list_source){0};
    strbuf_addf(&name, "%s" LIST_SOURCE_SUFFIX, path);
    if (name.failed)
        return err_errno(err, -ENOMEM, "%s", path);
    CLEANUP(close_fdp) int fd = open(name.text, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    int r = fd_read_all(fd, SOURCE_BYTES_MAX, &text);
    if (r == 0)
        r = list_source_parse(text.text, text.size, list, ret);
    return r == -ENOMEM ? err_errno(err, r, "%s", name.text) : 0;
}

// Parses bytes that were read as a whole, from a file or a pipe.
static int bytes_read(struct strbuf *bytes, const char *path, struct pinlist *ret,
                      struct list_source *ret_source, struct err *err)
{
    bool is_stream = str_eq(path, "-");
    const char *name = is_stream ? "standard input" : path;
    if (embedded_list_is_zip(bytes->text, bytes->size)) {
        struct zipindex_source source = {
            .size_bytes = bytes->size, .read = memory_read, .userdata = bytes};
        return zip_read(&source, name, ret, ret_source, err);
    }
    int r = pinlist_parse(bytes->text, bytes->size, name, ret, err);
    return r == 0 && ret_source && !is_stream ? source_read(path, bytes, ret_source, err) : r;
}

static bool is_zip(int fd, const char *path)
{
    char head[4];
    return is_called_zip(path) || (pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                                   embedded_list_is_zip(head, sizeof(head)));
}

int pinlist_file_is_zip(const char *path, bool *ret)
{
    CLEANUP(close_fdp) int fd = -1;
    struct stat st;
    int r = residency_open(AT_FDCWD, path, &fd, &st);
    if (r < 0 && r != -EINVAL)
        return r;
    *ret = r == 0 && is_zip(fd, path); // a pipe can only have a list
    return 0;
}

int pinlist_file_read(const char *path, struct pinlist *ret, struct list_source *ret_source,
                      struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    struct stat st;
    if (ret_source)
        *ret_source = (struct list_source){0};
    if (!str_eq(path, "-")) {
        CLEANUP(close_fdp) int fd = -1;
        if (residency_open(AT_FDCWD, path, &fd, &st) == 0 && is_zip(fd, path))
            return zip_file_read(fd, (uint64_t)st.st_size, path, ret, ret_source, err);
    }
    int r = whole_file_read(path, PINLIST_BYTES_MAX, &bytes, err);
    return r < 0 ? r : bytes_read(&bytes, path, ret, ret_source, err);
}

int pinlist_file_peek(const char *path, struct pinlist *ret, bool *ret_is_list)
{
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    struct stat st;
    int r = -EINVAL;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        r = whole_file_read(path, PINLIST_BYTES_MAX, &bytes, NULL);
    if (r == 0)
        r = embedded_list_is_zip(bytes.text, bytes.size)
                ? -EINVAL
                : pinlist_parse(bytes.text, bytes.size, path, ret, NULL);
    if (r == -ENOMEM)
        return r;
    *ret_is_list = r == 0;
    return 0;
}
