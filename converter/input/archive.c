// SPDX-License-Identifier: Apache-2.0
//
// Archives of all kinds.
#include "converter/input/archive.h"

#include <errno.h>

#include "converter/input/archive_tar.h"
#include "converter/input/archive_zip.h"
#include "converter/input/kinds.h"

bool archive_recognise(const struct input *input)
{
    return kind_role_of(input_bytes(input), input_size(input)) == ROLE_ARCHIVE;
}

struct inflation inflation_of(const struct input *input)
{
    uint64_t max = input_inflated_max(input_packed_size(input));
    return (struct inflation){
        .archive_size = input_packed_size(input), .left = max, .work = 2 * max};
}

int archive_read(struct input *input, const char *path, const struct input_needs *needs,
                 bool (*wanted)(const char *name, const uint8_t *head, size_t size),
                 struct err *err, struct archive_files *files, struct archive_left_out *left_out)
{
    struct inflation inflation = inflation_of(input);
    struct archive archive = {
        .input = input,
        .path = path,
        .needs = needs ? *needs : (struct input_needs){0},
        .wanted = wanted,
        .files = files,
        .left_out = left_out,
    };
    if (!archive.needs.inflation)
        archive.needs.inflation = &inflation;
    const struct kind *kind = kind_recognise(input_bytes(input), input_size(input));
    int r = kind && kind->id == KIND_TAR ? archive_read_tar(&archive, err)
                                         : archive_read_zip(&archive, err);
    if (r < 0 || archive.files->n)
        return r < 0 ? r : 0;
    if (archive.left_out->n)
        return archive_nothing_taken(&archive, -EBADMSG, err);
    err_set(err, -ENOENT, "%s: no trace in this archive", path);
    return err_hint(err, -ENOENT, "nor another file that mmsql reads");
}
